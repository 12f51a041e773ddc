// Byte-pair encoding by the vocabulary and merges of a GGUF file, with GPT-2's splitting or SmolLM's (digits by themselves).
//
// May be touched for: another splitting, with the test that holds it against Python's tokenizer.

const GPT2 = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
const DIGIT = /(\p{N})/u;
const CONTROL = 3, GIVEN = 4; // GGUF's kinds of tokens that are no text, and of those that are found whole in a text
const NEIGHBOURS = 8; // so many tokens before one decide how it is decoded: as attnlib's `pieces`
const CHATML = /<\|im_start\|>system\n([^<]*)<\|im_end\|>/;

export class Tokenizer {
  /** From a file's metadata; an Error in a line for what this page cannot read. */
  constructor(meta) {
    const of = (name) => meta[`tokenizer.ggml.${name}`], pre = of("pre") ?? "none";
    if (of("model") !== "gpt2" || !["smollm", "gpt-2"].includes(pre) || !of("merges") || !of("token_type")) {
      throw new Error(`this model's tokenizer is "${of("model")}" with the splitting "${pre}"; this page reads "gpt2" with "smollm" or "gpt-2"`);
    }
    this.tokens = of("tokens");
    this.kinds = of("token_type");
    this.end = of("eos_token_id") ?? -1;
    this.first = of("add_bos_token") ? [of("bos_token_id")] : [];
    this.digits = pre === "smollm";
    this.ids = new Map(this.tokens.map((token, id) => [token, id]));
    this.ranks = new Map(of("merges").map((merge, rank) => [merge, rank]));
    const whole = this.tokens.filter((_, id) => this.kinds[id] === CONTROL || this.kinds[id] === GIVEN).sort((a, b) => b.length - a.length);
    this.whole = new Set(whole);
    this.around = whole.length ? RegExp(`(${whole.map((token) => token.replace(/[^\p{L}\p{N}\s]/gu, "\\$&")).join("|")})`) : /(?!)/;
    const shown = (b) => (b > 32 && b < 127) || (b > 160 && b !== 173);
    let next = 256; // bytes without a letter of their own have those behind the 256th, in order
    this.letters = Array.from({ length: 256 }, (_, b) => String.fromCharCode(shown(b) ? b : next++));
    this.bytes = new Map(this.letters.map((letter, b) => [letter, b]));
    const template = (meta["tokenizer.chat_template"] ?? "").replaceAll("\\n", "\n");
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
      this.known.set(word, this.merged(letters).map((token) => this.ids.get(token)));
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
  decode(ids) {
    const bytes = Array.from(ids).flatMap((id) => {
      const token = this.tokens[id];
      return this.whole.has(token) ? [...new TextEncoder().encode(token)] : Array.from(token, (letter) => this.bytes.get(letter));
    });
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }
  /** What each token from `from` on adds to the text; of a character spread over several, the last shows it. */
  texts(ids, from = 0) {
    return Array.from(ids).slice(from).map((_, at) => {
      const i = from + at, start = Math.max(i - NEIGHBOURS, 0), before = Array.from(this.decode(ids.slice(start, i))), text = Array.from(this.decode(ids.slice(start, i + 1)));
      const same = before.findIndex((letter, k) => letter !== text[k]);
      return text.slice(same < 0 ? before.length : same).join("");
    });
  }
  special(ids) {
    return Array.from(ids, (id) => this.kinds[id] === CONTROL);
  }
}
