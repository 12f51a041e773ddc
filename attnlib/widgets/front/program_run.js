// A program on an input: its values, the trace of one output, and what methods that read attention say of it. All of it
// is exact and takes a few milliseconds; nothing was computed before.
//
// May be touched for: another method that needs attention alone. What a program is stands in attnlib.benchmarking.programs,
// and what its heads attend to in attnlib.benchmarking.compiling (without disguise).

import { bytesOf, range, sum } from "./common.js";
import { inflate } from "./inflate.js";

/** The program of an item: its variables get the cells of their relations and tables, row by row. */
export function unpackProgram(model, index) {
  const items = model.get("items"), { bytes, cells, ...program } = items[index], start = sum(items.slice(0, index).map((each) => each.bytes));
  const all = inflate(bytesOf(model.get("weights")).subarray(start, start + bytes), cells);
  let at = 0;
  const matrix = ([rows, columns]) => range(rows).map(() => all.subarray(at, (at += columns)));
  const variables = program.variables.map((each) => {
    const found = { ...each };
    for (const part of ["relation", "allowed", "table"]) found[part] = each[part] && matrix(each[part]);
    return found;
  });
  return { ...program, variables };
}

/** Every variable's value at every token, and at every token the keys that its head used. */
function evaluate({ variables, causal }, ids) {
  const values = [], keys = [], tokens = range(ids.length);
  const selected = ({ relation, allowed, arguments: [query, key] }, q) => tokens.filter((k) => k > 0 && q > 0
    && relation[values[query][q]][values[key][k]] && (!allowed || allowed[q][k]) && (!causal || k <= q));
  for (const each of variables) {
    const [first, second, copied] = each.arguments;
    let used = tokens.map(() => []), own = null;
    if (each.operation === "symbol") own = ids;
    else if (each.operation === "position") own = tokens;
    else if (each.operation === "lookup") own = tokens.map((at) => each.table[values[first][at]][values[second][at]]);
    else {
      used = tokens.map((q) => selected(each, q));
      if (each.operation === "count") own = used.map((all) => Math.min(all.length, each.size - 1));
      else {
        used = used.map((all) => (each.pick === "first" ? all.slice(0, 1) : all.slice(-1)));
        own = used.map(([k]) => (k === undefined ? each.size - 1 : values[copied][k]));
      }
    }
    values.push(own);
    keys.push(used);
  }
  return { values, keys };
}

/** A program on an input, asked about its output at one token. */
export class ProgramRun {
  constructor(program, ids, query) {
    Object.assign(this, { program, ids, query, ...evaluate(program, ids) });
    this.candidates = range(ids.length).filter((at) => at > 0 && at !== query);
    this.traced = this.trace();
    this.changes = ids.map((_, at) => (at ? this.changesAt(at) : []));
    this.layers = range(program.layers).map((layer) => this.attention(layer));
  }

  get output() { return this.values[this.program.output][this.query]; }

  /** By variable, the tokens at which the output used its value. */
  trace() {
    const { program, keys } = this, found = program.variables.map(() => new Set()), waiting = [[program.output, this.query]];
    while (waiting.length) {
      const [number, at] = waiting.pop(), { operation, arguments: names } = program.variables[number];
      if (found[number].has(at)) continue;
      found[number].add(at);
      if (operation === "lookup") waiting.push(...names.map((name) => [name, at]));
      else if (names.length) {
        const [query, ...others] = names;
        waiting.push([query, at], ...keys[number][at].flatMap((k) => others.map((name) => [name, k])));
      }
    }
    return found;
  }

  /** What the output would be with each other symbol at a token, where it would be another one: [symbol, output]. */
  changesAt(at) {
    const { ids, output, program, query } = this;
    return range(program.alphabet).filter((symbol) => symbol !== ids[at])
      .map((symbol) => [symbol, evaluate(program, ids.with(at, symbol)).values[program.output][query]])
      .filter(([, now]) => now !== output);
  }

  reads(at) { return at > 0 && this.traced[0].has(at); }
  causes(at) { return this.changes[at].length > 0; }

  /** The mean attention of a layer's heads: [query][key]. A count shares it with the beginning; a copy of nothing leaves it there. */
  attention(layer) {
    const tokens = this.ids.length, heads = this.program.variables.flatMap((each, i) => (each.layer === layer && each.relation ? [[each, this.keys[i]]] : []));
    const mean = range(tokens).map(() => new Float64Array(tokens));
    for (const [{ operation }, keys] of heads) {
      for (const q of range(tokens)) {
        const at = operation === "count" ? [0, ...keys[q]] : keys[q].length ? keys[q] : [0];
        for (const k of at) mean[q][k] += 1 / at.length / heads.length;
      }
    }
    return mean;
  }

  /** What each method says of every token. */
  methods() {
    const { layers, query, ids } = this, tokens = range(ids.length);
    const rows = layers.map((layer) => layer[query]);
    let rolled = tokens.map((at) => Number(at === query));
    for (const layer of [...layers].reverse()) {
      rolled = tokens.map((k) => rolled[k] / 2 + sum(tokens.map((q) => rolled[q] * layer[q][k])) / 2);
    }
    return {
      rollout: rolled,
      "mean attention": tokens.map((k) => sum(rows.map((row) => row[k])) / rows.length),
      "raw attention, last layer": [...rows.at(-1)],
    };
  }
}

/** Average precision of scores, from chance (0) to perfect (1); equal scores get the mean over their orders. Null where nothing can be ranked. */
export function precision(scores, isRight, candidates) {
  const n = candidates.length, right = candidates.filter(isRight).length;
  if (!right || right === n) return null;
  const step = Math.max(...candidates.map((at) => Math.abs(scores[at]))) / 1000 || 1, ties = new Map();
  for (const at of candidates) {
    const value = Math.round(scores[at] / step);
    ties.set(value, [...(ties.get(value) ?? []), at]);
  }
  let place = 0, before = 0, total = 0;
  for (const [, equal] of [...ties].sort(([a], [b]) => b - a)) {
    const size = equal.length, within = equal.filter(isRight).length;
    for (const i of range(size)) {
      place += 1;
      total += (within / size) * ((before + 1 + (i * (within - 1)) / Math.max(size - 1, 1)) / place);
    }
    before += within;
  }
  const harmonic = sum(range(n).map((i) => 1 / (i + 1))), chance = (harmonic + ((right - 1) / (n - 1)) * (n - harmonic)) / n;
  return (total / right - chance) / (1 - chance);
}
