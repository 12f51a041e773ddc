// LiveModel: a language model of a reader's own file, in workers of this page. Everything that takes long is done there.
//
// May be touched for: another question to the model. What goes wrong is an Error with one line, to be shown as text.

const LIVE_TASK = 128; // rows of an occlusion that a worker is asked for at once: a second at most, so that a click does not wait

/** One worker and its questions, which it answers in order. */
class LiveWorker {
  constructor(script) {
    const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    this.worker = new Worker(url);
    this.open = new Map();
    this.asked = 0;
    this.worker.onmessage = ({ data: { id, value, error, progress, rate } }) => {
      const waiting = this.open.get(id);
      if (progress !== undefined) return waiting?.onProgress?.(progress);
      this.open.delete(id);
      if (rate) this.rate = rate;
      if (error === undefined) waiting?.resolve(value);
      else waiting?.reject(new Error(error));
    };
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.end(`the engine stopped: ${event.message ?? "its script could not be run"}`);
    };
  }
  ask(kind, data = {}, onProgress = null) {
    if (this.ended) return Promise.reject(new Error(this.ended));
    return new Promise((resolve, reject) => {
      this.open.set(++this.asked, { resolve, reject, onProgress });
      this.worker.postMessage({ id: this.asked, kind, ...data });
    });
  }
  end(reason) {
    this.ended = reason;
    this.worker.terminate();
    for (const { reject } of this.open.values()) reject(new Error(reason));
    this.open.clear();
  }
}

/** Refuses a place that no word can be asked about. */
function askable(ids, at) {
  if (!(at >= 2 && at < ids.length)) throw new Error(`a word can be asked about from place 2 to the last, ${ids.length - 1}; got ${at}`);
}

/**
 * A model and what can be asked of it.
 *
 *     const model = await LiveModel.open(file, { parts, onProgress, signal });
 *     const { ids, texts, special } = await model.encode("The sky is", { chat: true });
 *     for await (const { id, text, logp, likely, n, rollout, sinkFree, attention } of model.write(ids, { newTokens: 20 })) ...
 *     const logits = await model.relevance([...ids, id], ids.length);
 *     const nats = await model.blankOut([...ids, id], ids.length, { onProgress, signal });
 */
export class LiveModel {
  /**
   * From a Blob or ArrayBuffer of a GGUF file; `parts` is what attnlib.widgets.live.parts() gives; `sha256` of the one
   * file that may be taken, or "". `onProgress` is told the share that was read. An Error says in a line what is wrong
   * with the file, or what this browser lacks.
   */
  static async open(source, { parts, sha256 = "", onProgress = null, signal = null }) {
    const model = new LiveModel();
    model.blob = source instanceof Blob ? source : new Blob([source]);
    model.parts = parts;
    model.workers = [];
    model.turn = 0;
    const stop = () => model.close();
    signal?.addEventListener("abort", stop);
    try {
      signal?.throwIfAborted();
      await model.helper(0, { sha256, onProgress });
      signal?.throwIfAborted();
    } catch (error) {
      model.close();
      throw signal?.aborted ? signal.reason : error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
    return model;
  }
  /** Worker 0, which writes; or 1, which is begun when it is first needed. */
  helper(number, { sha256 = "", onProgress = null } = {}) {
    if (!this.workers[number]) {
      const worker = new LiveWorker(this.parts.worker), engines = this.parts.engines.map((text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
      this.workers[number] = { worker, ready: worker.ask("open", { blob: this.blob, engines, sha256 }, onProgress).then((about) => { this.about ??= about; return worker; }) };
    }
    return this.workers[number].ready;
  }
  /** What is asked of worker 0 about texts waits for nothing but a word being made. */
  async ask(kind, data) {
    return (await this.helper(0)).ask(kind, data);
  }
  /** `ids`, `texts` (what each adds), and which are `special`, of a text, in the model's chat form if asked for. */
  encode(text, { chat = false } = {}) {
    return this.ask("encode", { words: text, chat });
  }
  /** What each token adds to the text. */
  texts(ids) {
    return this.ask("texts", { ids: Int32Array.from(ids) });
  }
  /** Seconds, about, until so many tokens are read, or each of them is blanked, at the speed that was measured last. */
  seconds(tokens, { blank = false } = {}) {
    const rows = blank ? (tokens * tokens) / 4 + tokens : tokens; // a token left out is half a prompt, by two workers
    return (rows / this.workers[0].worker.rate) * (1 + tokens / 2000); // attention grows with the text
  }
  /**
   * The words that the model writes after `ids`, as they are made, up to `newTokens` or the end of its text; or the
   * `forced` ones. Each has its rows over the n tokens before it: `rollout` and `sinkFree` [layer][n], `attention`
   * [layer][head][n], `logp`, how likely it was, in nats, and
   * `likely`, the likeliest tokens in its place, {id, text, share}. To stop: break, or abort the signal. Another text ends
   * this one.
   */
  async *write(ids, { newTokens = 20, temperature = 0, seed = 0, forced = null, changes = [], blanked = [], signal = null, onProgress = null } = {}) {
    const count = forced?.length ?? newTokens, turn = ++this.turn;
    this.writing = true;
    const mine = () => {
      signal?.throwIfAborted();
      if (turn !== this.turn) throw new Error("another text was begun");
    };
    try {
      mine();
      await this.ask("begin", { ids: Int32Array.from(ids), newTokens: count, changes, blanked, temperature, seed });
      for (let share = 0; share < 1;) {
        mine();
        share = await this.ask("read");
        onProgress?.(share);
      }
      for (let i = 0; i < count; i++) {
        mine();
        const word = await this.ask("word", { forced: forced?.[i] });
        mine();
        yield word;
        if (!forced && this.about.ends.includes(word.id)) return;
      }
    } finally {
      if (turn === this.turn) this.writing = false;
    }
  }
  /**
   * AttnLRP of the token at place `at`: what each token before it adds to its logit; positive for tokens that speak for it.
   * Takes as long as reading the text three times.
   */
  async relevance(ids, at, { signal = null, onProgress = null } = {}) {
    askable(ids, at);
    await this.ask("trace", { ids: Int32Array.from(ids), at });
    for (;;) {
      signal?.throwIfAborted();
      const { share, relevance } = await this.ask("back");
      onProgress?.(share);
      if (relevance) return relevance;
    }
  }
  /**
   * How much less likely the token at place `at` gets without each token before it, in nats; positive for tokens that
   * speak for it, NaN for the one that is asked. Takes seconds to minutes: see `seconds`.
   */
  async blankOut(ids, at, { signal = null, onProgress = null } = {}) {
    const result = new Float32Array(at).fill(NaN), given = Int32Array.from(ids).subarray(0, at + 1);
    askable(ids, at);
    const before = this.blanked, known = before?.ids.subarray(0, at).every((id, p) => id === given[p]);
    const homes = known ? before.homes : new Map(); // by token left out: the worker that has read what is left
    const cost = (gap) => (homes.has(gap) ? 1 : at - 1 - gap), places = Array.from({ length: at - 1 }, (_, gap) => gap); // early ones take longest
    const all = places.reduce((sum, gap) => sum + cost(gap), 0);
    this.blanked = { ids: known && before.ids.length > at ? before.ids : given.slice(0, at), homes };
    let done = 0;
    const work = async (number, any = false) => {
      const worker = await this.helper(number), mine = (gap) => any || (homes.get(gap) ?? number) === number;
      while (places.some(mine) && (any || number !== 0 || !this.writing)) {
        signal?.throwIfAborted();
        const gaps = [];
        for (let rows = 0, next; rows < LIVE_TASK && (next = places.findIndex(mine)) >= 0; rows += cost(gaps.at(-1))) gaps.push(...places.splice(next, 1));
        const found = await worker.ask("blank", { ids: given, at, gaps });
        places.unshift(...gaps.splice(found.length)); // more than a task: asked for again
        gaps.forEach((gap, i) => { result[gap] = found[i]; });
        done += gaps.reduce((sum, gap) => sum + cost(gap), 0);
        for (const gap of gaps) homes.set(gap, number);
        onProgress?.(done / all);
      }
    };
    await Promise.all([work(1), work(0)]);
    await work(1, true); // what a worker left that began to write
    signal?.throwIfAborted();
    return result;
  }
  close() {
    for (const { worker, ready } of this.workers) {
      ready.catch(() => {});
      worker.end("the model was closed");
    }
  }
}
