// MeasureExplorer: a prompt twice, side by side, in the colours of two measures of what its prediction drew on, with
// the tokens that the prediction needs outlined.
//
// What is redrawn when: another question or measure writes both sides; a theme tints them; hovering marks one token.
//
// May be touched for: the sides, and what is said of a token and of the sources' places.

import { clamp, make, visible, written } from "./common.js";
import { BLANK, shade, tintNode } from "./themes.js";
import { connect, dropDown, field, folded, labelOf, offer, tableHead, tableRow, View } from "./view.js";
import { number, ordinal, unpackDocument } from "./document_data.js";
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
  get measures() { return { first: this.model.get("first"), second: this.model.get("second") }; }

  // ---- built once

  build(el) {
    const { model } = this;
    this.select = dropDown("Question", (value) => this.choose({ document: Number(value) }));
    this.field = field("Question", this.select);
    this.answer = make("span", { class: "attnx-label" });
    this.sides = SIDES.map((name) => this.buildSide(name));
    const sides = make("div", { class: "attnm-sides", pointerover: (event) => this.onPoint(event), pointerleave: () => this.point(null),
      click: (event) => this.onPick(event), keydown: (event) => this.onKey(event) }, ...this.sides.map(({ node }) => node));
    const swatch = make("span", { class: "attnx-swatch", "aria-hidden": "true" });
    this.needed = make("span", {}, swatch, "what the answer needs");
    const legend = make("p", { class: "attnm-legend" }, this.needed,
      make("span", {}, make("u", {}, "dotted"), "what predicts"), make("span", {}, "faint: no candidate"));
    this.readout = make("p", { class: "attnx-readout" });
    this.status = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.table = make("table");
    this.details = folded("As a table: both measures of every token", "Table of scores", this.table, () => this.fill());
    this.mount(el, "Measure explorer", "attnx attnm", make("div", { class: "attnx-controls" }, this.field, this.answer), sides, legend,
      this.readout, this.details, this.status);
    for (const side of this.sides) offer(side.select, model.get("names").map((name) => [name, name]));
  }

  buildSide(trait) {
    const where = trait === "first" ? "left" : "right";
    const select = dropDown(`Measure on the ${where}`, (value) => this.choose({ [trait]: value }));
    const text = make("div", { class: "attnm-text", role: "group" }), found = make("p", { class: "attnm-found" });
    return { trait, select, text, found, nodes: [], node: make("div", { class: "attnm-side" }, field("Measure", select), text, found) };
  }

  // ---- written for every question and measure

  load() {
    const documents = this.model.get("documents"), index = clamp(this.model.get("document"), 0, documents.length - 1);
    const data = (this.data = unpackDocument(this.model, index));
    data.isSource = new Set(data.truth ?? []);
    this.needed.hidden = data.truth === null;
    this.hover = null;
    this.field.hidden = documents.length < 2;
    offer(this.select, documents.map((each, i) => [i, labelOf(each)]));
    this.select.value = index;
    const said = data.predicted[0], right = said === data.gold;
    this.answer.textContent = !said ? "" : `The model says '${visible(said)}'${data.gold === null ? "" : right ? ", which is right" : `; right is '${visible(data.gold)}'`}.`;
    this.write();
  }

  write() {
    const { data } = this, spaced = data.tokens.some((token) => token.length > 1) && !data.tokens.some((token) => token.startsWith(" "));
    for (const side of this.sides) {
      const name = this.measures[side.trait], score = data.scores.find((each) => each.name === name);
      Object.assign(side, { name, score: score ?? null, nodes: [], select: side.select });
      side.select.value = name;
      side.text.setAttribute("aria-label", `Tokens by ${name}; the arrow keys move`);
      side.text.replaceChildren(...written(data.tokens, (word, i) => (side.nodes[i] = make("button",
        { type: "button", class: this.classesOf(i), "data-token": i, "data-side": side.trait }, word)),
        (token) => spaced || token.startsWith(" ")));
      side.found.textContent = score ? this.foundBy(score) : `Not given: ${data.missing[name] ?? "not asked"}`;
    }
    this.paint();
  }

  classesOf(i) {
    const { data } = this;
    return ["attnm-token", data.isSource.has(i) && "attnm-source", i === data.query && "attnm-query",
      !data.candidates.includes(i) && "attnm-faint"].filter(Boolean).join(" ");
  }

  foundBy({ name }) {
    const { found, candidates } = this.data, places = [...found[name]].sort((a, b) => a - b).map(ordinal);
    return places.length ? `What is needed is ${places.join(", ")} of ${candidates.length}.` : "";
  }

  // ---- drawn for every width and theme

  paint() {
    if (!this.dress()) return; // called again when there is some width
    for (const { score, nodes } of this.sides) {
      nodes.forEach((node, i) => tintNode(node, score ? this.tint(score.values[0][i], score) : BLANK));
    }
    this.showFocus();
    this.fill();
  }

  /** By the square root where a score is never negative, as in heat maps of attention; else in proportion. */
  tint(value, { scale, signed }) {
    if (value === 0) return BLANK;
    const step = signed ? Math.round(255 * Math.min(Math.abs(value) / scale, 1)) : shade(value, scale);
    return (value > 0 ? this.theme.above : this.theme.below)[Math.max(step, 1)];
  }

  // ---- drawn for every token in focus: all the work of a hover

  showFocus() {
    const { focus, token } = this, reached = Math.max(token, 0);
    for (const { nodes } of this.sides) {
      nodes.forEach((node, i) => {
        node.classList.toggle("attnx-chosen", i === focus);
        node.tabIndex = i === reached ? 0 : -1;
      });
    }
    this.readout.textContent = focus < 0 ? "Point at a token, or choose one with the arrow keys: its numbers by both measures stand here."
      : this.describe(focus);
  }

  // ---- words

  describe(at) {
    const { data } = this, isCandidate = data.candidates.includes(at), given = this.sides.filter(({ score }) => score);
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

  fill() {
    if (!this.details.open) return;
    const { data } = this, given = this.sides.filter(({ score }) => score);
    this.table.replaceChildren(tableHead("token", "", ...given.map(({ name }) => name)), make("tbody", {}, ...data.names.map((name, i) =>
      tableRow(`'${name}' (${i})`, data.isSource.has(i) ? "needed" : "", ...given.map(({ score }) =>
        data.candidates.includes(i) ? number(score.values[0][i], score) : "")))));
  }

  // ---- what the reader does

  at(event) { return Number(event.target.closest?.("[data-token]")?.dataset.token ?? -1); }

  point(token) {
    if (token === this.hover) return;
    this.hover = token;
    this.showFocus();
  }

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

  /** Left and right lead to other tokens, up and down to the same token of the other side, escape to none. */
  onKey(event) {
    const at = this.at(event), side = this.sides.find(({ trait }) => trait === event.target.dataset?.side), last = this.data.tokens.length - 1;
    if (at < 0 || !side) return;
    const other = { ArrowUp: this.sides[0], ArrowDown: this.sides[1] }[event.key];
    const next = other ? at : { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.hover = null;
    const token = event.key === "Escape" ? -1 : clamp(next, 0, last);
    this.choose({ token });
    this.showFocus();
    (other ?? side).nodes[Math.max(token, 0)].focus();
  }
}

function render({ model, el }) {
  const view = new MeasureView(model, el);
  const load = () => { view.load(); view.announce(); }, write = () => { view.write(); view.announce(); };
  return connect(view, { document: load, documents: load, first: write, second: write, token: () => view.onToken() });
}

export default { render };
