// AlignmentExplorer: for every score a heat map of target tokens by source tokens at one checkpoint of a training,
// which the slider or the chart chooses; where the true alignment is known, it is outlined on each and has a map.
//
// What is redrawn when: another sentence or set of scores builds the maps; another checkpoint or scale draws them;
// hovering only the transparent canvases above them, their labels and the numbers.
//
// May be touched for: how the maps stand side by side, and what is said of a pair of tokens.

import { capital, clamp, make, visible } from "./common.js";
import { checkbox, connect, dropDown, field, folded, offer, savers, tableHead, tableRow, View } from "./view.js";
import { largestAt, number, unpackDocument } from "./document_data.js";
import { HeatMap, savePicture } from "./heat_map.js";
import { OverTraining } from "./over_training.js";
import { AskBox } from "./ask_box.js";
import "./alignment_explorer.css";

const TRUTH = "truth";

class AlignmentView extends View {
  constructor(model, el) {
    super(model);
    this.hover = null; // {q, k, on}: the cell under the pointer, and the map
    this.now = false; // whether the last colour is the largest score at this checkpoint rather than over training
    this.build(el);
    this.load();
  }

  get moment() { return this.data.checkpoints > 1 ? this.training.at : 0; }
  get queries() { return this.data.targets[this.moment]; }
  /** The chosen cell, or the one under the pointer. The model may be ahead: another sentence can have fewer. */
  get focus() {
    if (this.hover) return this.hover;
    const token = this.model.get("token"), { columns, cells } = this.data;
    return token < 0 || token >= cells ? { q: -1, k: -1 } : { q: Math.floor(token / columns), k: token % columns };
  }

  // ---- built once

  build(el) {
    const { model } = this;
    this.training = new OverTraining(model, () => this.announce());
    this.box = new AskBox(model, { label: "A sentence of your own", placeholder: "A sentence to translate", verb: "Translate",
      doing: "Translating …", rows: 1, note: "Recorded. In a live notebook, a sentence of your own can be typed here." });
    this.grid = make("div", { class: "attna-maps" });
    this.readout = make("p", { class: "attnx-readout" });
    this.status = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.table = make("table");
    this.details = folded("As a table: where each score of a target token is largest", "Table of the largest", this.table, () => this.tabulate());
    this.mount(el, "Alignment explorer", "attnx attna", ...this.box.nodes, this.buildControls(), this.training.panel, this.grid,
      this.readout, this.details, this.status);
  }

  buildControls() {
    this.select = dropDown("Sentence", (value) => this.choose({ document: Number(value) }));
    this.field = field("Sentence", this.select);
    const scale = dropDown("What the strongest colour stands for", (value) => { this.now = value === "now"; this.show(); },
      [["all", "to the largest in training"], ["now", "to the largest now"]]);
    this.boxes = make("span", { class: "attna-boxes", role: "group", "aria-label": "Scores shown" });
    return make("div", { class: "attnx-controls" }, this.field, this.boxes, field("Colours", scale));
  }

  // ---- built for every sentence and set of scores

  load() {
    const documents = this.model.get("documents"), index = clamp(this.model.get("document"), 0, documents.length - 1);
    const found = unpackDocument(this.model, index), columns = found.source.length, rows = found.targets[0].length;
    const targets = found.targets.map((line) => line.map((token) => token && visible(token)));
    this.data = { ...found, columns, rows, cells: rows * columns, keys: found.source.map(visible), targets };
    if (found.truth) {
      const values = Float32Array.from({ length: rows * columns }, () => 0);
      for (const at of found.truth) values[at] = 1;
      this.data.scores = [...found.scores, { name: TRUTH, values: [values], scale: 1, signed: false }];
      this.data.truth = values;
    }
    const { data, training } = this;
    this.hover = null;
    this.field.hidden = documents.length < 2;
    offer(this.select, documents.map(({ label, typed }, i) => [i, typed ? `${label} (typed)` : label]));
    this.select.value = index;
    training.pin(data.checkpoints < training.steps.length);
    training.judge(data.gold !== null && data.checkpoints > 1 ? data.predicted.map((text) => text === data.gold) : null,
      ["translation right", "other"]);
    this.boxes.replaceChildren(...data.scores.map(({ name }) => {
      const [box, label] = checkbox((on) => this.toggle(name, on), {}, make("span", {}, name));
      box.value = name;
      return label;
    }));
    this.buildMaps();
  }

  buildMaps() {
    const hidden = this.model.get("hidden"), { data } = this;
    for (const box of this.boxes.querySelectorAll("input")) box.checked = !hidden.includes(box.value);
    this.maps = data.scores.filter(({ name }) => !hidden.includes(name)).map((score) => {
      const map = new HeatMap({ hover: (place) => this.point(place && { ...place, on: score.name }), pick: (place) => this.pick(place, score),
        key: (event) => this.onKey(event) }, ["source →", "target ↓"]);
      map.measure(score.name);
      return { score, map };
    });
    this.grid.replaceChildren(...this.maps.map(({ score, map }) => make("div", { class: "attna-map" },
      make("div", { class: "attna-head" }, make("span", { class: "attna-name" }, score.name),
        savers(`the map of ${score.name}`, (kind) => savePicture(map.view, kind))), map.node)));
    this.paint();
  }

  // ---- drawn for every width and theme

  paint() {
    const width = this.dress();
    if (!width) return; // called again when there is some
    this.training.paint(this.theme);
    const across = width >= 560 ? 2 : 1, longest = this.data.targets.flat();
    this.grid.style.gridTemplateColumns = `repeat(${across}, minmax(0, 1fr))`;
    for (const { map } of this.maps) map.arrange({ queries: longest, keys: this.data.keys }, (width - 24 * (across - 1)) / across, 0, this.data.rows);
    this.show();
  }

  // ---- drawn for every checkpoint and scale

  show() {
    if (!this.theme) return;
    const { data, moment } = this;
    this.training.tell("Translation at this checkpoint", data.predicted[moment], data.gold, (text) => text || "∅");
    for (const { score, map } of this.maps) {
      const values = this.valuesOf(score), top = this.now ? values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1 : score.scale;
      const title = [this.model.get("title"), data.label, score.name, `step ${this.training.step}`].filter(Boolean).join(": ");
      map.stage.setAttribute("aria-label", `${title}. ${data.rows} target tokens by ${data.columns} source tokens. The arrow keys move, escape chooses none.`);
      map.draw({ values, top, signed: score.signed, reference: data.truth ?? null, queries: this.queries, keys: data.keys, title }, this.theme);
    }
    this.showFocus();
    this.tabulate();
  }

  valuesOf({ values }) { return values[Math.min(this.moment, values.length - 1)]; }

  // ---- drawn for every cell in focus: all the work of a hover

  point(place) {
    if (place?.q === this.hover?.q && place?.k === this.hover?.k && place?.on === this.hover?.on) return;
    this.hover = place;
    this.showFocus();
  }

  showFocus() {
    if (!this.theme) return;
    const { q, k, on } = this.focus;
    for (const { score, map } of this.maps)
      map.focus(q, k, on === score.name && k >= 0 ? number(this.valuesOf(score)[q * this.data.columns + k], score) : "");
    this.readout.textContent = q < 0 ? "Point at a cell, or choose one with the arrow keys: its numbers by every score stand here." : this.describe(q, k);
  }

  // ---- words

  /** A pair of tokens by every score; of a whole row, where each is largest. */
  describe(q, k) {
    const { data } = this, name = `'${this.queries[q] || "∅"}' (${q})`;
    if (k < 0) return `${name}: ${data.scores.map((score) => `${score.name} largest at ${this.largest(score, q)}`).join(", ")}.`;
    const parts = data.scores.map((score) => `${score.name} ${number(this.valuesOf(score)[q * data.columns + k], score)}`);
    return `${name} with '${data.keys[k]}' (${k}): ${parts.join(", ")}.`;
  }

  largest(score, q) {
    const { columns, keys } = this.data, line = this.valuesOf(score).slice(q * columns, (q + 1) * columns), at = largestAt(line);
    return line[at] > 0 || score.signed ? `'${keys[at]}' (${at})` : "none";
  }

  announce() {
    const { q, k } = this.focus;
    this.status.textContent = `${capital(this.training.words())}. Translation ${this.training.answered}.${q < 0 ? "" : ` ${this.describe(q, k)}`}`;
  }

  tabulate() {
    if (!this.details.open) return;
    const { data } = this, rows = this.queries.map((name, q) => [name, q]).filter(([name]) => name);
    this.table.replaceChildren(tableHead("target token", ...data.scores.map(({ name }) => name)), make("tbody", {}, ...rows.map(([name, q]) =>
      tableRow(`'${name}' (${q})`, ...data.scores.map((score) => this.largest(score, q))))));
  }

  // ---- what the reader does

  toggle(name, on) {
    const others = this.model.get("hidden").filter((other) => other !== name);
    this.choose({ hidden: on ? others : [...others, name] });
  }

  /** A row's name stands for its largest cell. */
  pick({ q, k }, score) {
    const { columns } = this.data, line = this.valuesOf(score).slice(q * columns, (q + 1) * columns);
    const token = q * columns + (k < 0 ? largestAt(line) : k);
    this.choose({ token: token === this.model.get("token") ? -1 : token });
  }

  onToken() {
    this.showFocus();
    this.announce();
  }

  onCheckpoint() {
    this.training.show();
    this.show();
    if (!this.training.playing) this.announce();
  }

  onKey(event) {
    const { rows, columns } = this.data, { q, k } = this.focus, step = { PageUp: -1, PageDown: 1 }[event.key];
    const moves = { ArrowUp: [q - 1, k], ArrowDown: [q + 1, k], ArrowLeft: [q, k - 1], ArrowRight: [q, k + 1], Home: [0, k], End: [rows - 1, k] };
    if (!moves[event.key] && !step && event.key !== "Escape") return;
    event.preventDefault();
    this.hover = null;
    if (step) return this.training.jump(this.training.at + step);
    if (event.key === "Escape") return this.choose({ token: -1 });
    const [row, column] = moves[event.key];
    this.choose({ token: clamp(row, 0, rows - 1) * columns + clamp(column, 0, columns - 1) });
  }
}

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new AlignmentView(model, el), ask = () => explorer.box.show();
  const load = () => { explorer.load(); explorer.announce(); };
  return connect(explorer, { document: load, documents: load, checkpoint: () => explorer.onCheckpoint(),
    hidden: () => explorer.buildMaps(), token: () => explorer.onToken(), busy: ask, error: ask });
}

export default { render };
