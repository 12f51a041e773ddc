// AttentionView: one heat map of queries by keys, small pictures of every head beside it, and the tokens tinted by
// the row in focus. Explorers of attention are this or extend it.
//
// What is redrawn when: another item or theme redraws all; another layer, head, scale or reference the heat
// map; hovering only the transparent canvas above it, the labels and the tints.
//
// May be touched for: how the parts follow what the reader chooses. The parts themselves are in their files.

import { capital, clamp, foreign, format, largestOf, LONGEST, make, order, range } from "./common.js";
import { BLANK, shade, tintNode } from "./themes.js";
import { checkbox, dropDown, field, folded, offer, tableHead, tableRow, View } from "./view.js";
import { HeatMap } from "./heat_map.js";
import { Lines } from "./lines.js";
import { placeName, referenceOf, unpack, weightsOf } from "./attention_data.js";
import { HeadPictures } from "./head_pictures.js";
import "./attention_view.css";

/**
 * What an explorer that extends it may change: `kind` and `noun`, its name and that of an item; `read`,
 * where an item comes from; `place`, the name of what the heat map shows; `above` and `below`, what stands above
 * the controls and below them.
 */
export class AttentionView extends View {
  constructor(model, el) {
    super(model);
    this.hover = null; // {q, k} under the pointer; where there is none, the selected row is in focus
    this.build(el);
    this.load();
  }

  // The model may be ahead of the item: another one can have fewer layers, heads or rows.
  get layer() { return clamp(this.model.get("layer"), 0, this.data.layers - 1); }
  get head() { return clamp(this.model.get("head"), -1, this.data.heads - 1); }
  get query() { const query = this.model.get("query"); return query < this.data.rows ? query : -1; }
  get key() { const key = this.model.get("key"); return this.query >= 0 && key < this.data.columns ? key : -1; }
  get focus() { return this.hover ?? { q: this.query, k: this.key }; }
  get shown() { return [this.itemName, this.place()]; }

  get kind() { return "Attention explorer"; }
  get noun() { return "Example"; }
  unpacked(index) { return unpack(this.model, index); }
  place() { return placeName(this.layer, this.head); }
  above() { return []; }
  below() { return []; }

  // ---- built once

  build(el) {
    const react = { hover: (place) => this.point(place), pick: (place) => this.pick(place), key: (event) => this.onMapKey(event), zoom: (step) => this.zoomBy(step) };
    this.map = new HeatMap(react);
    this.lines = new Lines(react);
    this.heads = new HeadPictures((place) => this.choose(place), () => this.onHeadAgain());
    this.map.frame.after(this.lines.node);
    this.panels = make("div", { class: "attnx-panels" }, this.heads.panel, this.map.node);
    this.readout = make("p", { class: "attnx-readout" });
    this.strips = make("div", { class: "attnx-strips" });
    this.table = make("tbody");
    this.details = folded("As a table: the three largest weights of every query", "Table of weights",
      make("table", {}, tableHead("query", "1st key", "2nd key", "3rd key"), this.table), () => this.tabulate());
    this.live = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.mount(el, this.kind, "attnx", ...this.above(), this.buildControls(), ...this.below(), this.panels, this.readout,
      this.strips, this.details, this.live);
  }

  buildControls() {
    const chooser = (name, title) => dropDown(title, (value) => this.choose({ [name]: Number(value) }), [], { title });
    this.layerSelect = chooser("layer", "Layer");
    this.headSelect = chooser("head", "Head");
    this.form = dropDown("Drawn as: how attention is drawn", (drawn) => this.choose({ drawn }), [["map", "heat map"], ["lines", "lines"]], { title: "How attention is drawn" });
    [this.referenceBox, this.referenceField] = checkbox((on) => this.choose({ show_reference: on }),
      { title: "Outline the cells where the query should look" }, make("span", { class: "attnx-swatch" }), make("span", {}, "reference"));
    return make("div", { class: "attnx-controls" }, this.buildItems(this.noun), field("Layer", this.layerSelect), field("Head", this.headSelect),
      field("Drawn as", this.form), this.buildColours("0 to 1", "0 to largest"), this.referenceField);
  }

  // ---- built for every item

  load() {
    const data = (this.data = this.read(this.chosenItem()));
    this.hover = null;
    this.columns = data.columns;
    this.tellLength(Math.max(data.rows, data.columns));
    offer(this.layerSelect, range(data.layers).map((layer) => [layer, layer]));
    offer(this.headSelect, [[-1, "mean of heads"], ...range(data.heads).map((head) => [head, head])]);
    this.referenceField.hidden = !data.maskOf.flat().some((mask) => mask >= 0);
    this.buildHeads();
    this.readHeads();
    this.buildStrips();
    this.paint();
    this.reveal();
  }

  onHeadAgain() {} // the chosen head is clicked once more
  buildHeads() { this.heads.build(this.data, this.layer); }
  readHeads() { this.heads.forget(); }
  drawHeads() { this.heads.draw(this.theme, this.stretched, this.printing); }

  /** The tokens as buttons, one for every query; cross-attention has a second line with the keys. */
  buildStrips() {
    const { data } = this;
    this.queryNodes = data.queries.slice(0, LONGEST).map((token, i) =>
      make("button", { type: "button", class: "attnx-token", "data-query": i }, token));
    this.keyNodes = data.crossed ? data.keys.slice(0, LONGEST).map((token) => make("span", { class: "attnx-token" }, token)) : this.queryNodes;
    const strip = (name, nodes, listeners = {}) => make("div", { class: "attnx-strip", role: "group", "aria-label": name, ...listeners },
      make("span", { class: "attnx-label" }, name), ...nodes);
    this.strips.replaceChildren(strip(data.crossed ? "Queries" : "Tokens", this.queryNodes, {
      pointerover: (event) => this.onToken(event), pointerleave: () => this.point(null),
      click: (event) => this.onToken(event), keydown: (event) => this.onTokenKey(event) }),
      ...(data.crossed ? [strip("Keys", this.keyNodes)] : []));
  }

  // ---- drawn for every item, width, theme and scale

  paint(heads = true) {
    const width = this.dress();
    if (!width) return; // called again when there is one
    const beside = this.map.arrange(this.data, width, this.heads.arrange(width) + 28, this.zoom), lines = this.model.get("drawn") === "lines";
    this.form.value = lines ? "lines" : "map"; // one stands in the place of the other
    this.map.frame.hidden = lines;
    this.map.zoomer.hidden ||= lines;
    this.lines.node.hidden = !lines;
    this.panels.classList.toggle("attnx-stacked", !beside);
    if (heads) this.drawHeads();
    this.show();
  }

  // ---- drawn for every layer and head

  show() {
    const { data, layer, head, map } = this, outlined = this.model.get("show_reference");
    if (!map.cell) return;
    if (!this.heads.holds(layer)) {
      this.buildHeads();
      this.readHeads();
      this.drawHeads();
    }
    this.readShown();
    const { values } = this, largest = this.heads.at(layer, head)?.largest ?? (largestOf(values) || 1);
    this.view = { values, top: this.stretched ? largest : 1, reference: outlined ? this.target : null, queries: data.queries, keys: data.keys };
    map.caption.textContent = capital(this.place());
    map.stage.setAttribute("aria-label", `${this.name}. ${data.rows} queries by ${data.columns} keys. ` +
      "Up and down choose a query, left and right a key, page up and page down a head, escape none.");
    this.layerSelect.value = layer;
    this.headSelect.value = head;
    this.referenceBox.checked = outlined;
    this.heads.mark(layer, head);
    map.draw(this.view, this.theme);
    this.lines.draw(this.view, this.theme, map.node.clientWidth);
    this.showFocus();
    this.tabulate();
  }

  /** The weights and the reference of the head shown; another width, scale or theme reads them no second time. */
  readShown() {
    const { data, layer, head } = this, of = [data.weights, layer, head];
    if (of.every((each, i) => each === this.readOf?.[i])) return;
    Object.assign(this, { readOf: of, values: weightsOf(data, layer, head), target: referenceOf(data, layer, head) });
  }

  // ---- drawn for every row in focus: all the work of a hover

  point(place) {
    if (place?.q === this.hover?.q && place?.k === this.hover?.k) return;
    this.hover = place;
    this.showFocus();
  }

  showFocus() {
    if (!this.view) return;
    const { q, k } = this.focus;
    this.map.focus(q, k, this.hover && k >= 0 ? this.cellText(q, k) : "");
    this.lines.focus(q, k);
    this.tint(q);
    this.say(q < 0 ? "" : this.describe(q, k), "Point at a row or a token, or choose one with the arrow keys.");
  }

  tint(q) {
    const { data, query, queryNodes, theme, view } = this, reachable = clamp(query, 0, queryNodes.length - 1); // by the tab key
    this.keyNodes.forEach((node, k) =>
      tintNode(node, q < 0 ? BLANK : theme.above[shade(view.values[q * data.columns + k], view.top)]));
    queryNodes.forEach((node, i) => {
      node.classList.toggle("attnx-chosen", i === q);
      node.setAttribute("aria-pressed", i === query);
      node.tabIndex = i === reachable ? 0 : -1;
    });
  }

  // ---- words

  /** The position in the text of a row that is shown. */
  at(row) { return row; }

  cellText(q, k) {
    const { queries, keys, columns } = this.data;
    return `query '${queries[q]}' (${this.at(q)}) → key '${keys[k]}' (${k}): ${format(this.view.values[q * columns + k])}`;
  }

  /** The three largest weights of a row, largest first, as words. */
  largest(q) {
    const { keys, columns } = this.data, row = this.view.values.subarray(q * columns, (q + 1) * columns);
    return order(row, 3).map((k) => `'${keys[k]}' (${k}) ${format(row[k])}`);
  }

  describe(q, k = -1) {
    const { data, target, view } = this, largest = this.largest(q);
    let sum = 0, inside = 0, asked = false;
    for (let i = q * data.columns; i < (q + 1) * data.columns; i++) {
      sum += view.values[i];
      if (target?.[i]) { inside += view.values[i]; asked = true; }
    }
    const share = asked && sum > 0 ? `; ${Math.round((100 * inside) / sum)} % of the row on its reference` : "";
    const on = k < 0 ? "" : ` On '${data.keys[k]}' (${k}): ${format(view.values[q * data.columns + k])}.`;
    return `Query '${data.queries[q]}' (${this.at(q)}) looks most at ${largest.join(", ") || "nothing"}${share}.${on}`;
  }

  /** Says what is selected to a screen reader: never on hovering, which would be noise. */
  announce() {
    const { query, key } = this;
    const row = query < 0 ? "No query selected." : key >= 0 ? `${capital(this.cellText(query, key))}.` : this.describe(query);
    this.live.textContent = `${capital(this.place())}. ${row}`;
  }

  /** The weights of the head shown, as rows for a file. */
  * numbers() {
    const { data: { queries, keys, rows, columns }, target, values } = this, places = queries.map((_, q) => this.at(q));
    yield ["query", "query token", "key", "key token", "weight", ...(target ? ["reference"] : [])];
    for (let q = 0, i = 0; q < rows; q++) {
      for (let k = 0; k < columns; k++, i++) yield [places[q], queries[q], k, keys[k], values[i], ...(target ? [target[i]] : [])];
    }
  }

  tabulate() {
    if (!this.details.open) return;
    this.table.replaceChildren(...this.data.queries.slice(0, LONGEST).map((token, q) => tableRow(`'${token}' (${this.at(q)})`, ...this.largest(q))));
  }

  // ---- what the reader does

  /** What a change of each trait redraws. */
  reactions() {
    const showAll = () => { this.show(); this.announce(); }, loadAll = () => { this.load(); this.announce(); };
    const query = () => this.onQuery();
    return { item: loadAll, layer: showAll, head: showAll, show_reference: () => this.show(), query, key: query,
      colours: () => this.paint(), drawn: () => { this.paint(false); this.reveal(); } };
  }

  onQuery() {
    this.showFocus();
    if (!this.view) return;
    this.announce();
    if (!this.hover) this.reveal();
  }

  reveal() {
    this.map.reveal(this.query, this.key);
    this.lines.reveal(this.query);
  }

  pick({ q, k }) {
    const again = q === this.query && k === this.key;
    this.choose(again ? { query: -1, key: -1 } : { query: q, key: k });
  }

  onMapKey(event) {
    const { data, query, key } = this, last = data.rows - 1;
    const moves = {
      ArrowUp: [Math.max(query - 1, 0), key], ArrowDown: [Math.min(query + 1, last), key],
      ArrowLeft: [Math.max(query, 0), Math.max(key - 1, 0)], ArrowRight: [Math.max(query, 0), Math.min(key + 1, data.columns - 1)],
      Home: [0, key], End: [last, key], Escape: [-1, -1],
    };
    const head = { PageUp: -1, PageDown: 1 }[event.key];
    if (!moves[event.key] && !head) return;
    event.preventDefault();
    this.hover = null;
    if (head) this.choose({ head: clamp(this.head + head, -1, data.heads - 1) });
    else this.choose({ query: moves[event.key][0], key: moves[event.key][1] });
  }

  onToken(event) {
    const at = event.target.dataset.query;
    if (at === undefined) return;
    if (event.type === "pointerover") this.point({ q: Number(at), k: -1 });
    else this.pick({ q: Number(at), k: -1 });
  }

  onTokenKey(event) {
    if (foreign(event)) return;
    const at = Number(event.target.dataset.query), last = this.queryNodes.length - 1;
    const next = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: last, Escape: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.hover = null;
    if (event.key === "Escape") return this.choose({ query: -1, key: -1 });
    const chosen = clamp(next, 0, last);
    this.queryNodes[chosen].focus();
    this.choose({ query: chosen, key: -1 });
  }
}
