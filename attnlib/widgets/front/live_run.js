// LiveRun: what a language model wrote in this page, and how it is read: AttnLRP, occlusion, rollout, with the first token
// left out or over what looking everywhere equally would give, attention. Each reading is what a GenerationView shows.
//
// May be touched for: another reading of what ../live/model.js yields. Nothing here is drawn.

import { largestOf, range, visible, order } from "./common.js";
import { afterLayer, layerNumber, rowOf } from "./generation_data.js";

const inLayer = (layer) => (layer < 0 ? "mean over layers" : `in layer ${layerNumber(layer)}`);

const BESIDE = 6; // tokens whose measures stand beside each other
const READINGS = {
  relevance: { name: "AttnLRP", measure: "logit", at: () => "AttnLRP" },
  blankOut: { name: "occlusion", measure: "nats", at: () => "occlusion" },
  rollout: { name: "rollout", measure: "share", at: afterLayer },
  sinkFree: { name: "rollout, first token left out", measure: "share", at: afterLayer },
  overNull: { name: "normalized rollout", measure: "ratio", at: afterLayer },
  attention: { name: "attention", measure: "share", at: inLayer },
};

/** What a reading is called. */
export const nameOf = (reading) => READINGS[reading].name;

/** Readings that are asked for word by word, and have no layers. */
export const ASKED = ["relevance", "blankOut"];

// Numbers that were computed here, not stored in a byte: two or three digits of each.
export const liveShare = (value) => (value >= 0.1 ? value.toFixed(2) : value >= 1e-4 ? String(Number(value.toPrecision(2))) : value > 0 ? "<0.0001" : "0");
const liveRatio = (value) => (value ? String(Number(value.toPrecision(3))) : "0");
const signed = (value) => value.toFixed(2).replace("-", "−");

export class LiveRun {
  /**
   * `about`: the model's; `prompt`: {ids, texts, special} of its tokens; `ignore`: words that the filter hides; `forced`:
   * whether its words are the reader's; `label`: what it is called beside another.
   */
  constructor(about, prompt, ignore, more) {
    Object.assign(this, { about, prompt, ...more, columns: prompt.ids.length, words: [], asked: Object.fromEntries(ASKED.map((reading) => [reading, new Map()])), declined: new Set() }); // the words whose occlusion was stopped
    this.ignored = Uint8Array.from(prompt.texts, (text, k) => prompt.special[k] || isIgnored(text, ignore));
  }

  /** The readings that there are: [key, name]. */
  get readings() {
    const there = { sinkFree: this.words[0]?.sinkFree, ...Object.fromEntries(ASKED.map((reading) => [reading, this.asked[reading].size])) };
    return Object.entries(READINGS).filter(([key]) => there[key] ?? true).map(([key, { name }]) => [key, name]);
  }

  /** Whether a reading of word g is there. */
  has(reading, g) { return this.asked[reading]?.has(g) ?? true; }

  layersOf(reading) { return ASKED.includes(reading) ? 1 : this.about.layers; }

  get text() { return this.words.map(({ text }) => text).join(""); }
  get logp() { return this.words.reduce((all, { logp }) => all + logp, 0); }

  /** The place of a part of the prompt, of its tokens the best, among all that a reading of word g ranks; null if it is not there. */
  placeOf(part, reading, g) {
    const { texts } = this.prompt, ends = [], last = this.columns - 1; // which predicts
    texts.reduce((at, text, k) => (ends[k] = at + text.length), 0);
    const from = texts.join("").indexOf(part), holds = (k) => ends[k] > from && ends[k] - texts[k].length < from + part.length;
    if (from < 0) return null;
    const values = rowOf({ rows: { [g]: this.row(reading, g) }, columns: this.columns, layers: this.layersOf(reading) }, g, -1).subarray(0, last);
    const best = Math.max(...values.filter((_, k) => holds(k)));
    return { place: 1 + values.reduce((above, value) => above + (value > best), 0), of: last };
  }

  /** The ids of prompt and words, up to the word g. */
  idsUpTo(g) { return Int32Array.from([...this.prompt.ids, ...this.words.slice(0, g + 1).map(({ id }) => id)]); }

  /** What a GenerationView takes; `head` is that of attention, -1 for the mean of all. */
  data(reading, head = -1) {
    const { prompt, columns, words, ignored } = this, { measure, at } = READINGS[reading], generated = words.map(({ text }) => text);
    const rows = range(words.length).map((g) => this.row(reading, g, head));
    return {
      prompt: prompt.texts, generated, keys: prompt.texts.map(visible), queries: generated.map(visible), columns, rows, ignored, measure, at,
      layers: this.layersOf(reading), shares: measure === "share", signed: ASKED.includes(reading),
      scale: measure === "share" ? 1 : largestOf(rows.map((row) => largestOf(row.map(Math.abs)))) || 1,
      number: { share: liveShare, ratio: liveRatio }[measure] ?? signed, likely: (g) => Math.exp(words[g].logp),
    };
  }

  /** The values [layer prompt] of word g; NaN never: what was not asked is 0. */
  row(reading, g, head = -1) {
    const { columns, about } = this, word = this.words[g];
    if (ASKED.includes(reading)) return Float32Array.from({ length: columns }, (_, k) => this.asked[reading].get(g)?.[k] || 0);
    if (reading === "attention") return this.attention(word, head);
    const rows = word[reading === "overNull" ? "rollout" : reading], values = new Float32Array(about.layers * columns);
    for (let layer = 0; layer < about.layers; layer++) values.set(rows.subarray(layer * word.n, layer * word.n + columns), layer * columns);
    return reading === "overNull" ? values.map((value, i) => value / this.null(g)[i] || 0) : values;
  }

  attention({ attention, n }, head) {
    const { columns, about: { layers, heads } } = this, values = new Float32Array(layers * columns), chosen = head < 0 ? range(heads) : [head];
    for (let layer = 0; layer < layers; layer++) {
      for (const each of chosen) {
        const from = (layer * heads + each) * n;
        for (let k = 0; k < columns; k++) values[layer * columns + k] += attention[from + k] / chosen.length;
      }
    }
    return values;
  }

  /** The rollout [layer prompt] of attention that looks everywhere equally, of the row that predicts word g. */
  null(g) {
    this.nulls ??= [];
    if (!this.nulls[g]) this.nulls.push(...uniformRollout(this.columns, this.about.layers, this.nulls.length, Math.max(g + 1, 2 * this.nulls.length)));
    return this.nulls[g];
  }

  /**
   * Measures of word g beside each other, for the prompt tokens that are the largest of one of them: names, and of
   * every token its place k and for each name a value in words, and whether it is the largest.
   */
  beside(g, hidden) {
    const all = { "AttnLRP, logits": ["relevance", -1], "occlusion, nats": ["blankOut", -1], rollout: ["rollout", -1], "its last layer": ["rollout", this.about.layers - 1], attention: ["attention", -1] };
    const measures = Object.fromEntries(Object.entries(all).filter(([, [reading]]) => this.has(reading, g))), readings = Object.values(measures);
    const columns = readings.map(([reading, layer]) => rowOf({ ...this, layers: this.layersOf(reading), rows: { [g]: this.row(reading, g) } }, g, layer, hidden));
    const ranked = columns.map((values) => order(values, BESIDE)), places = new Set();
    for (let rank = 0; rank < BESIDE; rank++) for (const best of ranked) if (places.size < BESIDE && rank < best.length) places.add(best[rank]);
    return { names: Object.keys(measures), rows: [...places].sort((a, b) => a - b).map((k) =>
      ({ k, values: columns.map((values, i) => [(ASKED.includes(readings[i][0]) ? signed : liveShare)(values[k]), ranked[i][0] === k]) })) };
  }
}

/** As `GenerativeRollout.informative` has it: blanks, words of a list, and signs that are all in it. */
function isIgnored(text, ignore) {
  const word = text.replace(/^[ \t\n\r▁Ġ]+|[ \t\n\r▁Ġ]+$/gu, "").toLowerCase();
  return !word || ignore.has(word) || [...word].every((sign) => !/[\p{L}\p{N}]/u.test(sign) && ignore.has(sign));
}

/**
 * Rollout of uniform causal attention, `attnlib.rollout.null.uniform_causal_rollout`: of the rows that predict the words
 * `from` to `to` behind a prompt of `columns` tokens, [layer prompt] each. A layer is a running mean down every column.
 */
function uniformRollout(columns, layers, from, to) {
  const rows = range(to - from).map(() => new Float64Array(layers * columns)), last = columns - 1 + to, state = new Float64Array(last);
  for (let k = 0; k < columns; k++) {
    state.fill(0);
    state[k] = 1;
    for (let layer = 0; layer < layers; layer++) {
      for (let q = k, all = 0; q < last; q++) {
        all += state[q];
        state[q] = (all / (q + 1) + state[q]) / 2;
      }
      rows.forEach((row, g) => { row[layer * columns + k] = state[columns - 1 + from + g]; });
    }
  }
  return rows;
}
