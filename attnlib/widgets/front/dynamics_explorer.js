// DynamicsExplorer: a document's tokens once for every score, in the colours of that score at one checkpoint of a
// training, which the slider or the chart chooses; beside each row, one token's score over the whole training.
//
// What is redrawn when: another document or set of scores builds the rows; another checkpoint, scale or theme
// tints all tokens; hovering only moves the outlines, the numbers and the small curves.
//
// May be touched for: the rows of text and what is said of a token. Numbers of scores are in
// document_data.js.

import { canvas, capital, clamp, make, surface, tick, written } from "./common.js";
import { BLANK, shade, tintNode } from "./themes.js";
import { checkbox, connect, dropDown, field, folded, offer, tableHead, tableRow, View } from "./view.js";
import { largestAt, number, ordinal, rank, unpackDocument } from "./document_data.js";
import { OverTraining } from "./over_training.js";
import { AskBox } from "./ask_box.js";
import "./dynamics_explorer.css";

// ---------------------------------------------------------------------------- the explorer

class DynamicsView extends View {
  constructor(model, el) {
    super(model);
    this.hover = -1; // the token under the pointer
    this.now = false; // whether the last colour is the largest score at this checkpoint rather than over training
    this.build(el);
    this.load();
  }

  // The model may be ahead of the document: another one can have fewer tokens.
  get token() { const token = this.model.get("token"); return token < this.data.tokens.length ? token : -1; }
  get focus() { return this.hover >= 0 ? this.hover : this.token; }
  get moment() { return this.data.checkpoints > 1 ? this.training.at : 0; }

  // ---- built once

  build(el) {
    const { model } = this;
    this.training = new OverTraining(model, () => this.announce());
    this.box = new AskBox(model, { label: "A text of your own", placeholder: "A text to classify", verb: "Classify",
      doing: "Reading …", rows: 3, note: "Recorded. In a live notebook, a text of your own can be typed here." });
    this.rowsNode = make("div", { class: "attnd-rows", pointerover: (event) => this.onPoint(event), pointerleave: () => this.point(-1),
      click: (event) => this.onPick(event), keydown: (event) => this.onKey(event) });
    this.readout = make("p", { class: "attnx-readout" });
    this.status = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.table = make("table");
    this.details = folded("As a table: the scores of every token", "Table of scores", this.table, () => this.tabulate());
    this.mount(el, "Dynamics explorer", "attnx attnd", ...this.box.nodes, this.buildControls(), this.training.panel, this.rowsNode,
      this.readout, this.details, this.status);
  }

  buildControls() {
    this.select = dropDown("Document", (value) => this.choose({ document: Number(value) }));
    this.field = field("Document", this.select);
    const scale = dropDown("What the strongest colour stands for", (value) => { this.now = value === "now"; this.show(); },
      [["all", "to the largest in training"], ["now", "to the largest now"]]);
    this.boxes = make("span", { class: "attnd-boxes", role: "group", "aria-label": "Scores shown" });
    return make("div", { class: "attnx-controls" }, this.field, this.boxes, field("Colours", scale));
  }

  // ---- built for every document and set of scores

  load() {
    const documents = this.model.get("documents"), index = clamp(this.model.get("document"), 0, documents.length - 1);
    const data = (this.data = unpackDocument(this.model, index)), { training } = this;
    this.hover = -1;
    this.field.hidden = documents.length < 2;
    offer(this.select, documents.map(({ label, typed }, i) => [i, typed ? `${label} (typed)` : label]));
    this.select.value = index;
    training.pin(data.checkpoints < training.steps.length);
    training.judge(data.gold !== null && data.checkpoints > 1 ? data.predicted.map((label) => label === data.gold) : null,
      ["prediction right", "wrong"]);
    this.boxes.replaceChildren(...data.scores.map(({ name }) => {
      const [box, label] = checkbox((on) => this.toggle(name, on), {}, make("span", {}, name));
      box.value = name;
      return label;
    }));
    this.boxes.hidden = data.scores.length < 2;
    this.buildRows();
  }

  buildRows() {
    const shown = this.model.get("shown"), { data } = this;
    for (const box of this.boxes.querySelectorAll("input")) box.checked = shown.includes(box.value);
    const spaced = !data.tokens.some((token) => token.startsWith(" ")); // tokens that are words, without their blanks
    this.rows = data.scores.filter(({ name }) => shown.includes(name)).map((score) => {
      const nodes = [];
      const text = make("div", { class: "attnd-text", role: "group", "aria-label": `Tokens by ${score.name}; the arrow keys move`,
        scroll: () => { for (const other of this.rows) other.text.scrollTop = text.scrollTop; } });
      text.append(...written(data.tokens, (word, i) =>
        (nodes[i] = make("button", { type: "button", class: "attnd-token", "data-token": i }, word)), (token) => spaced || token.startsWith(" ")));
      const [low, high, who, value] = ["attnd-end", "attnd-end", "attnd-who", "attnd-value"].map((name) => make("span", { class: name }));
      return { score, nodes, text, low, high, who, value, bar: canvas("attnd-bar", 0, 0), curve: canvas("attnd-curve", 0, 0) };
    });
    this.rowsNode.replaceChildren(...this.rows.map(({ score, text, low, high, who, value, bar, curve }) => make("div", { class: "attnd-row" },
      make("div", { class: "attnd-head" }, make("span", { class: "attnd-name" }, score.name), make("span", { class: "attnd-scale" }, low, bar, high)),
      make("div", { class: "attnd-one" }, who, value), text, make("div", { class: "attnd-history" }, curve))));
    this.paint();
  }

  // ---- drawn for every width and theme

  paint() {
    if (!this.dress()) return; // called again when there is some width
    this.training.paint(this.theme);
    this.show();
  }

  // ---- drawn for every checkpoint and scale

  show() {
    if (!this.theme) return;
    const { data, moment } = this;
    this.training.tell("Prediction for this document", data.predicted[moment], data.gold);
    for (const row of this.rows) {
      row.values = this.valuesOf(row.score);
      row.top = this.now ? row.values.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1 : row.score.scale;
      row.nodes.forEach((node, i) => tintNode(node, this.tint(row.values[i], row.top, row.score.signed)));
      this.drawScale(row);
    }
    this.showFocus();
    this.tabulate();
  }

  valuesOf({ values }) { return values[Math.min(this.moment, values.length - 1)]; }

  /** By the square root where a score is never negative, as in heat maps of attention; else in proportion. */
  tint(value, top, both) {
    if (value === 0) return BLANK;
    const step = both ? Math.round(255 * Math.min(Math.abs(value) / top, 1)) : shade(value, top);
    return (value > 0 ? this.theme.above : this.theme.below)[Math.max(step, 1)];
  }

  drawScale({ bar, low, high, score, top }) {
    const wide = 132, pen = surface(bar, wide, 10), from = score.signed ? -1 : 0;
    for (let x = 0; x < wide; x++) {
      const part = from + ((x + 0.5) / wide) * (1 - from);
      pen.fillStyle = this.tint(top * (score.signed ? part : part * part), top, score.signed).colour;
      pen.fillRect(x, 0, 1, 10);
    }
    bar.parentElement.title = score.signed ? "Colours in proportion" : "Square root: half way stands for a quarter";
    low.textContent = score.signed ? `−${tick(top)}` : "0";
    high.textContent = (score.signed ? "+" : "") + tick(top);
  }

  // ---- drawn for every token in focus: all the work of a hover

  point(token) {
    if (token === this.hover) return;
    this.hover = token;
    this.showFocus();
  }

  showFocus() {
    if (!this.theme) return;
    const { focus, data, token } = this, last = this.outlined ?? -1;
    for (const row of this.rows) {
      const { nodes, values, who, value, score } = row, at = focus < 0 ? largestAt(values) : focus;
      row.nodes[last]?.classList.remove("attnx-chosen");
      nodes[focus]?.classList.add("attnx-chosen");
      who.textContent = `${focus < 0 ? "largest: " : ""}${data.names[at]}`;
      value.textContent = number(values[at], score);
      this.drawCurve(row, at);
    }
    this.outlined = focus;
    this.makeReachable(Math.max(token, 0));
    this.readout.textContent = focus < 0
      ? "Point at a token, or choose one with the arrow keys; until then each row follows its largest."
      : this.describe(focus);
  }

  /** One token of each row is reached by the tab key, the others by the arrow keys. */
  makeReachable(token) {
    for (const row of this.rows) {
      if (row.reachable === token) continue;
      row.nodes.forEach((node, i) => { node.tabIndex = i === token ? 0 : -1; });
      row.reachable = token;
    }
  }

  /** A token's score at every checkpoint, between the least and the largest of all tokens. */
  drawCurve({ curve, score }, at) {
    const { theme, moment } = this, wide = curve.parentElement.clientWidth, high = 54;
    curve.parentElement.hidden = score.values.length < 2;
    if (!(wide > 20) || score.values.length < 2) return;
    const pen = surface(curve, wide, high), last = score.values.length - 1;
    const x = (i) => 6 + (i / last) * (wide - 12);
    const y = (value) => 6 + ((score.most - value) / (score.most - score.least || 1)) * (high - 12);
    const line = (colour, width, alpha, ...points) => {
      Object.assign(pen, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha, lineJoin: "round" });
      pen.beginPath();
      for (const point of points) pen.lineTo(...point);
      pen.stroke();
      pen.globalAlpha = 1;
    };
    line(theme.faint, 1, 0.5, [6, y(0)], [wide - 6, y(0)]);
    line(theme.ink, 1, 0.35, [x(moment), 0], [x(moment), high]);
    line(theme.ink, 1.75, 1, ...score.values.map((values, i) => [x(i), y(values[at])]));
    const now = score.values[moment][at];
    pen.beginPath();
    pen.arc(x(moment), y(now), 4.5, 0, 2 * Math.PI);
    Object.assign(pen, { fillStyle: this.tint(now, score.scale, score.signed).colour || theme.surface, strokeStyle: theme.ink, lineWidth: 1.5 });
    pen.fill();
    pen.stroke();
  }

  // ---- words

  describe(at) {
    const { data } = this, count = data.tokens.length;
    const parts = data.scores.map((score) => {
      const values = this.valuesOf(score), place = rank(values, at);
      return `${score.name} ${number(values[at], score)} (${place === 1 ? "the largest" : `${ordinal(place)} of ${count}`})`;
    });
    return `'${data.names[at]}' (${at}): ${parts.join(", ")}.`;
  }

  /** Says what is selected to a screen reader: never on hovering, which would be noise. */
  announce() {
    const { token, training } = this;
    this.status.textContent = `${capital(training.words())}. Prediction ${training.answered}.${token < 0 ? "" : ` ${this.describe(token)}`}`;
  }

  tabulate() {
    if (!this.details.open) return;
    const { data } = this, columns = data.scores.map((score) => ({ score, values: this.valuesOf(score) }));
    this.table.replaceChildren(tableHead("token", ...data.scores.map(({ name }) => name)), make("tbody", {}, ...data.names.map((name, i) =>
      tableRow(`'${name}' (${i})`, ...columns.map(({ score, values }) => number(values[i], score))))));
  }

  // ---- what the reader does

  toggle(name, on) {
    const shown = this.model.get("shown").filter((other) => other !== name);
    this.choose({ shown: on ? [...shown, name] : shown });
  }

  at(event) { return Number(event.target.closest?.("[data-token]")?.dataset.token ?? -1); }

  onPoint(event) {
    const token = this.at(event);
    if (token >= 0) this.point(token); // between two tokens, the last stays
  }

  onPick(event) {
    const token = this.at(event);
    if (token >= 0) this.choose({ token: token === this.token ? -1 : token });
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
    const row = this.rows.find(({ nodes }) => nodes.includes(event.target)), last = this.data.tokens.length - 1;
    if (!row) return;
    const at = this.at(event), step = { PageUp: -1, PageDown: 1 }[event.key];
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: -1 }[event.key];
    const across = { ArrowUp: -1, ArrowDown: 1 }[event.key]; // the same token in the next row
    if (next === undefined && !step && !across) return;
    event.preventDefault();
    this.hover = -1;
    if (step) return this.training.jump(this.training.at + step);
    if (event.key === "Escape") return this.choose({ token: -1 });
    const place = clamp(next ?? at, 0, last), target = this.rows[clamp(this.rows.indexOf(row) + (across ?? 0), 0, this.rows.length - 1)];
    this.choose({ token: place });
    target.nodes[place].focus();
  }
}

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new DynamicsView(model, el), ask = () => explorer.box.show();
  const load = () => { explorer.load(); explorer.announce(); };
  return connect(explorer, { document: load, documents: load, checkpoint: () => explorer.onCheckpoint(),
    shown: () => explorer.buildRows(), token: () => explorer.onToken(), busy: ask, error: ask });
}

export default { render };
