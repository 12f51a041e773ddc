// GenerationView: the prompt as text, tinted by what one generated token drew on; two heat maps with the
// prompt's tokens as columns, one of that token in every layer, one of all generated tokens.
//
// What is redrawn when: another item, width or theme redraws all; another layer, scale or filter the heat map
// of all tokens; another generated token, chosen or pointed at, the tints, the list and its own heat map.
//
// May be touched for: how the parts follow what the reader chooses and what the model writes. The parts themselves
// are in their files; where rows come from is the business of who extends it.

import { clamp, foreign, isolated, LONGEST, make, order, range, sum, visible } from "./common.js";
import { checkbox, field, folded, tableHead, tableRow, View } from "./view.js";
import { HeatMap } from "./heat_map.js";
import { cellText, describe, largest, layerNumber, rowOf, stack, tokenName, topOf } from "./generation_data.js";
import { Passage } from "./passage.js";
import "./generation_view.css";

/**
 * What an explorer that extends it says: `read`, where an item comes from (see generation_data.js); `above`, what stands
 * above the controls; `kind` and `noun`, its name and that of an item; `writing`, whether rows are still coming; `told`, called when there are more of them or none to come.
 */
export class GenerationView extends View {
  constructor(model, el) {
    super(model);
    this.hover = {}; // what is under the pointer: generated token g, prompt token k, layer, and in which map
    this.followed = -1; // while the model writes: its newest token, until the reader chooses one
    this.build(el);
    this.load();
  }

  // The model may be ahead of the item: another one can have fewer layers or tokens.
  get layer() { return clamp(this.model.get("layer"), -1, this.data.layers - 1); }
  get generated() { return clamp(this.followed < 0 ? this.model.get("generated") : this.followed, 0, this.data.rows.length - 1); }
  get key() { const key = this.model.get("key"); return key < this.data.columns ? key : -1; }
  get focus() { return { g: this.hover.g ?? this.generated, layer: this.hover.layer ?? this.layer, k: this.hover.k ?? this.key }; }
  get hidden() { return this.model.get("filtered") ? this.data.ignored : null; }

  get kind() { return "Generation explorer"; }
  get noun() { return "Example"; }
  get shown() { return [this.itemName, `${tokenName(this.data, this.generated)}, ${this.data.at(this.layer)}`]; }

  // ---- built once

  build(el) {
    this.passage = new Passage({ point: (place) => this.point(place), pick: (place) => this.pick(place),
      key: (event) => this.onTokenKey(event) });
    this.tokenMap = this.buildMap("layer");
    this.allMap = this.buildMap("g");
    this.panels = make("div", { class: "attnx-panels attng-maps" }, this.tokenMap.node, this.allMap.node);
    this.readout = make("p", { class: "attnx-readout" });
    this.status = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.table = make("tbody");
    this.details = folded("As a table: the three largest entries of every generated token", "Table of entries",
      make("table", {}, tableHead("generated", "1st prompt token", "2nd", "3rd"), this.table), () => this.tabulate());
    this.picture = make("div", {}, this.buildControls(), this.passage.node, this.readout, this.panels, this.details);
    this.mount(el, this.kind, "attnx attng", ...this.above(), this.picture, this.status);
  }

  /** A heat map whose rows are layers (`row` "layer") or generated tokens ("g"). */
  buildMap(row) {
    const map = new HeatMap({
      hover: (place) => this.point(place ? { [row]: place.q, ...(place.k < 0 ? {} : { k: place.k }), map } : {}),
      pick: ({ q, k }) => this.pickCell(row, q, k),
      key: (event) => this.onMapKey(event, row), zoom: (step) => this.zoomBy(step),
    });
    map.corner.replaceChildren(make("span", {}, "prompt →"), make("span", {}, row === "g" ? "token ↓" : "layer ↓"));
    map.stage.addEventListener("scroll", () => { // both maps have the same columns
      for (const other of [this.tokenMap, this.allMap]) other.stage.scrollLeft = map.stage.scrollLeft;
    });
    return map;
  }

  buildControls() {
    this.slider = make("input", { type: "range", min: "-1", step: "1", "aria-label": "Layer",
      input: (event) => this.choose({ layer: Number(event.target.value) }) });
    this.layerName = make("output", { class: "attng-layer" });
    this.filterName = make("span", {});
    [this.filterBox, this.filterField] = checkbox((on) => this.choose({ filtered: on }), {}, this.filterName);
    return make("div", { class: "attnx-controls" }, this.buildItems(this.noun), field("Layer", this.slider, this.layerName),
      this.buildColours("", "0 to largest"), this.filterField);
  }

  // ---- built for every item

  load() {
    const before = this.data, index = this.chosenItem(), data = (this.data = index < 0 ? null : this.read(index));
    const other = String(before?.prompt) !== String(data?.prompt); // text
    this.picture.hidden = this.tools.hidden = !data;
    this.told();
    if (!data) return void this.dress();
    if (this.writing && data.rows.length === 1) this.followed = 0;
    this.hover = {};
    if (before && this.key >= 0 && other) this.choose({ key: -1 });
    this.columns = data.columns;
    this.tellLength(Math.max(data.columns, data.rows.length));
    this.colours.options[0].textContent = data.shares ? "0 to 1" : `0 to ${data.number(data.scale)}`;
    this.slider.max = data.layers - 1;
    this.slider.parentElement.hidden = data.layers < 2;
    const ignored = sum(data.ignored);
    this.filterField.hidden = !ignored;
    this.filterName.textContent = `hide ${ignored} uninformative token${ignored > 1 ? "s" : ""}`;
    for (const map of [this.tokenMap, this.allMap]) map.measure(data.measure);
    this.passage.write(data);
    this.paint();
    this.reveal();
    if (other && this.key < 0) this.allMap.reveal(-1, order(rowOf(data, this.generated, this.layer, this.hidden), 1)[0]); // not on blank ones
  }

  // ---- drawn for every width and theme

  paint() {
    const width = this.dress(), { data } = this;
    if (!width || !data) return; // called again when there are both
    // Given the labels of both, the two maps get the same columns.
    const both = { queries: [...data.queries, ...this.layerLabels()], keys: data.keys }, half = (width - 28) / 2;
    const beside = half > 330 && (!this.printing || (half - 120) / data.columns >= 13); // on paper nothing scrolls
    for (const map of [this.tokenMap, this.allMap]) map.arrange(both, beside ? half : width, 0, this.zoom);
    this.panels.classList.toggle("attnx-stacked", !beside);
    this.show();
  }

  layerLabels() { return range(this.data.layers).map(layerNumber); }

  // ---- drawn for every layer, scale and filter

  show() {
    const { data, layer, allMap: map, model } = this;
    if (!map.cell) return;
    this.slider.value = layer;
    this.slider.setAttribute("aria-valuetext", data.at(layer));
    this.layerName.textContent = data.at(layer);
    this.filterBox.checked = model.get("filtered");
    map.caption.textContent = `Every generated token, ${data.at(layer)}`;
    this.drawMap(map, range(data.rows.length).map((g) => rowOf(data, g, layer, this.hidden)), data.queries);
    map.stage.setAttribute("aria-label", `${this.named(map)}. ${data.rows.length} generated by ${data.columns} prompt tokens. ` +
      "Up and down choose a generated token, left and right a prompt token, page up and page down a layer.");
    this.drawn = -1;
    this.showFocus();
    this.tabulate();
  }

  drawMap(map, rows, queries) {
    const { data } = this, values = stack(rows, data.columns);
    map.draw({ values, queries, keys: data.keys, reference: null, signed: data.signed, top: this.topOf(values) }, this.theme);
  }

  named(map) { return [this.model.get("title"), this.itemName, map.caption.textContent].filter(Boolean).join(": "); }

  topOf(values) { return this.stretched ? topOf(values) || 1 : this.data.scale; }

  // ---- drawn for every token in focus: all the work of a hover

  point(place) {
    const { g, k, layer, map } = this.hover;
    if (place.g === g && place.k === k && place.layer === layer && place.map === map) return;
    this.hover = place;
    this.showFocus();
  }

  showFocus() {
    if (!this.allMap.view) return;
    const { data, tokenMap, allMap, hover } = this, { g, layer, k } = this.focus;
    if (this.drawn !== g) {
      this.drawn = g;
      tokenMap.caption.textContent = isolated(`${tokenName(data, g)} in every layer`);
      this.drawMap(tokenMap, range(data.layers).map((each) => rowOf(data, g, each, this.hidden)), this.layerLabels());
      tokenMap.stage.setAttribute("aria-label", `${this.named(tokenMap)}. ${data.layers} layers by ${data.columns} prompt tokens. ` +
        "Up and down choose a layer, left and right a prompt token, page up and page down a generated token.");
    }
    this.row = rowOf(data, g, layer);
    const shown = this.hidden ? this.row.map((value, i) => (this.hidden[i] ? 0 : value)) : this.row;
    const tip = hover.k >= 0 && hover.map ? cellText(data, this.row, g, layer, k) : "";
    tokenMap.focus(layer, k, hover.map === tokenMap ? tip : "");
    allMap.focus(g, k, hover.map === allMap ? tip : "");
    this.passage.tint(shown, this.topOf(shown), k, this.hidden, this.theme);
    this.passage.mark(g, this.generated);
    this.passage.fill(shown, g, layer);
    this.say(describe(data, g, layer, k, this.hidden), "");
  }

  // ---- words

  /** Says what is selected to a screen reader: never on hovering, which would be noise. */
  announce() {
    if (!this.data?.rows.length) return;
    const { data, layer, key, hidden, generated: g } = this, most = largest(data, rowOf(data, g, layer, hidden));
    this.status.textContent = `${tokenName(data, g)}, ${data.at(layer)}, is attributed most to ${most.join(", ") || "nothing shown"}. ` +
      describe(data, g, layer, key, hidden);
  }

  /** All generated tokens in the layer shown, and the chosen one in the others, as rows for a file. */
  * numbers() {
    const { data, generated, layer } = this, others = range(data.layers).filter((each) => each !== layer);
    const places = [...range(data.rows.length).map((g) => [g, layer]), ...others.map((each) => [generated, each])];
    yield ["generated", "generated token", "layer", "prompt", "prompt token", data.measure];
    for (const [g, each] of places) {
      const row = rowOf(data, g, each), [token, name] = [data.queries[g], each < 0 ? "mean" : layerNumber(each)];
      for (let k = 0; k < row.length; k++) yield [g, token, name, k, data.keys[k], row[k]];
    }
  }

  tabulate() {
    if (!this.details.open) return;
    const { data, layer } = this;
    this.table.replaceChildren(...data.queries.slice(0, LONGEST).map((_, g) =>
      tableRow(tokenName(data, g), ...largest(data, rowOf(data, g, layer, this.hidden)))));
  }

  // ---- what the reader does

  /** Chooses a generated token, a layer or a prompt token, and says so. */
  select({ g = this.generated, layer = this.layer, k = this.key }) {
    this.hover = {};
    if (this.followed >= 0 && g !== this.generated) this.followed = -1;
    this.choose({ key: k, layer, ...(this.followed < 0 ? { generated: g } : {}) });
  }

  onChoice() {
    if (!this.data) return;
    this.showFocus();
    this.announce();
    if (!this.hover.map) this.reveal();
  }

  reveal() {
    this.tokenMap.reveal(this.layer, this.key);
    this.allMap.reveal(this.generated, this.key);
  }

  pick(place) {
    if (place.k !== undefined) this.select({ k: place.k === this.key ? -1 : place.k });
    else if (place.g !== undefined) this.select(place);
  }

  pickCell(row, q, k) {
    const again = q === this[row === "g" ? "generated" : "layer"] && k === this.key;
    if (row === "layer") this.select({ layer: again ? -1 : q, k: again ? -1 : k });
    else this.select({ g: q, k: again ? -1 : k });
  }

  onMapKey(event, row) {
    const { data, layer, generated: g, key: k } = this, up = event.key === "ArrowUp" ? -1 : 1;
    const moveLayer = (step) => ({ layer: clamp(layer + step, -1, data.layers - 1) });
    const moveToken = (step) => ({ g: clamp(g + step, 0, data.rows.length - 1) });
    const [along, across] = row === "g" ? [moveToken, moveLayer] : [moveLayer, moveToken];
    const moves = {
      ArrowUp: along(up), ArrowDown: along(up), Home: along(-Infinity), End: along(Infinity),
      PageUp: across(-1), PageDown: across(1),
      ArrowLeft: { k: Math.max(k - 1, 0) }, ArrowRight: { k: Math.min(k + 1, data.columns - 1) }, Escape: { k: -1, layer: -1 },
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    this.select(moves[event.key]);
  }

  onTokenKey(event) {
    if (foreign(event)) return;
    const { generated: g, data, layer } = this, last = this.passage.generatedNodes.length - 1;
    const next = { ArrowLeft: g - 1, ArrowUp: g - 1, ArrowRight: g + 1, ArrowDown: g + 1, Home: 0, End: last }[event.key];
    const step = { PageUp: -1, PageDown: 1 }[event.key];
    if (next === undefined && !step) return;
    event.preventDefault();
    if (step) return this.select({ layer: clamp(layer + step, -1, data.layers - 1) });
    this.select({ g: clamp(next, 0, last) });
    this.passage.generatedNodes[this.generated].focus();
  }

  // ---- rows come

  /** A further generated token, as text, and its row. */
  grow(word, row) {
    const { data } = this;
    data.rows.push(row);
    data.generated.push(word);
    data.queries.push(visible(word));
    if (this.followed >= 0) this.followed = data.rows.length - 1;
    this.passage.writeGenerated();
    this.paint();
    this.told();
  }

  /** No more rows come: if the newest was followed, it is chosen, or another one. */
  settle(chosen = null) {
    if (this.followed >= 0) {
      const generated = chosen ?? this.generated;
      this.followed = -1;
      if (this.model.get("generated") === generated) this.onChoice(); // of an earlier text
      else this.choose({ generated });
    }
    this.told();
  }

  // ---- what the model says

  reactions() {
    const showAll = () => { if (this.data) { this.show(); this.announce(); } };
    return {
      item: () => { this.load(); this.announce(); }, items: () => this.load(),
      layer: () => { if (this.data) this.show(); this.onChoice(); }, generated: () => this.onChoice(), key: () => this.onChoice(),
      filtered: showAll, colours: () => this.paint(),
    };
  }
}
