// ProgramExplorer: a program, line by line, with its values on an input that the reader edits; and below, which tokens one
// output reads, which ones cause it, and what methods that read attention say.
//
// What is redrawn when: another program writes all rows; another symbol, output or theme only their texts and colours.
//
// May be touched for: the rows, and what is said of a token. What is computed stands in program_run.js.

import { foreign, make, range, smallButton } from "./common.js";
import { connect, folded, tableHead, tableRow, View } from "./view.js";
import { precision, ProgramRun, unpackProgram } from "./program_run.js";
import { BLANK, tintNode } from "./themes.js";
import { tintOf } from "./token_row.js";
import "./program_explorer.css";

const LETTERS = "abcdefgh";
const TRUTHS = { reads: "reads: on the trace of the computation", causes: "causes: another symbol there changes the output" };
const short = (name) => (name === "none" ? "–" : name); // as much as a cell has room for
/** What the values of a variable are called (`Program.value_names`). */
function namesOf(program, number) {
  const { operation, size, arguments: names } = program.variables[number];
  if (operation === "symbol") return [...LETTERS.slice(0, program.alphabet), "^"];
  return operation === "copy" ? [...namesOf(program, names[2]), "none"] : range(size).map(String);
}

const cellAt = (event) => Number(event.target.closest?.("[data-at]")?.dataset.at ?? -1);

class ProgramView extends View {
  constructor(model, el) {
    super(model);
    this.hover = -1; // the token under the pointer
    this.build(el);
    this.load();
  }

  get shown() { return [this.program.label, this.text]; }

  /** The input: what was typed, if it fits this program, else the program's own. */
  get text() {
    const { alphabet, length, text } = this.program, typed = this.model.get("text");
    return new RegExp(`^[${LETTERS.slice(0, alphabet)}]{${length}}$`).test(typed) ? typed : text;
  }

  get query() {
    const query = this.model.get("query");
    return query >= 1 && query <= this.program.length ? query : this.program.query;
  }

  // ---- built once

  build(el) {
    const draw = smallButton(() => this.drawAnother(), "draw another program"), input = smallButton(() => this.drawInput(), "draw another input");
    const point = (event) => this.point(cellAt(event)), pointing = { pointerover: point, pointerleave: () => this.point(-1) };
    this.rows = make("div", { class: "attnr-rows", ...pointing, focusin: point });
    this.question = make("p", { class: "attnr-question" });
    this.answers = make("div", { class: "attnr-rows", ...pointing });
    this.readout = make("p", { class: "attnx-readout" });
    this.status = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.table = make("table");
    this.details = folded("As a table: every token", "Table of tokens", this.table, () => this.fill());
    this.mount(el, "Program explorer", "attnx attnr", make("div", { class: "attnx-controls" }, this.buildItems("Program"), draw, input),
      this.rows, this.question, this.answers, this.readout, this.details, this.status);
    this.drawer = draw;
  }

  // ---- written for every program

  unpacked(index) { return unpackProgram(this.model, index); }

  load() {
    const program = (this.program = this.unpacked(this.chosenItem()));
    this.columns = program.length;
    this.drawer.hidden = this.model.get("items").length < 2;
    const own = program.variables.map((each, number) => ({ ...each, number, name: `v${number}`, names: namesOf(program, number) }))
      .filter(({ line, operation }) => line && operation !== "position" && operation !== "symbol"); // the others are not used
    this.symbols = this.row("input: press a symbol to change it, or type a letter", "button", { click: (event) => this.step(cellAt(event)), keydown: (event) => this.onSymbolKey(event) });
    this.lines = own.map((each) => ({ ...each, row: this.row(each.line, each.number === program.output ? "button" : "span",
      each.number === program.output ? { click: (event) => this.ask(cellAt(event)), keydown: (event) => this.onOutputKey(event) } : {}) }));
    this.positions = this.row("position", "span");
    this.positions.cells.forEach((node, i) => { node.textContent = i + 1; });
    this.positions.node.classList.add("attnr-positions");
    this.rows.replaceChildren(...[this.positions, this.symbols, ...this.lines.map(({ row }) => row)].map(({ node }) => node));
    this.run();
  }

  /** A line of the program above its cells, one for each token but the beginning. */
  row(line, tag, listeners = {}) {
    const cells = range(this.program.length).map((i) => make(tag, { class: "attnr-cell", "data-at": i + 1, ...(tag === "button" ? { type: "button", tabindex: i ? -1 : 0 } : {}) }));
    const reach = ({ target }) => { for (const each of cells) each.tabIndex = each === target ? 0 : -1; }; // by the tab key
    const label = make("p", { class: "attnr-line" }, line);
    const group = make("div", { class: "attnr-cells", role: "group", "aria-label": line, style: `grid-template-columns: repeat(${cells.length}, minmax(0, 1fr))`, ...(tag === "button" ? { focusin: reach } : {}), ...listeners }, ...cells);
    return { label, cells, node: make("div", {}, label, group) };
  }

  // ---- computed for every input and output

  run() {
    const { program } = this, ids = [program.alphabet, ...[...this.text].map((letter) => LETTERS.indexOf(letter))];
    const run = (this.found = new ProgramRun(program, ids, this.query));
    this.scores = run.methods();
    const tell = ({ cells }, at, text, traced) => {
      cells[at - 1].textContent = text;
      cells[at - 1].classList.toggle("attnr-traced", traced);
    };
    for (const at of range(program.length).map((i) => i + 1)) {
      tell(this.symbols, at, this.text[at - 1], run.reads(at));
      this.symbols.cells[at - 1].setAttribute("aria-label", `Symbol ${this.text[at - 1]} at position ${at}`);
      for (const { number, names, row } of this.lines) {
        tell(row, at, short(names[run.values[number][at]]), run.traced[number].has(at));
        if (number !== program.output) continue;
        row.cells[at - 1].setAttribute("aria-label", `Output ${names[run.values[number][at]]} at position ${at}`);
        row.cells[at - 1].setAttribute("aria-pressed", at === run.query);
      }
    }
    this.question.textContent = `Which tokens matter for the output ${this.outputName(run.output)} at position ${run.query}?`;
    const truths = Object.entries(TRUTHS).map(([name, line]) => {
      const row = this.row(line, "span");
      for (const at of run.candidates) if (run[name](at)) { row.cells[at - 1].textContent = "✓"; row.cells[at - 1].classList.add("attnr-right"); }
      return row;
    });
    this.methods = Object.entries(this.scores).map(([name, values]) => ({ values, ...this.row(`${name}${this.scored(values)}`, "span") }));
    for (const { values, cells } of this.methods) for (const at of run.candidates) cells[at - 1].textContent = values[at] >= 0.005 ? values[at].toFixed(2).replace(/^0/, "") : "";
    const rows = [...truths, ...this.methods];
    for (const { cells } of rows) cells[run.query - 1].classList.add("attnr-query");
    const note = make("p", { class: "attnx-caption" }, "Methods, and how well each ranks the marked tokens first: 0 by chance, 1 perfect");
    this.answers.replaceChildren(...truths.map(({ node }) => node), note, ...this.methods.map(({ node }) => node));
    this.status.textContent = `${this.question.textContent} ${this.sentence()}`;
    this.paint();
  }

  outputName(value) { return namesOf(this.program, this.program.output)[value]; }

  /** A method's average precision on this question, by both truths. */
  scored(values) {
    const { found } = this, by = Object.keys(TRUTHS).flatMap((name) => {
      const score = precision(values, (at) => found[name](at), found.candidates);
      return score === null ? [] : [`${score.toFixed(2).replace("-", "−")} by ${name}`];
    });
    return by.length ? `: ${by.join(", ")}` : "";
  }

  sentence() {
    const { found } = this, list = (name) => found.candidates.filter((at) => found[name](at)).join(", ") || "none";
    return `It reads positions ${list("reads")}; the causes are at positions ${list("causes")}.`;
  }

  // ---- drawn for every theme

  paint() {
    if (!this.dress()) return; // called again when there is some width
    for (const { values, cells } of this.methods) {
      const top = Math.max(...this.found.candidates.map((at) => values[at]), 1e-9);
      cells.forEach((node, i) => tintNode(node, i + 1 === this.found.query ? BLANK : tintOf(this.theme, values[i + 1], top, false)));
    }
    this.point(this.hover);
    this.fill();
  }

  // ---- what the reader does

  step(at) {
    if (at < 1) return;
    const letter = LETTERS[(LETTERS.indexOf(this.text[at - 1]) + 1) % this.program.alphabet];
    this.type(at, letter);
  }

  type(at, letter) { this.choose({ text: this.text.slice(0, at - 1) + letter + this.text.slice(at) }); }

  ask(at) { if (at >= 1) this.choose({ query: at }); }

  chooseItem(value) { this.choose({ item: Number(value), text: "", query: -1 }); }

  drawAnother() {
    const others = this.model.get("items").length - 1, now = this.model.get("item"), next = Math.floor(Math.random() * others);
    this.chooseItem(next + (next >= now));
  }

  drawInput() {
    const { alphabet, length } = this.program;
    this.choose({ text: range(length).map(() => LETTERS[Math.floor(Math.random() * alphabet)]).join("") });
  }

  /** A letter is typed and the next symbol reached; the arrow keys lead along the symbols. */
  onSymbolKey(event) {
    const at = cellAt(event), letter = event.key.toLowerCase();
    if (at < 1 || foreign(event)) return;
    if (letter.length === 1 && LETTERS.slice(0, this.program.alphabet).includes(letter)) {
      event.preventDefault();
      this.type(at, letter);
      this.symbols.cells[Math.min(at, this.program.length - 1)].focus();
    } else this.lead(event, this.symbols, at);
  }

  onOutputKey(event) {
    if (!foreign(event)) this.lead(event, this.lines.find(({ number }) => number === this.program.output).row, cellAt(event));
  }

  lead(event, { cells }, at) {
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 1, End: cells.length }[event.key];
    if (next === undefined || !cells[next - 1]) return;
    event.preventDefault();
    cells[next - 1].focus();
  }

  /** Marks one token in all rows, and says what is known of it. */
  point(at) {
    for (const node of this.root.querySelectorAll(".attnr-cell.attnx-chosen")) node.classList.remove("attnx-chosen");
    this.hover = at;
    if (at >= 1) for (const node of this.root.querySelectorAll(`.attnr-cell[data-at="${at}"]`)) node.classList.add("attnx-chosen");
    this.say(at >= 1 ? this.describe(at) : "", "Point at a token to see what it does for the output. Press a symbol to change it, or an output to ask about it.");
  }

  describe(at) {
    const { found } = this, changes = found.changes[at].map(([symbol, output]) => `'${LETTERS[symbol]}' would give ${this.outputName(output)}`);
    const what = at === found.query ? "the query's own token, which is not ranked" : found.reads(at) ? "read" : "not read";
    const cause = changes.length ? `in its place ${changes.join(", ")}` : "no other symbol there changes the output";
    const said = at === found.query ? "" : ` ${Object.entries(this.scores).map(([name, values]) => `${name} ${values[at].toFixed(2)}`).join(", ")}.`;
    return `'${this.text[at - 1]}' at position ${at}: ${what}; ${cause}.${said}`;
  }

  /** Every token with its values, whether it is read and a cause, and what methods say, as rows for a file. */
  numbers() {
    const { found, lines, scores } = this;
    return [["position", "symbol", ...lines.map(({ name }) => name), "reads", "causes", ...Object.keys(scores)],
      ...range(this.program.length).map((i) => [i + 1, this.text[i], ...lines.map(({ number, names }) => names[found.values[number][i + 1]]),
        Number(found.reads(i + 1)), Number(found.causes(i + 1)), ...Object.values(scores).map((values) => values[i + 1])])];
  }

  fill() {
    if (!this.details.open) return;
    const [head, ...rows] = this.numbers();
    const plain = (cell) => (typeof cell === "number" && !Number.isInteger(cell) ? cell.toFixed(3) : String(cell));
    this.table.replaceChildren(tableHead(...head), make("tbody", {}, ...rows.map(([name, ...cells]) => tableRow(String(name), ...cells.map(plain)))));
  }
}

function render({ model, el }) {
  const view = new ProgramView(model, el), load = () => view.load(), run = () => view.run();
  return connect(view, { item: load, items: load, text: run, query: run });
}

export default { render };
