// A model that is made up, in the place of attnlib/widgets/live/model.js: every number of it is known to the test.
//
// window.pause: milliseconds between its words; window.asked: what it was asked for; window.explained: the places whose
// AttnLRP was asked for; window.slow: seconds of an
// occlusion for each token.

class LiveModel {
  static async open(source, { parts, onProgress, signal }) {
    onProgress(0.5);
    const text = await source.text();
    await LiveModel.pause(signal);
    if (!text.startsWith("GGUF")) throw new Error("this is no GGUF file: it begins with '" + text.slice(0, 8) + "'");
    window.asked = [];
    window.explained = [];
    window.opened = (window.opened ?? 0) + 1;
    return Object.assign(new LiveModel(), {
      about: { name: "made up", layers: 3, heads: 2, keyHeads: 1, context: 64, longest: 40, bytes: 4, chat: true, ends: [0] },
    });
  }
  static async pause(signal) {
    for (let waited = 0; waited < (window.pause ?? 0); waited += 10) {
      await new Promise((go) => setTimeout(go, 10));
      signal?.throwIfAborted();
    }
  }
  async encode(text, { chat = false } = {}) {
    const texts = [...(chat ? ["<|user|>"] : []), ...(text.match(/ ?[^ ]+| /g) ?? [])];
    const id = (each) => [...each].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 65521, 7);
    return { ids: Int32Array.from(texts, id), texts, special: texts.map((each) => each === "<|user|>") };
  }
  seconds(tokens, { blank = false } = {}) { return blank ? tokens * (window.slow ?? 20) : tokens / 10; }
  async *write(ids, { forced, signal, onProgress, changes = [], blanked = [], ...how }) {
    window.asked.push({ ids: [...ids], forced: forced && [...forced], changes, blanked, ...how });
    onProgress(1);
    const changed = changes.length + blanked.length, { newTokens } = how;
    for (let g = 0; g < (forced?.length ?? newTokens); g++) {
      await LiveModel.pause(signal);
      const n = ids.length + g, value = (part, i) => ((7 * i + 3 * g + part) % 11 + 1) / (12 * n);
      const fill = (part, size) => Float32Array.from({ length: size }, (_, i) => value(part, i));
      const text = `${g ? " " : " <b>"}${changed && g > 1 ? "other" : "word"}${g}`;
      yield { id: forced?.[g] ?? 100 + g + (g > 1 ? changed : 0), text, logp: -0.5, n, likely: [{ id: 1, text: " <i>", share: 0.61 }, { id: 2, text: "b", share: 0.001 }],
        rollout: fill(0, 3 * n), sinkFree: fill(1, 3 * n), attention: fill(2, 3 * 2 * n) };
    }
  }
  async relevance(ids, at, { signal, onProgress }) {
    window.explained.push(at);
    onProgress(0.25);
    await LiveModel.pause(signal);
    return Float32Array.from({ length: at }, (_, k) => 1 - k);
  }
  async blankOut(ids, at, { signal, onProgress }) {
    window.asked.push({ blanked: [...ids], at });
    onProgress(0.25);
    await LiveModel.pause(signal);
    return Float32Array.from({ length: at }, (_, k) => (k === at - 1 ? NaN : k - 2));
  }
  close() { window.closed = (window.closed ?? 0) + 1; }
}
