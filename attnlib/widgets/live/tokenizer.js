// Byte-pair encoding by the vocabulary and merges of a GGUF file, with GPT-2's splitting or SmolLM's (digits by themselves).
//
// May be touched for: another splitting, with the test that holds it against Python's tokenizer.

const GPT2 = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
const DIGIT = /(\p{N})/u;
const CONTROL = 3, GIVEN = 4, UNUSED = 5; // GGUF's kinds of tokens that are no text, that are found whole in a text, that are never written
const UNFINISHED = "\ufffd"; // what decoders write for bytes that are no whole character
const CHATML = /<\|im_start\|>system\n([^<]*)<\|im_end\|>/;

export class Tokenizer {
  /** From a file's metadata, for a model of so many tokens; an Error in a line for what this page cannot read. */
  constructor(meta, vocabulary) {
    const of = (name) => meta[`tokenizer.ggml.${name}`], pre = of("pre") ?? "none", isId = (id) => Number.isInteger(id) && id >= 0 && id < vocabulary;
    const list = (name, type, length) => {
      const found = of(name);
      if (!Array.isArray(found) || found.length !== (length ?? found.length) || !found.every((each) => typeof each === type)) {
        throw new Error(`this model file is damaged: its tokenizer's ${name} should be a list${length ? ` of ${length}, one for each token` : ""}; it is not`);
      }
      return found;
    };
    if (of("model") !== "gpt2" || !["smollm", "gpt-2"].includes(pre)) {
      throw new Error(`this model's tokenizer is "${of("model")}" with the splitting "${pre}"; this page reads "gpt2" with "smollm" or "gpt-2"`);
    }
    this.tokens = list("tokens", "string", vocabulary);
    this.kinds = list("token_type", "number", vocabulary);
    const named = meta["attnlib.end_token_ids"] ?? []; // all of them, in files that attnlib wrote; elsewhere, of a text, a turn, a message
    this.ends = [of("eos_token_id"), of("eot_token_id"), of("eom_token_id"), ...(Array.isArray(named) ? named : [])].filter(isId);
    this.first = of("add_bos_token") ? [of("bos_token_id")] : [];
    if (!this.first.every(isId)) throw new Error("this model file is damaged: it puts a token before every text that its vocabulary does not have");
    this.digits = pre === "smollm";
    this.ids = new Map(this.tokens.map((token, id) => [token, id]));
    this.ranks = new Map(list("merges", "string").map((merge, rank) => [merge, rank]));
    for (const merge of this.ranks.keys()) {
      const [left, right, ...more] = merge.split(" ");
      if (more.length || ![left, right, left + right].every((token) => this.ids.has(token))) throw new Error(`this model file is damaged: it merges tokens that its vocabulary does not have (${merge.slice(0, 40)})`);
    }
    const whole = this.tokens.filter((token, id) => token && (this.kinds[id] === CONTROL || this.kinds[id] === GIVEN)).sort((a, b) => b.length - a.length);
    this.whole = new Set(whole);
    this.around = whole.length ? RegExp(`(${whole.map((token) => token.replace(/[^\p{L}\p{N}\s]/gu, "\\$&")).join("|")})`) : /(?!)/;
    const shown = (b) => (b > 32 && b < 127) || (b > 160 && b !== 173);
    let next = 256; // bytes without a letter of their own have those behind the 256th, in order
    this.letters = Array.from({ length: 256 }, (_, b) => String.fromCharCode(shown(b) ? b : next++));
    this.bytes = new Map(this.letters.map((letter, b) => [letter, b]));
    const template = String(meta["tokenizer.chat_template"] ?? "").replaceAll("\\n", "\n");
    this.chat = template.includes("<|im_start|>assistant") && this.whole.has("<|im_start|>");
    this.system = CHATML.exec(template)?.[0];
    this.known = new Map();
  }
  encode(text, chat = false) {
    if (chat && !this.chat) throw new Error("this model's chat template is not one that this page knows (ChatML); ask it plainly");
    if (chat) text = `${this.system ? `${this.system}\n` : ""}<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
    const ids = chat ? [] : [...this.first];
    for (const part of text.split(this.around)) {
      if (this.whole.has(part)) ids.push(this.ids.get(part));
      else for (const piece of this.digits ? part.split(DIGIT) : [part]) for (const word of piece.match(GPT2) ?? []) ids.push(...this.word(word));
    }
    return Int32Array.from(ids);
  }
  word(word) {
    if (!this.known.has(word)) {
      const letters = Array.from(new TextEncoder().encode(word), (byte) => this.letters[byte]);
      const found = this.merged(letters).map((token) => this.ids.get(token));
      if (found.includes(undefined)) throw new Error(`this model has no tokens for "${word}"`);
      this.known.set(word, found);
    }
    return this.known.get(word);
  }
  merged(parts) {
    for (;;) {
      let best = Infinity, left, right;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this.ranks.get(`${parts[i]} ${parts[i + 1]}`);
        if (rank < best) [best, left, right] = [rank, parts[i], parts[i + 1]];
      }
      if (best === Infinity) return parts;
      const fewer = [];
      for (let i = 0; i < parts.length; i++) {
        if (parts[i] === left && parts[i + 1] === right) { fewer.push(left + right); i++; } else fewer.push(parts[i]);
      }
      parts = fewer;
    }
  }
  /** The bytes that a token writes. */
  written(id) {
    const token = this.tokens[id], plain = !this.whole.has(token) && Array.from(token, (letter) => this.bytes.get(letter));
    if (this.kinds[id] === UNUSED) return [];
    return plain && !plain.includes(undefined) ? plain : [...new TextEncoder().encode(token)];
  }
  /** What each token from `from` on adds to the text; of a character spread over several, the last shows it: as attnlib's `pieces`. */
  texts(ids, from = 0) {
    const bytes = Array.from(ids, (id) => this.written(id)), found = [], begins = (i) => bytes[i].length && bytes[i][0] >> 6 !== 2; // a character
    let start = from;
    while (start > 0 && !begins(start)) start--;
    for (let stop = start; start < ids.length; start = stop) {
      do stop++; while (stop < ids.length && !begins(stop));
      found.push(...pieces(bytes.slice(start, stop)));
    }
    return found.slice(found.length - ids.length + from);
  }
  special(ids) {
    return Array.from(ids, (id) => this.kinds[id] === CONTROL);
  }
}

const decoded = (bytes) => Array.from(new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes.flat())));
const shared = (one, other) => { const at = one.findIndex((letter, k) => letter !== other[k]); return at < 0 ? one.length : at; };

/** What each of some tokens, as bytes, adds to their text. */
function pieces(tokens) {
  const read = tokens.map((_, i) => decoded(tokens.slice(0, i + 1))), whole = read.at(-1);
  const places = read.map((now, i) => {
    const first = i ? shared(read[i - 1], whole) : 0, stop = shared(now, whole);
    if (stop < now.length) return [first, stop + 1]; // what is unfinished is the character there
    return [first - Number(first === stop && now.at(-1) === UNFINISHED), stop];
  });
  return places.map(([first, stop], i) => {
    const after = places[i + 1]?.[0] ?? stop;
    return whole.slice(first, Math.min(stop, after)).join("") + (stop > after ? UNFINISHED : "");
  });
}
