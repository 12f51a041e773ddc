// MeasureExplorer: a prompt twice, side by side, in the colours of two measures of what its prediction drew on, with
// the tokens that the prediction needs outlined.
//
// What is redrawn when: another question writes both sides; another measure or theme tints them; hovering marks one token.
//
// May be touched for: the sides, and what is said of a token and of the sources' places.

import { foreign, make, ordinal, visible } from "./common.js";
import { connect, dropDown, field, folded, offer, tableHead, tableRow, View } from "./view.js";
import { number, unpackScores } from "./scores_data.js";
import { tintNode } from "./themes.js";
import { lead, MOST_WORDS, pointing, tokenAt, TokenRow } from "./token_row.js";
import "./measure_explorer.css";

const SIDES = ["first", "second"]; // the traits that name the measures

class MeasureView extends View {
  constructor(model, el) {
    super(model);
    this.hover = null; // the token under the pointer
    this.build(el);
    this.load();
  }

  // The model may be ahead of the question: another one can have fewer tokens.
  get token() { const token = this.model.get("token"); return token < this.data.tokens.length ? token : -1; }
  get focus() { return this.hover ?? this.token; }
  get shown() { return [this.data.label, this.sides.map(({ name }) => name).join(" and ")]; }
  get measures() { // an address may name one that is not here
    const names = this.model.get("names"), known = (name) => (names.includes(name) ? name : names[0]);
    return { first: known(this.model.get("first")), second: known(this.model.get("second")) };
  }

  // ---- built once

  build(el) {
    const { model } = this;
    this.answer = make("p", { class: "attnm-answer" });
    this.written = model.get("written");
    this.answered = new TokenRow("attnm");
    const caption = make("p", { class: "attnx-caption" }, "The text that followed: choose a word to see its sources");
    this.words = make("div", { class: "attnm-written", click: (event) => this.pickWord(tokenAt(event)),
      keydown: (event) => this.onWordKey(event) }, caption, this.answered.text);
    this.words.hidden = !this.written.length;
    this.answered.write(this.written.filter(Boolean), this.written.some((word) => word.length > 1));
    this.answered.text.setAttribute("aria-label", "Words that followed; the arrow keys move");
    this.sides = SIDES.map((name) => this.buildSide(name));
    const sides = make("div", { class: "attnm-sides", ...pointing(this), keydown: (event) => this.onKey(event) }, ...this.sides.map(({ node }) => node));
    const swatch = () => make("span", { class: "attnx-swatch", "aria-hidden": "true" });
    this.needed = make("span", {}, swatch(), "what the answer needs");
    [this.favours, this.opposes] = [swatch(), swatch()];
    this.opposed = make("span", {}, this.opposes, "against it");
    const legend = make("p", { class: "attnm-legend" }, make("span", {}, this.favours, "speaks for the prediction"), this.opposed, this.needed,
      make("span", {}, make("u", {}, "dotted"), "what predicts"), make("span", {}, "faint: no candidate"));
    this.readout = make("p", { class: "attnx-readout" });
    this.status = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.table = make("table");
    this.details = folded("As a table: both numbers of every token", "Table of scores", this.table, () => this.fill());
    this.mount(el, "Measure explorer", "attnx attnm", make("div", { class: "attnx-controls" }, this.buildItems("Question")), this.words, this.answer, sides, legend,
      this.readout, this.details, this.status);
    for (const side of this.sides) offer(side.select, model.get("names").map((name) => [name, name]));
  }

  buildSide(trait) {
    const where = trait === "first" ? "left" : "right", noun = this.model.get("noun");
    const select = dropDown(`${noun} on the ${where}`, (value) => this.choose({ [trait]: value }));
    const row = new TokenRow("attnm"), found = make("p", { class: "attnm-found" });
    return { trait, select, row, found, node: make("div", { class: "attnm-side" }, field(noun, select), row.text, found) };
  }

  // ---- written for every question

  unpacked(index) { return unpackScores(this.model, index); }

  load() {
    const index = this.chosenItem(), data = (this.data = this.unpacked(index));
    this.itemField.hidden ||= this.written.length > 0 && this.written.every(Boolean);
    this.answered.mark(index - this.wholes, index - this.wholes);
    data.names = data.tokens.map(visible);
    data.isSource = new Set(data.truth ?? []);
    data.isCandidate = new Set(data.candidates);
    this.tellLength(data.tokens.length, MOST_WORDS);
    this.needed.hidden = data.truth === null;
    this.hover = null;
    const { predicted, expected } = data, right = predicted === expected;
    this.answer.textContent = !predicted ? "" : `The model says '${visible(predicted)}'${expected === null ? "" : right ? ", which is right" : `; right is '${visible(expected)}'`}.`;
    const apart = data.tokens.some((token) => token.length > 1); // letters stand together
    for (const { row } of this.sides) row.write(data.tokens, apart, (i) => this.classOf(i));
    this.measure();
  }

  // ---- told for every measure

  measure() {
    const { data } = this;
    for (const side of this.sides) {
      const name = this.measures[side.trait], score = data.scores.find((each) => each.name === name);
      Object.assign(side, { name, score: score ?? null });
      side.select.value = name;
      side.row.label(name);
      side.found.textContent = score ? this.foundBy(score) : `Not given: ${data.missing[name] ?? "not asked"}`;
    }
    this.paint();
  }

  classOf(i) {
    const { data } = this;
    return [data.isSource.has(i) && "attnm-source", i === data.query && "attnm-query",
      !data.isCandidate.has(i) && "attnm-faint"].filter(Boolean).join(" ");
  }

  foundBy({ name }) {
    const { found, candidates } = this.data, places = [...found[name]].sort((a, b) => a - b).map(ordinal);
    return places.length ? `What is needed is ${places.join(", ")} of ${candidates.length}.` : "";
  }

  // ---- drawn for every width and theme

  paint() {
    if (!this.dress()) return; // called again when there is some width
    const signed = this.sides.some(({ score }) => score?.signed); // one way from number to colour on both sides
    for (const { score, row } of this.sides) row.paint(this.theme, score?.values[0], score?.scale, signed);
    tintNode(this.favours, this.theme.above[255]);
    tintNode(this.opposes, this.theme.below[255]);
    this.opposed.hidden = !signed;
    this.showFocus();
    this.fill();
  }

  // ---- drawn for every token in focus: all the work of a hover

  showFocus() {
    const { focus } = this;
    for (const { row } of this.sides) row.mark(focus, this.token);
    this.say(focus < 0 ? "" : this.describe(focus), "Point at a token, or choose one with the arrow keys: its numbers of both sides stand here.");
  }

  // ---- words

  describe(at) {
    const { data } = this, isCandidate = data.isCandidate.has(at), given = this.sides.filter(({ score }) => score);
    const placed = ({ name }) => (data.isSource.has(at) ? ` (${ordinal(data.found[name][data.truth.indexOf(at)])} of ${data.candidates.length})` : "");
    const parts = given.map(({ score }) => `${score.name} ${number(score.values[0][at], score)}${placed(score)}`);
    const other = isCandidate ? data.truth && "not needed" : "no candidate";
    const what = data.isSource.has(at) ? "needed" : at === data.query ? "predicts" : other;
    return `'${data.names[at]}' (${at})${what ? `, ${what}` : ""}${isCandidate && parts.length ? `: ${parts.join(", ")}` : ""}.`;
  }

  announce() {
    const { token } = this, found = this.sides.map(({ name, found }) => `${name}: ${found.textContent}`);
    this.status.textContent = token < 0 ? found.join(" ") : this.describe(token);
  }

  /** Both measures of every token, as rows for a file; what is no candidate has none. */
  numbers() {
    const { data } = this, given = this.sides.filter(({ score }) => score);
    const value = ({ score }, i) => (data.isCandidate.has(i) ? score.values[0][i] : "");
    return [["place", "token", "needed", ...given.map(({ name }) => name)],
      ...data.names.map((name, i) => [i, name, data.isSource.has(i) ? 1 : 0, ...given.map((side) => value(side, i))])];
  }

  fill() {
    if (!this.details.open) return;
    const { data } = this, given = this.sides.filter(({ score }) => score);
    this.table.replaceChildren(tableHead("token", "role", ...given.map(({ name }) => name)), make("tbody", {}, ...data.names.slice(0, MOST_WORDS).map((name, i) =>
      tableRow(`'${name}' (${i})`, data.isSource.has(i) ? "needed" : "", ...given.map(({ score }) =>
        data.isCandidate.has(i) ? number(score.values[0][i], score) : "")))));
  }

  // ---- what the reader does

  /** So many questions are about no single word; they come first. */
  get wholes() { return this.written.filter((word) => !word).length; }

  pickWord(at) { if (at >= 0) this.choose({ item: at + this.wholes }); }

  /** The arrow keys lead along the words. */
  onWordKey(event) {
    const at = tokenAt(event), place = at < 0 || foreign(event) ? null : lead(event, at, 0, 1, this.answered.nodes.length);
    if (!place) return;
    event.preventDefault();
    this.pickWord(place[0]);
    this.answered.nodes[place[0]].focus();
  }

  point(token) {
    if (token === this.hover) return;
    this.hover = token;
    this.showFocus();
  }

  onToken() {
    this.showFocus();
    this.announce();
  }

  /** Left and right lead to other tokens, up and down to the same token of the other side, escape to none. */
  onKey(event) {
    if (foreign(event)) return;
    const { sides } = this, at = tokenAt(event), side = sides.findIndex(({ row }) => row.text.contains(event.target));
    if (at < 0 || side < 0) return;
    const place = event.key === "Escape" ? [-1, side] : lead(event, at, side, sides.length, this.data.tokens.length);
    if (!place) return;
    event.preventDefault();
    this.hover = null;
    this.choose({ token: place[0] });
    this.showFocus();
    sides[place[1]].row.nodes[Math.max(place[0], 0)].focus();
  }
}

function render({ model, el }) {
  const view = new MeasureView(model, el);
  const load = () => { view.load(); view.announce(); }, measure = () => { view.measure(); view.announce(); };
  return connect(view, { item: load, items: load, first: measure, second: measure, token: () => view.onToken() });
}

export default { render };
