// engine.wasm's memory: the model's weights and settings, and of one text at a time its cache, rollout and rows.
//
// May be touched for: what engine.c changes in its structs, whose order is that of the lists here.

import { areNumbers, TYPES } from "./gguf.js";

export const ROWS = 128; // at once
const BATCH = 18; // entries of the struct
const PANEL = 8, PAD = 8, PAGE = 65536, ROOM = 2 ** 30; // bytes for a text: the longest is what fits

export const NO_NUMBER = "this model computes what is no number: a weight of it is none";

export class Engine {
  /** Reads the weights of a Blob; `sizes` from llamaOf; `onProgress` is told the share that was read. */
  static async load(wasm, blob, header, sizes, onProgress = () => {}) {
    const { instance } = await WebAssembly.instantiate(wasm);
    const engine = Object.assign(new Engine(), { ...instance.exports, sizes });
    engine.top = engine.__heap_base.value;
    const total = blob.size - header.start, weights = engine.take(total), reader = blob.slice(header.start).stream().getReader();
    for (let read = 0; ;) {
      const { done, value } = await reader.read();
      if (done) break;
      new Uint8Array(engine.memory.buffer).set(value, weights + read);
      read += value.length;
      onProgress(read / total);
    }
    for (const { type, shape, offset } of Object.values(header.tensors)) {
      const [, block, length] = TYPES[type], bytes = (shape.reduce((a, b) => a * b) / block) * length;
      if (!areNumbers(type, new Uint8Array(engine.memory.buffer, weights + offset - header.start, bytes))) throw new Error(NO_NUMBER);
    }
    engine.settle((name) => header.tensors[name], (offset) => weights + offset - header.start);
    return engine;
  }
  take(bytes) {
    const at = Math.ceil(this.top / 64) * 64, missing = at + bytes - this.memory.buffer.byteLength;
    if (missing > 0) {
      try { this.memory.grow(Math.ceil(missing / PAGE)); } catch { throw new Error(`this browser gives no ${Math.round(missing / 1e6)} MB of memory for the model`); }
    }
    this.top = at + bytes;
    return at;
  }
  floats(at, count) { return new Float32Array(this.memory.buffer, at, count); }
  ints(at, count) { return new Int32Array(this.memory.buffer, at, count); }
  settle(tensor, place) {
    const { layers, heads, keyHeads, size, width, hidden, vocabulary, context, epsilon, base } = this.sizes;
    this.longest = this.reach();
    const wide = Math.max(hidden, keyHeads * size), rows = (count) => this.take(4 * (ROWS * count + PAD)), turns = size / 2;
    const matrix = (name) => { const { type, shape, offset } = tensor(name); return [type, shape[1], shape[0], place(offset)]; };
    const vector = (name) => place(tensor(name).offset);
    const [cosines, sines] = [this.take(4 * this.longest * turns), this.take(4 * this.longest * turns)];
    const given = [layers, heads, keyHeads, size, width, hidden, vocabulary, 0, cosines, sines, vector("output_norm.weight"),
      matrix("token_embd.weight"), matrix(tensor("output.weight") ? "output.weight" : "token_embd.weight"),
      rows(width), rows(width), rows(heads * size), rows(heads * size), rows(wide), rows(wide),
      this.take(4 * PANEL * Math.max(width, hidden, heads * size)), this.take(4 * (this.longest + PAD)), this.take(4 * (this.longest + PAD))];
    for (let l = 0; l < layers; l++) {
      for (const name of ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]) given.push(matrix(`blk.${l}.${name}.weight`));
      for (const name of ["attn_norm", "ffn_norm"]) given.push(vector(`blk.${l}.${name}.weight`));
    }
    const flat = given.flat();
    this.model = this.take(4 * flat.length);
    this.batch = this.take(4 * BATCH);
    this.logits = this.take(4 * ROWS * vocabulary);
    this.ints(this.model, flat.length).set(flat);
    this.floats(this.model, flat.length)[7] = epsilon;
    const [c, s] = [this.floats(cosines, this.longest * turns), this.floats(sines, this.longest * turns)];
    for (let i = 0; i < turns; i++) {
      const frequency = Math.fround(1 / Math.fround(base ** (i / turns))); // rounded where torch rounds
      for (let p = 0; p < this.longest; p++) {
        const angle = Math.fround(p * frequency);
        [c[p * turns + i], s[p * turns + i]] = [Math.cos(angle), Math.sin(angle)];
      }
    }
    this.free = this.top;
  }
  /** The longest text whose cache and two rollouts have room. */
  reach() {
    const { layers, heads, context } = this.sizes;
    let n = 1;
    const bytes = (tokens) => tokens * (this.slotBytes + 4 * layers * (heads + tokens + 1));
    while (n < context && bytes(n + 1) <= ROOM) n++;
    return n;
  }
  /** Bytes of the cache that a token takes. */
  get slotBytes() { return 4 * this.sizes.layers * 2 * this.sizes.keyHeads * this.sizes.size; }
  /**
   * Begins a text of at most `slots` tokens. With `rolls`, its rollout is followed and its last rows are kept; with
   * `traced`, what `relevance` needs.
   */
  begin(slots, rolls, changes = [], traced = false) {
    const { layers, heads, keyHeads, size, width, hidden } = this.sizes, triangle = (slots * (slots + 1)) / 2;
    this.top = this.free;
    const lists = this.take(4 * 6 * ROWS), change = this.take(4 * layers * heads), cache = this.take(slots * this.slotBytes);
    const kept = [4 * layers * triangle, 4 * layers * triangle, 4 * layers * heads * slots].map((bytes) => (rolls ? this.take(bytes + 4 * PAD) : 0));
    const trace = [2 * layers * width, width, 2 * keyHeads * size].map((each) => (traced ? this.take(4 * (slots * each + PAD)) : 0));
    trace.push(traced ? this.take(4 * (ROWS * Math.max(hidden, keyHeads * size) + PAD)) : 0);
    Object.assign(this, { slots, lists, triangle, kept, trace });
    this.ints(change, layers * heads).fill(0);
    for (const { layer, head, kind, token } of changes) this.ints(change, layers * heads)[layer * heads + head] = { off: 1, even: 2, push: 3 + token }[kind];
    this.ints(this.batch, BATCH).set([0, slots, ...[0, 1, 2, 3, 4, 5].map((i) => lists + 4 * i * ROWS), 0, change, cache, ...kept, ...trace]);
  }
  /** Reads at most ROWS rows [token, position, slot, shared, start]; of those `asked`, `scores` gives the logits. */
  read(rows, asked = [rows.length - 1]) {
    const lists = this.ints(this.lists, 6 * ROWS), batch = this.ints(this.batch, BATCH);
    rows.forEach((row, r) => row.forEach((value, i) => { lists[i * ROWS + r] = value; }));
    lists.set(asked, 5 * ROWS);
    [batch[0], batch[8]] = [rows.length, asked.length];
    this.forward(this.model, this.batch);
  }
  /** Logits [row][vocabulary] of the rows that the latest call was asked for. */
  scores() {
    this.predict(this.model, this.batch, this.logits);
    return this.floats(this.logits, this.ints(this.batch, BATCH)[8] * this.sizes.vocabulary);
  }
  /** Begins with the logit of a token behind the n tokens that were read, and goes back through one layer after the other. */
  explain(token, n) { this.begin_back(this.model, this.batch, token, n); }
  explainLayer(layer, n) { this.backward(this.model, this.batch, layer, n, ROWS); }
  /** Relevance [n] of the tokens, when all layers are gone through: embedding times slope. */
  relevance(n) {
    const { width } = this.sizes, [stream, slope] = this.trace.map((at) => this.floats(at, n * width)), found = new Float32Array(n);
    for (let i = 0; i < n * width; i++) found[Math.floor(i / width)] += stream[i] * slope[i];
    return found;
  }
  /** Of the latest row, in slot n - 1: `rollout` and `sinkFree` [layer][n], `attention` [layer][head][n]. */
  rows(n) {
    const { layers, heads } = this.sizes, [rollout, sinkFree, attention] = this.kept, { slots, triangle } = this;
    const copied = (count, place) => {
      const all = new Float32Array(count * n);
      for (let i = 0; i < count; i++) all.set(this.floats(place(i), n), i * n);
      return all;
    };
    const row = (of) => copied(layers, (l) => of + 4 * (l * triangle + (n * (n - 1)) / 2));
    return { rollout: row(rollout), sinkFree: row(sinkFree), attention: copied(layers * heads, (i) => attention + 4 * i * slots) };
  }
}
