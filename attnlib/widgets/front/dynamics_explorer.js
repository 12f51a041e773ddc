// DynamicsExplorer: a document's tokens once for every score, in the colours of that score at one checkpoint of a
// training, which the slider or the chart chooses; beside each row, one token's score over the whole training.
//
// May be touched for: the rows of text and what is said of a token. Numbers of scores are in
// scores_data.js.

import { canvas, make, surface, tick, visible } from "./common.js";
import { tableHead, tableRow } from "./view.js";
import { largestAt, number, placed } from "./scores_data.js";
import { renderer, ScoresView } from "./scores_view.js";
import { lead, MOST_WORDS, pointing, tintOf, tokenAt, TokenRow } from "./token_row.js";
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

  // ---- built for every document and set of scores

  buildHolder() {
    return make("div", { class: "attnd-rows", ...pointing(this), keydown: (event) => { if (tokenAt(event) >= 0) this.onKey(event); } });
  }

  read(index) {
    const data = this.unpacked(index);
    this.boxes.hidden = data.scores.length < 2;
    this.tellLength(data.tokens.length, MOST_WORDS);
    return { ...data, names: data.tokens.map(visible), said: data.predicted, right: data.gold };
  }

  buildPart(score) {
    const row = new TokenRow("attnd");
    row.write(this.data.tokens);
    row.label(score.name);
    row.text.addEventListener("scroll", () => { for (const other of this.parts) other.row.text.scrollTop = row.text.scrollTop; });
    const [low, high, who, value] = ["attnd-end", "attnd-end", "attnd-who", "attnd-value"].map((name) => make("span", { class: name }));
    const bar = canvas("attnd-bar", 0, 0), curve = canvas("attnd-curve", 0, 0);
    const node = make("div", { class: "attnd-row" },
      make("div", { class: "attnd-head" }, make("span", { class: "attnd-name" }, score.name), make("span", { class: "attnd-scale" }, low, bar, high)),
      row.text, make("div", { class: "attnd-one" }, who, value), make("div", { class: "attnd-history" }, curve));
    return { score, node, row, low, high, who, value, bar, curve };
  }

  // ---- drawn for every checkpoint and scale

  draw() {
    for (const part of this.parts) {
      part.row.paint(this.theme, part.values, part.top, part.score.signed);
      this.drawScale(part);
    }
  }

  drawScale({ bar, low, high, score, top }) {
    const wide = 132, pen = surface(bar, wide, 10), from = score.signed ? -1 : 0;
    for (let x = 0; x < wide; x++) {
      const part = from + ((x + 0.5) / wide) * (1 - from);
      pen.fillStyle = tintOf(this.theme, top * (score.signed ? part : part * part), top, score.signed).colour;
      pen.fillRect(x, 0, 1, 10);
    }
    bar.parentElement.title = score.signed ? "Colours in proportion" : "Square root: half way stands for a quarter";
    low.textContent = score.signed ? `−${tick(top)}` : "0";
    high.textContent = (score.signed ? "+" : "") + tick(top);
  }

  // ---- drawn for every token in focus: all the work of a hover

  showFocus() {
    const { focus, data, token } = this;
    for (const part of this.parts) {
      const { row, values, who, value, score } = part, at = focus < 0 ? largestAt(values) : focus;
      row.mark(focus, token);
      who.textContent = `${focus < 0 ? "largest: " : ""}${data.names[at]}`;
      value.textContent = number(values[at], score);
      this.drawCurve(part, at);
    }
    this.say(focus < 0 ? "" : this.describe(focus), "Point at a token, or choose one with the arrow keys; until then each row follows its largest.");
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
    Object.assign(pen, { fillStyle: tintOf(theme, now, score.scale, score.signed).colour || theme.surface, strokeStyle: theme.ink, lineWidth: 1.5 });
    pen.fill();
    pen.stroke();
  }

  // ---- words

  describeChosen() { return this.token < 0 ? "" : this.describe(this.token); }

  describe(at) {
    const { data } = this;
    const parts = data.scores.map((score) => {
      const values = this.valuesOf(score);
      return `${score.name} ${number(values[at], score)} (${placed(values, at)})`;
    });
    return `'${data.names[at]}' (${at}): ${parts.join(", ")}.`;
  }

  /** Every score of every token at the checkpoint shown, as rows for a file. */
  numbers() {
    const { names, scores } = this.data, values = scores.map((score) => this.valuesOf(score));
    return [["place", "token", ...scores.map(({ name }) => name)], ...names.map((name, i) => [i, name, ...values.map((each) => each[i])])];
  }

  tabulate() {
    const { data } = this, columns = data.scores.map((score) => ({ score, values: this.valuesOf(score) }));
    this.table.replaceChildren(tableHead("token", ...data.scores.map(({ name }) => name)), make("tbody", {}, ...data.names.slice(0, MOST_WORDS).map((name, i) =>
      tableRow(`'${name}' (${i})`, ...columns.map(({ score, values }) => number(values[i], score))))));
  }

  // ---- what the reader does

  lead(event) {
    const { parts } = this, row = parts.findIndex(({ node }) => node.contains(event.target));
    const place = lead(event, tokenAt(event), row, parts.length, this.data.tokens.length);
    return place && [place[0], parts[place[1]].row.nodes[place[0]]];
  }
}

const render = renderer(DynamicsView);

export default { render };
