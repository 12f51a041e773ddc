// AttentionView: one heat map of queries by keys, small pictures of every head beside it, and the tokens
// tinted by the row in focus. Explorers of attention are this or extend it. Uses common.js and heat_map.js,
// which Python puts before it.
//
// What is redrawn when: another example or theme redraws all; another layer, head, scale or reference the
// heat map; hovering only the transparent canvas above it, the labels and the tints.

// ---------------------------------------------------------------------------- data

/** The example at an index: its names, its sizes, and views of its bytes among those of all examples. */
function unpack(model, index) {
  const weights = bytesOf(model.get("weights")), masks = bytesOf(model.get("masks"));
  let weightsAt = 0, masksAt = 0;
  for (const [i, example] of model.get("examples").entries()) {
    const [layers, heads, rows, columns] = example.shape;
    const cells = rows * columns, maskBytes = Math.ceil(cells / 8);
    if (i === index) {
      return {
        layers, heads, rows, columns, cells, crossed: example.query_tokens !== null,
        keys: example.tokens.map(visible), queries: (example.query_tokens ?? example.tokens).map(visible),
        weights: weights.subarray(weightsAt), maskOf: example.mask_of,
        mask: (k) => masks.subarray(masksAt + k * maskBytes),
      };
    }
    weightsAt += layers * heads * cells;
    masksAt += example.masks * maskBytes;
  }
}

/** Weights of one head, or of the mean of a layer's heads (head -1). */
function weightsOf(data, layer, head) {
  const heads = head < 0 ? [...Array(data.heads).keys()] : [head];
  const values = new Float32Array(data.cells);
  for (const each of heads) {
    const from = (layer * data.heads + each) * data.cells;
    for (let i = 0; i < data.cells; i++) values[i] += READ[data.weights[from + i]] / heads.length;
  }
  return values;
}

/** Reference of one head as 0 and 1, of any head for the mean; null where there is none. */
function referenceOf(data, layer, head) {
  const chosen = head < 0 ? data.maskOf[layer] : [data.maskOf[layer][head]];
  const indices = [...new Set(chosen)].filter((index) => index >= 0);
  if (!indices.length) return null;
  const cells = new Uint8Array(data.cells);
  for (const index of indices) {
    const bits = data.mask(index);
    for (let i = 0; i < data.cells; i++) cells[i] |= (bits[i >> 3] >> (7 - (i & 7))) & 1;
  }
  return cells;
}

// ---------------------------------------------------------------------------- the view

const range = (count) => [...Array(count).keys()];
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const placeName = (layer, head) => `layer ${layer}, ${head < 0 ? "mean of heads" : `head ${head}`}`;

/**
 * What an explorer that extends it may change: `kind` and `noun`, its name and that of an example; `read`,
 * where an example comes from, and `labelOf`, what the drop-down calls it; `place`, the name of what the heat
 * map shows; `above` and `below`, what stands above the controls and below them.
 */
class AttentionView {
  constructor(model, el) {
    this.model = model;
    this.hover = null; // {q, k} under the pointer; where there is none, the selected row is in focus
    this.key = -1; // the key chosen by the arrow keys within the selected row
    this.stretched = false; // whether the last colour is the largest weight shown rather than 1
    this.build(el);
    this.load();
  }

  // The model may be ahead of the example: another example can have fewer layers, heads or rows.
  get layer() { return clamp(this.model.get("layer"), 0, this.data.layers - 1); }
  get head() { return clamp(this.model.get("head"), -1, this.data.heads - 1); }
  get query() { const query = this.model.get("query"); return query < this.data.rows ? query : -1; }
  get focus() { return this.hover ?? { q: this.query, k: this.query < 0 ? -1 : this.key }; }

  choose(changes) {
    for (const [name, value] of Object.entries(changes)) this.model.set(name, value);
    this.model.save_changes();
  }

  get kind() { return "Attention explorer"; }
  get noun() { return "Example"; }
  read(index) { return unpack(this.model, index); }
  labelOf(example) { return example.label; }
  place() { return placeName(this.layer, this.head); }
  above() { return []; }
  below() { return []; }

  // ---- built once

  build(el) {
    const title = this.model.get("title");
    this.map = new HeatMap({ hover: (place) => this.point(place), pick: (place) => this.pick(place), key: (event) => this.onMapKey(event) });
    this.heads = make("div", { class: "attnx-heads", role: "group", "aria-label": "All heads; the arrow keys move",
      keydown: (event) => this.onHeadsKey(event) });
    this.panels = make("div", { class: "attnx-panels" },
      make("div", { class: "attnx-panel" }, make("p", { class: "attnx-caption" }, "All heads"), this.heads), this.map.node);
    this.readout = make("p", { class: "attnx-readout" });
    this.strips = make("div", { class: "attnx-strips" });
    this.live = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.root = make("section", { class: "attnx", "aria-label": `${this.kind}${title ? `: ${title}` : ""}` },
      ...(title ? [make("p", { class: "attnx-title" }, title)] : []),
      ...this.above(), this.buildControls(), ...this.below(), this.panels, this.readout, this.strips, this.buildTable(), this.live);
    // JupyterLab's command mode would otherwise take the arrow keys.
    this.root.addEventListener("keydown", (event) => event.stopPropagation());
    el.append(this.root);
  }

  buildControls() {
    const select = (title, change, ...options) => make("select", { title, "aria-label": title, change }, ...options);
    const chooser = (name, title) => select(title, (event) => this.choose({ [name]: Number(event.target.value) }));
    const field = (label, control) => make("label", { class: "attnx-field" }, make("span", {}, label), control);
    this.exampleSelect = chooser("example", this.noun);
    this.layerSelect = chooser("layer", "Layer");
    this.headSelect = chooser("head", "Head");
    this.exampleField = field(this.noun, this.exampleSelect);
    const scale = select("What the strongest colour stands for",
      (event) => { this.stretched = event.target.value === "largest"; this.paint(); },
      make("option", { value: "one" }, "0 to 1"), make("option", { value: "largest" }, "0 to largest"));
    this.referenceBox = make("input", { type: "checkbox", change: (event) => this.choose({ show_reference: event.target.checked }) });
    this.referenceField = make("label", { class: "attnx-check", title: "Outline the cells where the query should look" },
      this.referenceBox, make("span", { class: "attnx-swatch" }), make("span", {}, "reference"));
    const saver = (kind) => make("button", { type: "button", class: "attnx-save", title: `Save this heat map as ${kind}`,
      "aria-label": `Save this heat map as ${kind}`, click: () => this.save(kind.toLowerCase()) }, kind);
    return make("div", { class: "attnx-controls" }, this.exampleField, field("Layer", this.layerSelect), field("Head", this.headSelect),
      field("Colours", scale), this.referenceField, make("span", { class: "attnx-savers" }, saver("PNG"), saver("SVG")));
  }

  buildTable() {
    this.table = make("tbody");
    const names = ["query", "1st key", "2nd key", "3rd key"].map((name) => make("th", { scope: "col" }, name));
    this.details = make("details", { class: "attnx-details", toggle: () => this.tabulate() },
      make("summary", {}, "As a table: the three largest weights of every query"),
      make("div", { class: "attnx-scroll", tabindex: "0", role: "group", "aria-label": "Table of weights" },
        make("table", {}, make("thead", {}, make("tr", {}, ...names)), this.table)));
    return this.details;
  }

  // ---- built for every example

  load() {
    const examples = this.model.get("examples"), index = clamp(this.model.get("example"), 0, examples.length - 1);
    const data = (this.data = this.read(index));
    const fill = (select, names, first = 0) =>
      select.replaceChildren(...names.map((name, i) => make("option", { value: i + first }, name)));
    this.hover = null;
    this.key = -1;
    this.exampleField.hidden = examples.length < 2;
    fill(this.exampleSelect, examples.map((example) => this.labelOf(example)));
    this.exampleSelect.value = index;
    this.exampleName = examples.length < 2 ? "" : this.labelOf(examples[index]);
    fill(this.layerSelect, range(data.layers).map(String));
    fill(this.headSelect, ["mean of heads", ...range(data.heads).map(String)], -1);
    this.referenceField.hidden = !data.maskOf.flat().some((mask) => mask >= 0);
    this.buildHeads();
    this.readHeads();
    this.buildStrips();
    this.paint();
  }

  buildHeads() {
    const { data } = this, number = (text) => make("span", { class: "attnx-number", "aria-hidden": "true" }, text);
    this.heads.style.gridTemplateColumns = `auto repeat(${data.heads + 1}, auto)`;
    this.heads.replaceChildren(number(""), number("mean"), ...range(data.heads).map(number));
    this.thumbs = [];
    for (let layer = 0; layer < data.layers; layer++) {
      this.heads.append(number(layer));
      for (let head = -1; head < data.heads; head++) {
        const name = placeName(layer, head), picture = canvas("", 0, 0);
        const button = make("button", { type: "button", class: "attnx-thumb", "aria-label": name, title: name,
          click: () => this.choose({ layer, head }) }, picture);
        this.thumbs.push({ layer, head, button, picture });
        this.heads.append(button);
      }
    }
  }

  readHeads() {
    for (const thumb of this.thumbs) {
      thumb.values = weightsOf(this.data, thumb.layer, thumb.head);
      thumb.largest = thumb.values.reduce((a, b) => Math.max(a, b), 0) || 1;
    }
  }

  /** The tokens as buttons, one for every query; cross-attention has a second line with the keys. */
  buildStrips() {
    const { data } = this;
    this.queryNodes = data.queries.map((token, i) =>
      make("button", { type: "button", class: "attnx-token", "data-query": i, tabindex: i ? -1 : 0 }, token));
    this.keyNodes = data.crossed ? data.keys.map((token) => make("span", { class: "attnx-token" }, token)) : this.queryNodes;
    const strip = (name, nodes, listeners = {}) => make("div", { class: "attnx-strip", role: "group", "aria-label": name, ...listeners },
      make("span", { class: "attnx-label" }, name), ...nodes);
    this.strips.replaceChildren(strip(data.crossed ? "Queries" : "Tokens", this.queryNodes, {
      pointerover: (event) => this.onToken(event), pointerleave: () => this.point(null),
      click: (event) => this.onToken(event), keydown: (event) => this.onTokenKey(event) }),
      ...(data.crossed ? [strip("Keys", this.keyNodes)] : []));
  }

  // ---- drawn for every example, width, theme and scale

  paint() {
    const mode = onDark(this.root) ? "dark" : "light", style = getComputedStyle(this.root);
    this.theme = THEMES[mode];
    this.root.dataset.mode = mode;
    const width = this.root.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (!(width > 0)) return; // in a closed tab or drop-down: called again when it opens
    const columns = this.data.heads + 1, thumb = clamp(Math.floor((Math.min(width, 380) - 24) / columns) - 6, 24, 44);
    const beside = this.map.arrange(this.data, width, 24 + columns * (thumb + 6) + 28);
    this.panels.classList.toggle("attnx-stacked", !beside);
    this.drawHeads(thumb);
    this.show();
  }

  drawHeads(width) {
    const { rows, columns } = this.data, height = Math.round(width * clamp(rows / columns, 0.4, 2.5));
    for (const { picture, values, largest } of this.thumbs) {
      const pen = surface(picture, width, height);
      pen.imageSmoothingEnabled = columns > width;
      pen.imageSmoothingQuality = "high";
      pen.drawImage(bitmap(values, rows, columns, this.stretched ? largest : 1, this.theme), 0, 0, width, height);
    }
  }

  // ---- drawn for every layer and head

  show() {
    const { data, layer, head, map } = this, outlined = this.model.get("show_reference");
    if (!map.cell) return;
    const { values, largest } = this.thumbs[layer * (data.heads + 1) + head + 1];
    this.target = referenceOf(data, layer, head);
    this.view = { values, top: this.stretched ? largest : 1, reference: outlined ? this.target : null,
      queries: data.queries, keys: data.keys,
      title: [this.model.get("title"), this.exampleName, this.place()].filter(Boolean).join(": ") };
    map.caption.textContent = capital(this.place());
    map.stage.setAttribute("aria-label", `${this.view.title}. ${data.rows} queries by ${data.columns} keys. ` +
      "Up and down choose a query, left and right a key, page up and page down a head, escape none.");
    this.layerSelect.value = layer;
    this.headSelect.value = head;
    this.referenceBox.checked = outlined;
    for (const thumb of this.thumbs) {
      const chosen = thumb.layer === layer && thumb.head === head;
      thumb.button.setAttribute("aria-pressed", chosen);
      thumb.button.tabIndex = chosen ? 0 : -1;
    }
    map.draw(this.view, this.theme);
    this.showFocus();
    this.tabulate();
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
    this.tint(q);
    this.readout.textContent = q < 0 ? "Point at a row or a token, or choose one with the arrow keys." : this.describe(q);
  }

  tint(q) {
    const { data, theme, view } = this;
    this.keyNodes.forEach((node, k) => {
      const colour = q < 0 ? null : theme.lut[shade(view.values[q * data.columns + k], view.top)];
      node.style.backgroundColor = colour ? css(colour) : "";
      node.style.color = colour ? (luminance(colour) > 0.45 ? "#101722" : "#ffffff") : "";
    });
    this.queryNodes.forEach((node, i) => {
      node.classList.toggle("attnx-chosen", i === q);
      node.setAttribute("aria-pressed", i === this.query);
    });
  }

  // ---- words

  cellText(q, k) {
    const { queries, keys, columns } = this.data;
    return `query '${queries[q]}' (${q}) → key '${keys[k]}' (${k}): ${format(this.view.values[q * columns + k])}`;
  }

  /** The three largest weights of a row, largest first, as words. */
  largest(q) {
    const { keys, columns } = this.data, row = this.view.values.subarray(q * columns, (q + 1) * columns);
    return [...row.keys()].filter((k) => row[k] > 0).sort((a, b) => row[b] - row[a]).slice(0, 3)
      .map((k) => `'${keys[k]}' (${k}) ${format(row[k])}`);
  }

  describe(q) {
    const { data, target, view } = this, largest = this.largest(q);
    let sum = 0, inside = 0, asked = false;
    for (let i = q * data.columns; i < (q + 1) * data.columns; i++) {
      sum += view.values[i];
      if (target?.[i]) { inside += view.values[i]; asked = true; }
    }
    const share = asked && sum > 0 ? `; ${Math.round((100 * inside) / sum)} % of the row on its reference` : "";
    return `Query '${data.queries[q]}' (${q}) looks most at ${largest.join(", ") || "nothing"}${share}.`;
  }

  /** Says what is selected to a screen reader: never on hovering, which would be noise. */
  announce() {
    const { query, key } = this;
    const row = query < 0 ? "No query selected." : key >= 0 ? `${capital(this.cellText(query, key))}.` : this.describe(query);
    this.live.textContent = `${capital(this.place())}. ${row}`;
  }

  tabulate() {
    if (!this.details.open) return;
    this.table.replaceChildren(...this.data.queries.map((token, q) => make("tr", {},
      make("th", { scope: "row" }, `'${token}' (${q})`), ...this.largest(q).map((text) => make("td", {}, text)))));
  }

  save(kind) {
    const picture = drawing(this.view), name = `${this.view.title.replace(/[^\p{L}\p{N}]+/gu, "-")}.${kind}`;
    if (kind === "svg") download(new Blob([picture.text], { type: "image/svg+xml" }), name);
    else rasterise(picture, name);
  }

  // ---- what the reader does

  /** Selects a row and a key in it (-1: none) and says so. */
  select(q, k) {
    this.key = k;
    if (q !== this.query) this.choose({ query: q });
    else this.onQuery(); // the model has not changed, but the key may have
  }

  onQuery() {
    this.showFocus();
    if (!this.view) return;
    this.announce();
    if (!this.hover) this.map.reveal(this.query, this.key);
  }

  pick({ q, k }) {
    const again = q === this.query && k === this.key;
    this.select(again ? -1 : q, again ? -1 : k);
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
    else this.select(...moves[event.key]);
  }

  onToken(event) {
    const at = event.target.dataset.query;
    if (at === undefined) return;
    if (event.type === "pointerover") this.point({ q: Number(at), k: -1 });
    else this.pick({ q: Number(at), k: -1 });
  }

  onTokenKey(event) {
    const at = Number(event.target.dataset.query), last = this.data.rows - 1;
    const next = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: last, Escape: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.hover = null;
    if (event.key === "Escape") return this.select(-1, -1);
    const chosen = clamp(next, 0, last);
    this.queryNodes.forEach((node, i) => { node.tabIndex = i === chosen ? 0 : -1; });
    this.queryNodes[chosen].focus();
    this.select(chosen, -1);
  }

  onHeadsKey(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const { layers, heads } = this.data;
    this.choose({ layer: clamp(this.layer + step[0], 0, layers - 1), head: clamp(this.head + step[1], -1, heads - 1) });
    this.thumbs[this.layer * (heads + 1) + this.head + 1].button.focus();
  }
}
