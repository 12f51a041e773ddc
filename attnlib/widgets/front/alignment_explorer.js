// AlignmentExplorer: for every score a heat map of target tokens by source tokens at one checkpoint of a training,
// which the slider or the chart chooses; where the true alignment is known, it is outlined on each and has a map.
//
// May be touched for: how the maps stand side by side, and what is said of a pair of tokens.

import { capital, clamp, LONGEST, make, visible } from "./common.js";
import { tableHead, tableRow } from "./view.js";
import { largestAt, magnitude, number } from "./scores_data.js";
import { drawn, HeatMap } from "./heat_map.js";
import { renderer, ScoresView } from "./scores_view.js";
import "./alignment_explorer.css";

const TRUTH = "truth", LONGEST_SAID = 160; // letters: an untrained model goes on without end

class AlignmentView extends ScoresView {
  get words() {
    const [item, answer] = this.model.get("nouns");
    return { kind: "Alignment explorer", style: "attna", item: capital(item), answer, said: (text) => (text.length > LONGEST_SAID ? `${text.slice(0, LONGEST_SAID)}…` : text || "∅"),
      caption: `${capital(answer)} at this checkpoint`, verdicts: [`${answer} right`, "other"],
      scales: [["row", "each row by itself"]],
      table: ["As a table: where each score of a target token is largest", "Table of the largest"],
      ask: { label: "A sentence of your own", placeholder: "A sentence to translate", verb: "Translate", doing: "Translating …",
        rows: 1, note: "Recorded. In a live notebook, a sentence of your own can be typed here." } };
  }

  get queries() { return this.data.targets[this.training.moment]; }
  /** The chosen cell. The model may be ahead: another sentence can have fewer. */
  get cell() {
    const token = this.model.get("token"), { columns, cells } = this.data;
    return token < 0 || token >= cells ? { q: -1, k: -1 } : { q: Math.floor(token / columns), k: token % columns };
  }
  get focus() { return this.hover ?? this.cell; }

  // ---- built for every sentence and set of scores

  buildHolder() { return make("div", { class: "attna-maps" }); }

  read(index) {
    const found = this.unpacked(index), columns = found.source.length, rows = found.targets[0].length;
    const targets = found.targets.map((line) => line.map((token) => token && visible(token)));
    const apart = !Array.isArray(found.written), said = apart ? [] : found.written; // apart: judged score by score
    const data = { ...found, apart, said, right: apart ? null : found.expected, columns, rows, cells: rows * columns,
      keys: found.source.map(visible), targets };
    this.columns = columns;
    this.tellLength(Math.max(rows, columns));
    this.root.classList.toggle("attna-apart", apart);
    this.training.told.hidden = apart && found.expected === null;
    if (!found.truth) return data;
    const truth = Float32Array.from({ length: rows * columns }, () => 0);
    for (const at of found.truth) truth[at] = 1;
    return { ...data, truth, scores: [...found.scores, { name: TRUTH, values: [truth], scale: 1, signed: false }] };
  }

  buildPart(score) {
    const map = new HeatMap({ hover: (place) => this.point(place && { ...place, on: score.name }), pick: (place) => this.pick(place, score),
      key: (event) => this.onKey(event), zoom: (step) => this.zoomBy(step) }, ["source →", "target ↓"]);
    map.measure(score.name, score.name);
    const head = make("p", { class: "attna-name" }, score.name);
    const texts = (this.data.apart && this.data.written[score.name]) || [];
    const longest = texts.map(this.words.said).reduce((a, b) => (b.length > a.length ? b : a), "");
    const verdict = make("span", { class: "attnt-verdict" }), text = make("span", { class: "attna-text" });
    // The longest text keeps its room at every checkpoint.
    const written = make("p", { class: "attna-written", "data-room": `✗ wrong ${longest}` }, make("span", {}, verdict, " ", text));
    return { score, map, texts, verdict, text, node: make("div", { class: "attna-map" }, head, map.node, ...(texts.length ? [written] : [])) };
  }

  // ---- drawn for every width

  arrange(width) {
    const across = width >= 560 ? 2 : 1, { targets, keys, rows } = this.data, room = (width - 24 * (across - 1)) / across;
    this.holder.style.gridTemplateColumns = `repeat(${across}, minmax(0, 1fr))`;
    for (const { map } of this.parts) map.arrange({ queries: targets.flat(), keys }, room, 0, this.zoom, rows);
  }

  // ---- drawn for every checkpoint and scale

  draw() {
    for (const part of this.parts) this.take(part);
    drawn(this.parts.map(({ map }) => map));
  }

  take({ score, map, values, top, texts, verdict, text }) {
    const { data, queries, theme, training } = this, now = texts[training.moment] ?? null, byRow = this.model.get("colours") === "row" && score.name !== TRUTH;
    map.stage.setAttribute("aria-label", `${this.name}: ${score.name}. ${data.rows} target tokens by ${data.columns} source tokens. The arrow keys move, escape chooses none.`);
    const scaled = score.signed ? "of the largest in its row" : "from least to largest of its row";
    map.measure(byRow ? `${score.name}, ${scaled}` : score.name, score.name);
    map.take({ values: byRow ? ofRows(values, data.columns, score.signed) : values, top: byRow ? 1 : top, signed: score.signed, reference: data.truth ?? null, queries, keys: data.keys }, theme);
    if (now === null) return;
    text.textContent = this.words.said(now);
    verdict.textContent = data.expected === null ? "" : now === data.expected ? "✓ right" : "✗ wrong";
    verdict.dataset.right = now === data.expected;
  }

  /** Where the model's text is not one, it stands below each map, and here the one that is expected. */
  tell() {
    const { data, training, words } = this;
    if (!data.apart) super.tell();
    else if (data.expected !== null) training.tell(`Expected ${words.answer}`, data.expected, null, words.said);
  }

  get answered() {
    const { data, training, words } = this;
    if (!data.apart) return super.answered;
    const judged = (text) => (data.expected === null ? `'${words.said(text)}'` : text === data.expected ? "right" : "wrong");
    const told = data.scores.filter(({ name }) => data.written[name]).map(({ name }) => `${name} ${judged(data.written[name][training.moment])}`);
    return `${words.answer}: ${told.join(", ") || "not recorded"}`;
  }

  topOf(score) {
    if (!this.model.get("one_scale") || score.name === TRUTH) return super.topOf(score);
    const all = this.data.scores.filter(({ name }) => name !== TRUTH);
    return Math.max(...all.map((each) => (this.stretched ? magnitude(this.valuesOf(each)) : Math.max(each.most, -each.least)))) || 1;
  }

  // ---- drawn for every cell in focus: all the work of a hover

  point(place) {
    const { hover } = this;
    if (place?.q !== hover?.q || place?.k !== hover?.k || place?.on !== hover?.on) super.point(place);
  }

  showFocus() {
    const { q, k, on } = this.focus;
    for (const { score, map, values } of this.parts)
      map.focus(q, k, on === score.name && k >= 0 ? number(values[q * this.data.columns + k], score) : "");
    this.say(q < 0 ? "" : this.describe(q, k), "Point at a cell, or choose one with the arrow keys: its numbers by every score stand here.");
  }

  // ---- words

  describeChosen() {
    const { q, k } = this.cell;
    return q < 0 ? "" : this.describe(q, k);
  }

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

  /** Every score of every pair at the checkpoint shown, as rows for a file. */
  * numbers() {
    const { data: { cells, columns, keys, scores }, queries } = this, values = scores.map((score) => this.valuesOf(score));
    yield ["target", "target token", "source", "source token", ...scores.map(({ name }) => name)];
    for (let i = 0; i < cells; i++) yield [Math.floor(i / columns), queries[Math.floor(i / columns)], i % columns, keys[i % columns], ...values.map((each) => each[i])];
  }

  tabulate() {
    const { data } = this, rows = this.queries.map((name, q) => [name, q]).filter(([name]) => name).slice(0, LONGEST);
    this.table.replaceChildren(tableHead("target token", ...data.scores.map(({ name }) => name)), make("tbody", {}, ...rows.map(([name, q]) =>
      tableRow(`'${name}' (${q})`, ...data.scores.map((score) => this.largest(score, q))))));
  }

  // ---- what the reader does

  /** Where another sentence has the chosen pair of places, it stays chosen. */
  chooseItem(value) {
    const { source, targets: [line] } = this.model.get("items")[value], { q, k } = this.cell, there = q >= 0 && q < line.length && k < source.length;
    this.choose({ item: Number(value), token: there ? q * source.length + k : -1 });
  }

  /** A row's name stands for its largest cell. */
  pick({ q, k }, score) {
    const { columns } = this.data, line = this.valuesOf(score).slice(q * columns, (q + 1) * columns);
    const token = q * columns + (k < 0 ? largestAt(line) : k);
    this.choose({ token: token === this.model.get("token") ? -1 : token });
  }

  lead({ key }) {
    const { rows, columns } = this.data, { q, k } = this.cell;
    const moves = { ArrowUp: [q - 1, k], ArrowDown: [q + 1, k], ArrowLeft: [q, k - 1], ArrowRight: [q, k + 1], Home: [0, k], End: [rows - 1, k] };
    if (!moves[key]) return null;
    const [row, column] = moves[key];
    return [clamp(row, 0, rows - 1) * columns + clamp(column, 0, columns - 1)];
  }
}

/** Every row from 0 at its least to 1 at its largest; one with signs, by its furthest from 0. */
function ofRows(values, columns, signed) {
  const found = new Float32Array(values.length);
  for (let from = 0; from < values.length; from += columns) {
    const row = values.subarray(from, from + columns), least = signed ? 0 : Math.min(...row), most = magnitude(row);
    found.set(row.map((value) => (value - least) / (most - least || 1)), from);
  }
  return found;
}

const render = renderer(AlignmentView);

export default { render };
