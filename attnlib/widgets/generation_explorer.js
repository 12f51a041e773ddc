// GenerationExplorer: the prompt as text, tinted by what one generated token drew on; two heat maps with the
// prompt's tokens as columns, one of that token in every layer, one of all generated tokens. Uses common.js,
// heat_map.js and inflate.js, which Python puts before it.
//
// What is redrawn when: another example, width or theme redraws all; another layer, scale or filter the heat
// map of all tokens; another generated token, chosen or pointed at, the tints, the list and its own heat map.

// ---------------------------------------------------------------------------- data

/** The example at an index; `rows` holds the bytes [layer prompt] of every generated token. */
function unpack(model, index) {
  const examples = model.get("examples"), example = examples[index];
  const from = examples.slice(0, index).reduce((sum, { bytes }) => sum + bytes, 0);
  const [generated, columns, layers] = example.shape, cells = layers * columns;
  const all = inflate(bytesOf(model.get("weights")).subarray(from, from + example.bytes), generated * cells);
  const ignored = new Uint8Array(columns);
  for (const k of example.ignored) ignored[k] = 1;
  return {
    ...example, columns, layers, cells, ignored, keys: example.prompt.map(visible), queries: example.generated.map(visible),
    rows: range(generated).map((g) => all.subarray(g * cells, (g + 1) * cells)),
    read: example.shares ? READ : READ.map((share) => example.scale * share * share),
  };
}

/** What token g drew on in one layer, or in the mean over layers (-1); hidden tokens are 0. */
function rowOf(data, g, layer, hidden) {
  const values = new Float32Array(data.columns), { rows, read, columns } = data;
  for (const each of layer < 0 ? range(data.layers) : [layer]) {
    for (let k = 0, at = each * columns; k < columns; k++, at++) values[k] += read[rows[g][at]];
  }
  const parts = layer < 0 ? data.layers : 1;
  return values.map((value, k) => (hidden?.[k] ? 0 : value / parts));
}

/** Rows one below the other, as a heat map takes them. */
function stack(rows, columns) {
  const values = new Float32Array(rows.length * columns);
  rows.forEach((row, i) => values.set(row, i * columns));
  return values;
}

const range = (count) => [...Array(count).keys()];
const largestOf = (values) => values.reduce((a, b) => Math.max(a, b), 0);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const layerName = (layer) => (layer < 0 ? "mean over layers" : `layer ${layer}`);

/** As many digits as are right: shares are stored as square roots, other values as fourth roots. */
function number(value, { shares, scale }) {
  if (shares) return format(value);
  if (!(value > 0)) return "0";
  const error = scale * ((value / scale) ** 0.25 + 0.5 / 255) ** 4 - value;
  const digits = Math.min(Math.floor(-Math.log10(2 * error)), 3);
  if (digits > 0 && value < 0.5 / 10 ** digits) return `<${10 ** -digits}`;
  return digits >= 0 ? value.toFixed(digits) : String(Math.round(value * 10 ** digits) / 10 ** digits);
}

/**
 * Tokens as running text: a blank before a word is a space between nodes, after a line break the line ends.
 * `wrap` makes the node of one token.
 */
function written(words, wrap) {
  return words.flatMap((word, i) => {
    const blank = /^ [^]*[^\s]/u.test(word), node = wrap(visible(blank ? word.slice(1) : word), i);
    return [...(blank ? [" "] : []), node, ...(word.endsWith("\n") ? [make("br")] : [])];
  });
}

// ---------------------------------------------------------------------------- the explorer

const TOP = 8; // entries of the list

class Explorer {
  constructor(model, el) {
    this.model = model;
    this.hover = {}; // what is under the pointer: generated token g, prompt token k, layer, and in which map
    this.key = -1; // the prompt token chosen by click or arrow keys
    this.followed = -1; // while the model writes: its newest token, until the reader chooses one
    this.stretched = true; // whether the last colour is the largest value shown rather than 1
    this.build(el);
    this.load();
  }

  // The model may be ahead of the example: another example can have fewer layers or tokens.
  get layer() { return clamp(this.model.get("layer"), -1, this.data.layers - 1); }
  get generated() { return clamp(this.followed < 0 ? this.model.get("generated") : this.followed, 0, this.data.rows.length - 1); }
  get focus() { return { g: this.hover.g ?? this.generated, layer: this.hover.layer ?? this.layer, k: this.hover.k ?? this.key }; }
  get hidden() { return this.model.get("filtered") ? this.data.ignored : null; }

  choose(changes) {
    for (const [name, value] of Object.entries(changes)) this.model.set(name, value);
    this.model.save_changes();
  }

  // ---- built once

  build(el) {
    const title = this.model.get("title"), caption = (text) => make("p", { class: "attnx-caption" }, text);
    this.promptText = make("div", { class: "attng-text", role: "group", "aria-label": "Prompt", tabindex: "0" });
    this.generatedText = make("div", { class: "attng-text", role: "group", "aria-label": "Generated tokens; the arrow keys move",
      keydown: (event) => this.onTokenKey(event) });
    this.promptCaption = caption("Prompt");
    this.list = make("ol", { class: "attng-top" });
    this.listCaption = caption("");
    const passage = make("div", { class: "attng-passage" }, this.promptCaption, this.promptText, caption("Generated"), this.generatedText);
    const body = make("div", { class: "attng-body" }, passage, make("div", { class: "attng-list" }, this.listCaption, this.list));
    for (const [event, react] of [["pointerover", this.onPoint], ["click", this.onPick]]) {
      body.addEventListener(event, react.bind(this));
    }
    body.addEventListener("pointerleave", () => this.point({}));
    this.tokenMap = this.buildMap("layer");
    this.allMap = this.buildMap("g");
    this.panels = make("div", { class: "attnx-panels attng-maps" }, this.tokenMap.node, this.allMap.node);
    this.readout = make("p", { class: "attnx-readout" });
    this.status = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.picture = make("div", {}, this.buildControls(), body, this.readout, this.panels, this.buildTable());
    this.root = make("section", { class: "attnx attng", "aria-label": `Generation explorer${title ? `: ${title}` : ""}` },
      ...(title ? [make("p", { class: "attnx-title" }, title)] : []), ...this.buildBox(), this.picture, this.status);
    // JupyterLab's command mode would otherwise take the arrow keys.
    this.root.addEventListener("keydown", (event) => event.stopPropagation());
    el.append(this.root);
  }

  /** A heat map whose rows are layers (`row` "layer") or generated tokens ("g"). */
  buildMap(row) {
    const map = new HeatMap({
      hover: (place) => this.point(place ? { [row]: place.q, ...(place.k < 0 ? {} : { k: place.k }), map } : {}),
      pick: ({ q, k }) => this.pickCell(row, q, k),
      key: (event) => this.onMapKey(event, row),
    });
    map.corner.replaceChildren(make("span", {}, "prompt →"), make("span", {}, row === "g" ? "token ↓" : "layer ↓"));
    const saver = (kind) => make("button", { type: "button", class: "attnx-save", title: `Save as ${kind}`,
      "aria-label": `Save ${row === "g" ? "all generated tokens" : "the token in every layer"} as ${kind}`,
      click: () => this.save(map, kind.toLowerCase()) }, kind);
    map.heading = make("span", {});
    map.caption.append(map.heading, make("span", { class: "attnx-savers" }, saver("PNG"), saver("SVG")));
    map.stage.addEventListener("scroll", () => { // both maps have the same columns
      for (const other of [this.tokenMap, this.allMap]) other.stage.scrollLeft = map.stage.scrollLeft;
    });
    return map;
  }

  buildControls() {
    const field = (name, ...controls) => make("label", { class: "attnx-field" }, make("span", {}, name), ...controls);
    this.exampleSelect = make("select", { "aria-label": "Example", change: (event) => this.choose({ example: Number(event.target.value) }) });
    this.exampleField = field("Example", this.exampleSelect);
    this.slider = make("input", { type: "range", min: "-1", step: "1", "aria-label": "Layer",
      input: (event) => this.choose({ layer: Number(event.target.value) }) });
    this.layerName = make("output", { class: "attng-layer" });
    this.scale = make("select", { "aria-label": "What the strongest colour stands for",
      change: (event) => { this.stretched = event.target.value === "largest"; this.show(); } });
    this.filterBox = make("input", { type: "checkbox", change: (event) => this.choose({ filtered: event.target.checked }) });
    this.filterName = make("span", {});
    this.filterField = make("label", { class: "attnx-check" }, this.filterBox, this.filterName);
    return make("div", { class: "attnx-controls" }, this.exampleField, field("Layer", this.slider, this.layerName),
      field("Colours", this.scale), this.filterField);
  }

  /** Where a reader of a live notebook types a prompt; a static page says that there was such a box. */
  buildBox() {
    if (this.model.get("recorded")) {
      return [make("p", { class: "attng-note" }, "Recorded. In a live notebook, a prompt of your own can be typed here.")];
    }
    if (!this.model.get("asks")) return [];
    this.box = make("textarea", { rows: "3", "aria-label": "Prompt to continue", placeholder: "A prompt to continue",
      keydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.ask(event); } });
    this.box.value = this.model.get("prompt");
    this.button = make("button", { type: "submit", class: "attng-go", title: "Ctrl + Enter" }, "Generate");
    this.progress = make("span", { class: "attng-progress" });
    this.error = make("p", { class: "attng-error", role: "alert" });
    return [make("form", { class: "attng-box", submit: (event) => this.ask(event) }, this.box, this.button, this.progress, this.error)];
  }

  buildTable() {
    this.table = make("tbody");
    const names = ["generated", "1st prompt token", "2nd", "3rd"].map((name) => make("th", { scope: "col" }, name));
    this.details = make("details", { class: "attnx-details", toggle: () => this.tabulate() },
      make("summary", {}, "As a table: the three largest entries of every generated token"),
      make("div", { class: "attnx-scroll", tabindex: "0", role: "group", "aria-label": "Table of entries" },
        make("table", {}, make("thead", {}, make("tr", {}, ...names)), this.table)));
    return this.details;
  }

  // ---- built for every example

  load() {
    const examples = this.model.get("examples"), index = clamp(this.model.get("example"), 0, examples.length - 1);
    const data = (this.data = examples.length ? unpack(this.model, index) : null);
    this.picture.hidden = !data;
    this.showBox();
    if (!data) return this.dress();
    if (this.model.get("busy") && data.rows.length === 1) this.followed = 0;
    const fill = (select, names) => select.replaceChildren(...names.map(([value, name]) => make("option", { value }, name)));
    this.hover = {};
    this.key = -1;
    this.listed = "";
    this.exampleField.hidden = examples.length < 2;
    fill(this.exampleSelect, examples.map(({ label }, i) => [i, label]));
    this.exampleSelect.value = index;
    this.name = [this.model.get("title"), examples.length < 2 ? "" : data.label].filter(Boolean).join(": ");
    fill(this.scale, [["largest", "0 to largest"], ["all", data.shares ? "0 to 1" : `0 to ${number(data.scale, data)}`]]);
    this.scale.value = this.stretched ? "largest" : "all";
    this.slider.max = data.layers - 1;
    this.slider.parentElement.hidden = data.layers < 2;
    const ignored = sum(data.ignored);
    this.filterField.hidden = !ignored;
    this.filterName.textContent = `hide ${ignored} uninformative token${ignored > 1 ? "s" : ""}`;
    this.promptNodes = [];
    this.promptText.replaceChildren(...written(data.prompt, (text, k) =>
      (this.promptNodes[k] = make("span", { class: "attng-word", "data-k": k }, text))));
    this.promptText.scrollTop = 0;
    this.writeGenerated();
    this.paint();
  }

  writeGenerated() {
    this.generatedNodes = [];
    this.generatedText.replaceChildren(...written(this.data.generated, (text, g) =>
      (this.generatedNodes[g] = make("button", { type: "button", class: "attng-word", "data-g": g }, text))));
  }

  // ---- drawn for every width and theme

  dress() {
    const mode = onDark(this.root) ? "dark" : "light";
    this.theme = THEMES[mode];
    this.root.dataset.mode = mode;
  }

  paint() {
    this.dress();
    const style = getComputedStyle(this.root), { data } = this;
    const width = this.root.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (!(width > 0) || !data) return; // in a closed tab or drop-down: called again when it opens
    // Given the labels of both, the two maps get the same columns; side by side if the cells stay large.
    const both = { queries: [...data.queries, ...this.layerLabels()], keys: data.keys }, half = (width - 28) / 2;
    const beside = half > 400 && (half - 120) / data.columns >= 16;
    for (const map of [this.tokenMap, this.allMap]) map.arrange(both, beside ? half : width, 0);
    this.panels.classList.toggle("attnx-stacked", !beside);
    this.show();
  }

  layerLabels() { return range(this.data.layers).map(String); }

  // ---- drawn for every layer, scale and filter

  show() {
    const { data, layer, allMap: map, model } = this;
    if (!map.cell) return;
    this.slider.value = layer;
    this.slider.setAttribute("aria-valuetext", layerName(layer));
    this.layerName.textContent = layerName(layer);
    this.filterBox.checked = model.get("filtered");
    map.heading.textContent = `Every generated token, ${layerName(layer)}`;
    this.drawMap(map, range(data.rows.length).map((g) => rowOf(data, g, layer, this.hidden)), data.queries);
    map.stage.setAttribute("aria-label", `${map.view.title}. ${data.rows.length} generated by ${data.columns} prompt tokens. ` +
      "Up and down choose a generated token, left and right a prompt token, page up and page down a layer.");
    this.drawn = -1;
    this.showFocus();
    this.tabulate();
  }

  drawMap(map, rows, queries) {
    const { data } = this, values = stack(rows, data.columns);
    map.draw({ values, queries, keys: data.keys, reference: null, top: this.topOf(values),
      title: [this.name, map.heading.textContent].filter(Boolean).join(": ") }, this.theme);
  }

  topOf(values) { return this.stretched ? largestOf(values) || 1 : this.data.scale; }

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
      tokenMap.heading.textContent = `${this.tokenName(g)} in every layer`;
      this.drawMap(tokenMap, range(data.layers).map((each) => rowOf(data, g, each, this.hidden)), this.layerLabels());
      tokenMap.stage.setAttribute("aria-label", `${tokenMap.view.title}. ${data.layers} layers by ${data.columns} prompt tokens. ` +
        "Up and down choose a layer, left and right a prompt token, page up and page down a generated token.");
    }
    this.row = rowOf(data, g, layer);
    const shown = this.hidden ? this.row.map((value, i) => (this.hidden[i] ? 0 : value)) : this.row;
    const tip = hover.k >= 0 && hover.map ? this.cellText(g, layer, k) : "";
    tokenMap.focus(layer, k, hover.map === tokenMap ? tip : "");
    allMap.focus(g, k, hover.map === allMap ? tip : "");
    this.tint(shown, g, k);
    this.fillList(shown, g, layer);
    this.readout.textContent = this.describe(g, layer, k);
  }

  tint(shown, g, k) {
    const { data, theme } = this, top = this.topOf(shown);
    this.promptCaption.textContent = `Prompt; the strongest colour is ${number(top, data)}`;
    this.promptNodes.forEach((node, i) => {
      const colour = shown[i] > 0 ? theme.lut[shade(shown[i], top)] : null;
      node.style.backgroundColor = colour ? css(colour) : "";
      node.style.color = colour ? (luminance(colour) > 0.45 ? "#101722" : "#ffffff") : "";
      node.classList.toggle("attng-hidden", Boolean(this.hidden?.[i]));
      node.classList.toggle("attnx-chosen", i === k);
    });
    this.generatedNodes.forEach((node, i) => {
      node.classList.toggle("attnx-chosen", i === g);
      node.setAttribute("aria-pressed", i === this.generated);
      node.tabIndex = i === this.generated ? 0 : -1;
    });
  }

  fillList(shown, g, layer) {
    const { data } = this, order = this.order(shown, TOP), top = shown[order[0]];
    const content = [g, layer, ...order].join();
    if (content === this.listed) return; // a finger is on an entry that must stay until it is lifted
    this.listed = content;
    this.listCaption.textContent = `${this.tokenName(g)} draws most on`;
    this.list.replaceChildren(...order.map((k) => make("li", { "data-k": k },
      make("span", { class: "attng-name", title: data.keys[k] }, data.keys[k]), make("span", { class: "attng-place" }, String(k)),
      make("span", { class: "attng-bar", "aria-hidden": "true", style: `--part: ${shown[k] / top}` }),
      make("span", { class: "attng-value" }, number(shown[k], data)))));
  }

  // ---- words

  tokenName(g) { return `'${this.data.queries[g]}' (${g})`; }

  /** The places of the largest values, largest first. */
  order(values, count) {
    return [...values.keys()].filter((k) => values[k] > 0).sort((a, b) => values[b] - values[a]).slice(0, count);
  }

  largest(values) {
    const { data } = this;
    return this.order(values, 3).map((k) => `'${data.keys[k]}' (${k}) ${number(values[k], data)}`);
  }

  cellText(g, layer, k) {
    return `${this.tokenName(g)}, ${layerName(layer)} → '${this.data.keys[k]}' (${k}): ${number(this.row[k], this.data)}`;
  }

  /** What the list does not say: how much of it all is the prompt, and the token pointed at. */
  describe(g, layer, k) {
    const { data, hidden } = this, row = rowOf(data, g, layer), all = sum(row);
    const lost = hidden ? all - sum(rowOf(data, g, layer, hidden)) : 0;
    const filter = lost > 0 ? `, ${lost.toFixed(2)} of it on hidden tokens` : "";
    const rest = all < 0.995 ? "; the rest is on tokens generated before" : "";
    const share = data.shares ? `${this.tokenName(g)}, ${layerName(layer)}: ${all.toFixed(2)} is on the prompt${filter}${rest}. ` : "";
    return share + (k < 0 ? "" : `On '${data.keys[k]}' (${k}): ${number(row[k], data)}.`);
  }

  /** Says what is selected to a screen reader: never on hovering, which would be noise. */
  announce() {
    if (!this.data?.rows.length) return;
    const { layer, key, generated: g } = this, largest = this.largest(rowOf(this.data, g, layer, this.hidden));
    this.status.textContent = `${this.tokenName(g)}, ${layerName(layer)}, draws most on ${largest.join(", ") || "nothing shown"}. ` +
      this.describe(g, layer, key);
  }

  tabulate() {
    if (!this.details.open) return;
    const { data, layer } = this;
    this.table.replaceChildren(...data.queries.map((_, g) => make("tr", {}, make("th", { scope: "row" }, this.tokenName(g)),
      ...this.largest(rowOf(data, g, layer, this.hidden)).map((text) => make("td", {}, text)))));
  }

  save(map, kind) {
    const picture = drawing(map.view), name = `${map.view.title.replace(/[^\p{L}\p{N}]+/gu, "-")}.${kind}`;
    if (kind === "svg") download(new Blob([picture.text], { type: "image/svg+xml" }), name);
    else rasterise(picture, name);
  }

  // ---- what the reader does

  /** Chooses a generated token, a layer or a prompt token, and says so. */
  select({ g = this.generated, layer = this.layer, k = this.key }) {
    this.key = k;
    this.hover = {};
    if (this.followed >= 0 && g !== this.generated) this.followed = -1;
    const changes = this.followed < 0 ? { generated: g, layer } : { layer };
    const told = Object.keys(changes).some((name) => changes[name] !== this.model.get(name));
    this.choose(changes);
    if (!told) this.onChoice(); // the model has not changed, but the prompt token may have
  }

  onChoice() {
    if (!this.data) return;
    this.showFocus();
    this.announce();
    if (this.hover.map) return;
    this.tokenMap.reveal(this.layer, this.key);
    this.allMap.reveal(this.generated, this.key);
  }

  /** What a node of the text or the list stands for. */
  at(event) {
    const { k, g } = event.target.closest?.("[data-k], [data-g]")?.dataset ?? {};
    return { ...(k === undefined ? {} : { k: Number(k) }), ...(g === undefined ? {} : { g: Number(g) }) };
  }

  onPoint(event) { this.point(this.at(event)); }

  onPick(event) {
    const place = this.at(event);
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
    const { generated: g, data, layer } = this, last = data.rows.length - 1;
    const next = { ArrowLeft: g - 1, ArrowUp: g - 1, ArrowRight: g + 1, ArrowDown: g + 1, Home: 0, End: last }[event.key];
    const step = { PageUp: -1, PageDown: 1 }[event.key];
    if (next === undefined && !step) return;
    event.preventDefault();
    if (step) return this.select({ layer: clamp(layer + step, -1, data.layers - 1) });
    this.select({ g: clamp(next, 0, last) });
    this.generatedNodes[this.generated].focus();
  }

  // ---- the model writes

  ask(event) {
    event.preventDefault();
    if (this.model.get("busy")) return;
    this.choose({ prompt: this.box.value });
    this.model.send({ prompt: this.box.value });
  }

  showBox() {
    if (!this.box) return;
    const busy = this.model.get("busy"), count = this.data && busy ? this.data.rows.length : 0;
    this.button.disabled = busy;
    this.progress.textContent = busy ? `Writing${count ? `: ${count} token${count > 1 ? "s" : ""}` : ""} …` : "";
    this.error.textContent = this.model.get("error");
    this.error.hidden = !this.model.get("error");
  }

  onBusy() {
    if (!this.model.get("busy") && this.followed >= 0) {
      const newest = this.generated;
      this.followed = -1;
      this.choose({ generated: newest });
    }
    this.showBox();
  }

  /** A row that came while the model writes; a view that missed one before waits for the whole. */
  onRow({ index, word }, [bytes]) {
    const { data } = this;
    if (data?.rows.length !== index) return;
    data.rows.push(inflate(bytesOf(bytes), data.cells));
    data.generated.push(word);
    data.queries.push(visible(word));
    if (this.followed >= 0) this.followed = index;
    this.writeGenerated();
    this.paint();
    this.showBox();
  }
}

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new Explorer(model, el);
  const showAll = () => { if (explorer.data) { explorer.show(); explorer.announce(); } };
  const reactions = {
    "change:example": () => { explorer.load(); explorer.announce(); }, "change:examples": () => explorer.load(),
    "change:layer": () => { if (explorer.data) explorer.show(); explorer.onChoice(); }, "change:generated": () => explorer.onChoice(),
    "change:filtered": showAll, "change:busy": () => explorer.onBusy(), "change:error": () => explorer.showBox(),
    "msg:custom": (message, buffers) => explorer.onRow(message, buffers),
  };
  for (const [name, react] of Object.entries(reactions)) model.on(name, react);
  const unwatch = watch(explorer.root, () => explorer.paint());
  return () => {
    for (const [name, react] of Object.entries(reactions)) model.off(name, react);
    unwatch();
  };
}

export default { render };
