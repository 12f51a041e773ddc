// DynamicsExplorer: a document's tokens once for every score, in the colours of that score at one checkpoint of a
// training, which the slider or the chart chooses; beside each row, one token's score over the whole training.
//
// May be touched for: the rows of text and what is said of a token. Numbers of scores are in
// document_data.js.

import { canvas, clamp, make, surface, tick, visible, written } from "./common.js";
import { BLANK, shade, tintNode } from "./themes.js";
import { tableHead, tableRow } from "./view.js";
import { largestAt, number, ordinal, rank, unpackDocument } from "./document_data.js";
import { renderer, ScoresView } from "./scores_view.js";
import "./dynamics_explorer.css";

class DynamicsView extends ScoresView {
  get words() {
    return { kind: "Dynamics explorer", style: "attnd", item: "Document", answer: "prediction", said: visible,
      caption: "Prediction for this document", verdicts: ["prediction right", "wrong"],
      table: ["As a table: the scores of every token", "Table of scores"],
      ask: { label: "A text of your own", placeholder: "A text to classify", verb: "Classify", doing: "Reading …", rows: 3,
        note: "Recorded. In a live notebook, a text of your own can be typed here." } };
  }

  // The model may be ahead of the document: another one can have fewer tokens.
  get token() { const token = this.model.get("token"); return token < this.data.tokens.length ? token : -1; }
  get focus() { return this.hover ?? this.token; }
  isShown(name) { return this.model.get("shown").includes(name); }

  // ---- built for every document and set of scores

  buildHolder() {
    return make("div", { class: "attnd-rows", pointerover: (event) => this.onPoint(event), pointerleave: () => this.point(null),
      click: (event) => this.onPick(event), keydown: (event) => { if (this.at(event) >= 0) this.onKey(event); } });
  }

  read(index) {
    const data = unpackDocument(this.model, index);
    this.boxes.hidden = data.scores.length < 2;
    return data;
  }

  buildPart(score) {
    const { data } = this;
    const spaced = !data.tokens.some((token) => token.startsWith(" ")); // tokens that are words, without their blanks
    const nodes = [];
    const text = make("div", { class: "attnd-text", role: "group", "aria-label": `Tokens by ${score.name}; the arrow keys move`,
      scroll: () => { for (const other of this.parts) other.text.scrollTop = text.scrollTop; } });
    text.append(...written(data.tokens, (word, i) =>
      (nodes[i] = make("button", { type: "button", class: "attnd-token", "data-token": i }, word)), (token) => spaced || token.startsWith(" ")));
    const [low, high, who, value] = ["attnd-end", "attnd-end", "attnd-who", "attnd-value"].map((name) => make("span", { class: name }));
    const bar = canvas("attnd-bar", 0, 0), curve = canvas("attnd-curve", 0, 0);
    const node = make("div", { class: "attnd-row" },
      make("div", { class: "attnd-head" }, make("span", { class: "attnd-name" }, score.name), make("span", { class: "attnd-scale" }, low, bar, high)),
      make("div", { class: "attnd-one" }, who, value), text, make("div", { class: "attnd-history" }, curve));
    return { score, node, nodes, text, low, high, who, value, bar, curve };
  }

  // ---- drawn for every checkpoint and scale

  draw(row) {
    row.nodes.forEach((node, i) => tintNode(node, this.tint(row.values[i], row.top, row.score.signed)));
    this.drawScale(row);
  }

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

  showFocus() {
    const { focus, data, token } = this, last = this.outlined ?? -1;
    for (const row of this.parts) {
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
    for (const row of this.parts) {
      if (row.reachable === token) continue;
      row.nodes.forEach((node, i) => { node.tabIndex = i === token ? 0 : -1; });
      row.reachable = token;
    }
  }

  /** A token's score at every checkpoint, between the least and the largest of all tokens. */
  drawCurve({ curve, score }, at) {
    const { theme, training: { moment } } = this, wide = curve.parentElement.clientWidth, high = 54;
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

  describeChosen() { return this.token < 0 ? "" : this.describe(this.token); }

  describe(at) {
    const { data } = this, count = data.tokens.length;
    const parts = data.scores.map((score) => {
      const values = this.valuesOf(score), place = rank(values, at);
      return `${score.name} ${number(values[at], score)} (${place === 1 ? "the largest" : `${ordinal(place)} of ${count}`})`;
    });
    return `'${data.names[at]}' (${at}): ${parts.join(", ")}.`;
  }

  tabulate() {
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

  /** Left and right lead to other tokens, up and down to the same token of another row. */
  lead(event) {
    const row = this.parts.find(({ nodes }) => nodes.includes(event.target)), last = this.data.tokens.length - 1;
    const at = this.at(event), across = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const next = across ? at : { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (next === undefined) return null;
    const token = clamp(next, 0, last), target = this.parts[clamp(this.parts.indexOf(row) + (across ?? 0), 0, this.parts.length - 1)];
    return [token, target.nodes[token]];
  }
}

const render = renderer(DynamicsView, "shown");

export default { render };
