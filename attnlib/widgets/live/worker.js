// A worker with one model: answers questions {id, kind, ...}, one at a time, each with {id, value} or {id, error}.
// The page leads: what takes long is asked for in parts (a chunk of a prompt, a word, a few tokens blanked), so that
// to stop is to ask no further.
//
// May be touched for: another question that a page may ask.

import { readHeader, llamaOf } from "./gguf.js";
import { sha256Of } from "./checksum.js";
import { Tokenizer } from "./tokenizer.js";
import { Engine, NO_NUMBER, ROWS } from "./engine.js";
import { chosen, likeliest, random, surprise } from "./choosing.js";

const TRIAL = 32, TASK = 128; // rows: to know this machine's speed; of an occlusion at once, as model.js asks
const KEPT = 2 ** 27, FURTHER = 24; // bytes of what a blank-out keeps for words further on; how many of these
let engine, tokenizer, text = null;
const told = { rate: 0 }; // rows a second

function read(rows, asked) {
  const start = performance.now();
  engine.read(rows, asked);
  if (rows.length >= TRIAL) told.rate = (1000 * rows.length) / (performance.now() - start);
}
function scores() {
  const logits = engine.scores();
  if (!logits.every(Number.isFinite)) throw new Error(NO_NUMBER);
  return logits;
}
function checked(ids, more) {
  const { longest, sizes } = engine;
  if (!ids.length) throw new Error("the prompt is empty");
  if (ids.some((id) => !(id >= 0 && id < sizes.vocabulary))) throw new Error(`there are tokens that the model does not know: ids go from 0 to ${sizes.vocabulary - 1}`);
  if (ids.length + more > longest) throw new Error(`the prompt has ${ids.length} tokens, and ${more} more are asked for: this page computes at most ${longest} in all`);
  return Array.from(ids);
}

const answers = {
  async open({ blob, engines, sha256, id }) {
    const header = await readHeader(blob), sizes = llamaOf(header, blob.size), wasm = engines.find((bytes) => WebAssembly.validate(bytes));
    if (!wasm) throw new Error("this browser cannot run the engine: it has no WebAssembly with SIMD (Chrome 91, Firefox 89 and Safari 16.4 have)");
    tokenizer = new Tokenizer(header.meta, sizes.vocabulary);
    const load = Engine.load(wasm, blob, header, sizes, (share) => postMessage({ id, progress: share }));
    const [loaded, found] = await Promise.all([load, sha256 && sha256Of(blob)]);
    if (found !== sha256) throw new Error(`this is not the file that the page was made for: its SHA-256 is ${found.slice(0, 12)}… and not ${sha256.slice(0, 12)}…. It is damaged, or another model`);
    engine = loaded;
    engine.begin(TRIAL, false);
    for (let i = 0; i < 2; i++) read(Array.from({ length: TRIAL }, (_, p) => [0, p % engine.longest, p, 0, 0])); // the second time is measured
    scores();
    const { layers, heads, keyHeads, context, vocabulary, name } = sizes;
    return { name, layers, heads, keyHeads, context, vocabulary, longest: engine.longest, bytes: blob.size, chat: tokenizer.chat, ends: tokenizer.ends };
  },
  encode({ words, chat }) {
    const ids = tokenizer.encode(words, chat);
    return { ids, texts: tokenizer.texts(ids), special: tokenizer.special(ids) };
  },
  texts: ({ ids }) => tokenizer.texts(ids),

  // a text that is written: begin, read until all is read, then word after word
  begin({ ids, newTokens, changes, blanked, temperature, seed }) {
    const given = checked(ids, newTokens), last = given.length - 1, { layers, heads } = engine.sizes;
    const gone = new Set(blanked);
    if (gone.has(last)) throw new Error("the prompt's last token cannot be blanked: it is the one that is asked");
    const places = [...given.keys()].filter((place) => !gone.has(place)); // of the slots; behind the prompt all go on by one
    for (const { layer, head, kind, token } of changes) {
      if (!(layer >= 0 && layer < layers && head >= 0 && head < heads)) throw new Error(`there is no head ${head} in a layer ${layer}: this model has ${layers} layers of ${heads} heads, counted from 0`);
      if (!["off", "even", "push"].includes(kind)) throw new Error(`a head can be "off", "even" or "push"; got "${kind}"`);
      if (kind === "push" && !places.includes(token)) throw new Error(`a head can be pushed to a token of the prompt that is not blanked; got ${token}`);
    }
    engine.begin(places.length + newTokens, true, changes.map((change) => ({ ...change, token: places.indexOf(change.token) })));
    text = { kind: "written", ids: given, places, read: 0, temperature, random: random(seed) };
  },
  read() {
    const { ids, places } = text, some = places.slice(text.read, text.read + ROWS);
    read(some.map((place, r) => [ids[place], place, text.read + r, 0, 0]));
    text.read += some.length;
    return text.read / places.length;
  },
  word({ forced }) {
    const { ids, places } = text, n = ids.length;
    while (text.read < places.length) answers.read();
    const logits = scores(), id = forced ?? chosen(logits, text.temperature, text.random), logp = -surprise(logits, id);
    const likely = likeliest(logits).map((each) => ({ ...each, text: tokenizer.texts([...ids, each.id], n)[0] }));
    const rows = engine.rows(places.length);
    for (const name of Object.keys(rows)) rows[name] = spread(rows[name], places, n);
    ids.push(id);
    places.push(n);
    return { id, text: tokenizer.texts(ids, n)[0], logp, n, likely, ...rows };
  },

  // AttnLRP of the token at a place: `trace` begins, and `back` is asked until it has the relevance of all tokens before.
  // What was read stays for another word of the same text.
  trace({ ids, at }) {
    const given = checked(ids.slice(0, at), 0), known = text?.kind === "traced" && at <= text.room && given.every((id, p) => p >= text.read || id === text.ids[p]);
    if (!known) engine.begin(at + FURTHER, false, [], true);
    const { room = at + FURTHER, read: before = 0 } = known ? text : {};
    text = { kind: "traced", ids: at > before ? given : text.ids, room, read: before, at, next: Math.min(before, at - 1), target: ids[at], layer: engine.sizes.layers };
  },
  back() {
    if (text?.kind !== "traced") throw new Error("another text was begun");
    const { ids, at, next } = text, { layers } = engine.sizes;
    if (next < at) {
      const some = ids.slice(next, Math.min(next + ROWS, at));
      read(some.map((id, r) => [id, next + r, next + r, 0, 0]));
      text.next += some.length;
      text.read = Math.max(text.read, text.next);
      if (text.next === at) engine.explain(text.target, at);
    } else engine.explainLayer(--text.layer, at);
    return { share: (text.next + 2 * at * (1 - text.layer / layers)) / (3 * at), relevance: text.layer ? null : engine.relevance(at) };
  },

  // how much less likely the token at a place is with each of some tokens left out, of the first of them that are a
  // task, in nats. What was read without a token stays while there is room: a word further on takes one row for each.
  blank({ ids, at, gaps }) {
    const given = checked(ids.slice(0, at), 0), target = ids[at];
    if (text?.kind !== "blanked" || at > text.room || given.some((id, p) => p < text.ids.length && id !== text.ids[p])) {
      const room = at + FURTHER, kept = Math.floor(KEPT / engine.slotBytes), loose = room + kept;
      engine.begin(loose + Math.max(TASK, room), false);
      text = { kind: "blanked", ids: [], room, loose, next: room, without: new Map() };
    }
    for (let p = Math.min(text.ids.length, at - 1); p < at; p += ROWS) {
      const some = given.slice(p, p + ROWS);
      read(some.map((id, r) => [id, p + r, p + r, 0, 0]));
    }
    if (at > text.ids.length) text.ids = given;
    const whole = surprise(scores(), target), rows = [], found = [];
    let loose = text.loose;
    for (const gap of gaps) {
      let variant = text.without.get(gap) ?? { start: text.next, read: gap + 1 };
      const stays = variant.start + text.room - gap - 1 <= text.loose, from = Math.min(stays ? variant.read : gap + 1, at - 1);
      if (rows.length && rows.length + at - from > TASK) break; // the page asks for the rest again
      if (!stays) {
        variant = { start: loose };
        loose += at - gap - 1;
      } else if (!text.without.has(gap)) {
        text.without.set(gap, variant);
        text.next += text.room - gap - 1;
      }
      variant.read = Math.max(variant.read ?? 0, at);
      for (let p = from; p < at; p++) rows.push([given[p], p, variant.start + p - gap - 1, gap, variant.start]);
    }
    for (let i = 0; i < rows.length; i += ROWS) {
      const some = rows.slice(i, i + ROWS), ends = some.flatMap(([, position], r) => (position === at - 1 ? [r] : []));
      read(some, ends);
      if (!ends.length) continue;
      const logits = scores(), each = logits.length / ends.length;
      ends.forEach((_, e) => found.push(surprise(logits.subarray(e * each, (e + 1) * each), target) - whole));
    }
    return found;
  },
};
/** Rows over slots as rows over all `n` places: 0 where a token was blanked. */
function spread(values, places, n) {
  const columns = places.length, all = new Float32Array((values.length / columns) * n);
  for (let i = 0; i < values.length; i++) all[Math.floor(i / columns) * n + places[i % columns]] = values[i];
  return all;
}

/** What went wrong, in words: what was not foreseen, too. */
function sentence(error, kind) {
  if (error?.constructor === Error || error instanceof DOMException) return error.message;
  const what = kind === "open" ? "this model file is damaged, or of a kind that this page does not know" : "the engine stopped: load the model again";
  return `${what} (${String(error).replaceAll("\n", " ")})`;
}

self.onmessage = async ({ data }) => {
  try {
    const value = await answers[data.kind](data);
    postMessage({ id: data.id, value, rate: told.rate });
  } catch (error) {
    postMessage({ id: data.id, error: sentence(error, data.kind) });
  }
};
