// What a model in the page is asked: how a typed text becomes token ids, what of it cannot be asked, what the right
// output is and where a program, or sums on paper, would look. Python's definitions are in attnlib.generators; the
// tests hold both against each other.
//
// May be touched for: another kind of task. Nothing here knows of models or of the page.

import { range } from "./common.js";
import { headName } from "./transformer.js";
import { programOf } from "./rasp_programs.js";

/**
 * A task, of what Python says of it. It has
 * - `refuse(text)`: why the text cannot be asked, or "";
 * - `ids(text)`: what the model reads, and `names(text)`, those tokens as text;
 * - `begin(text)`: the first token at which it writes;
 * - `generates`: whether the model goes on by itself, up to the token `end`, at most `most` times; otherwise it writes
 *   one output at every token from there on. The first `skipped` tokens are not shown beside outputs;
 * - `output(id)`: an output as text;
 * - `right(text)`: the right outputs, or null where they are not known;
 * - `targets(text)`: where heads should look, {name of the head: [query key] as 0 and 1}, of the tokens that the
 *   model reads in the end. They are a program's where `programmed`, which a head's attention can be swapped for:
 *   it is called `theirs`.
 * Throws an Error that says what this page does not know of it.
 */
export function taskOf(told, model) {
  const kinds = { language: Language, arithmetic: Sums, reversal: Reversal }, Task = kinds[told.kind];
  if (!Task) throw new Error(`this page knows no task "${told.kind}", only ${Object.keys(kinds).join(", ")}`);
  return new Task(told, model);
}

// ---------------------------------------------------------------------------- RASP languages

class Language {
  constructor(told, { max_length }) {
    Object.assign(this, told, { symbols: [...told.alphabet], generates: false, programmed: true, theirs: "the program's", skipped: told.bos === null ? 0 : 1 });
    this.rasp = told.program === null ? null : programOf(told.program);
    this.longest = max_length - this.skipped;
    this.hint = `up to ${this.longest} of the symbols ${told.alphabet}`;
  }

  refuse(text) {
    const strange = strangers(text, this.symbols), { length } = [...text];
    if (!length) return `There is nothing to read. Type ${this.hint}.`;
    if (strange) return `${strange}. Type ${this.hint}.`;
    return length > this.longest ? `That is ${length} symbols; this model has positions for ${this.longest}. Type ${this.longest} or fewer.` : "";
  }

  ids(text) { return [...(this.skipped ? [this.bos] : []), ...[...text].map((symbol) => this.first + this.symbols.indexOf(symbol))]; }
  names(text) { return [...(this.skipped ? ["<bos>"] : []), ...text]; }
  begin() { return this.skipped; }
  output(id) { return this.classes[id]; }
  right(text) { return this.known(text)?.right ?? this.rasp?.outputs([...text]).map(String) ?? null; }

  targets(text) {
    const masks = this.known(text)?.targets, s = [...text], n = s.length + this.skipped;
    if (masks) return Object.fromEntries(Object.entries(masks).map(([head, mask]) => [head, Uint8Array.from(mask, Number)]));
    return Object.fromEntries(Object.entries(this.rasp?.heads(s) ?? {}).map(([head, [looks, atBos = true]]) => {
      const mask = new Uint8Array(n * n);
      if (this.skipped) for (const q of range(n)) mask[q * n] = q === 0 || atBos;
      for (const q of range(s.length)) for (const k of range(s.length)) mask[(q + this.skipped) * n + k + this.skipped] = looks(q, k);
      return [head, mask];
    }));
  }

  /** What Python computed of this text, if it did. */
  known(text) { return this.texts.find((each) => each.text === text); }
}

// ---------------------------------------------------------------------------- arithmetic

class Sums {
  constructor(told, model) {
    Object.assign(this, told, { model, characters: [...told.characters], generates: true, programmed: false, skipped: 1 });
    this.hint = `a problem such as ${told.example}`;
  }

  refuse(text) {
    const wrong = (reason) => `${reason}. Type ${this.hint}.`, written = bare(text), question = beforeEquals(written);
    if (!written) return wrong("There is nothing to answer");
    const strange = strangers(written, this.characters);
    if (strange) return wrong(strange);
    if (written.includes("=") && !written.endsWith("=")) return wrong("The model writes what stands behind the =");
    const numbers = question.split(/[-+*]/), signs = new Set(question.match(/[-+*]/g)), [sign] = signs;
    if (numbers.length !== this.operands || signs.size !== 1 || numbers.includes("") || question.includes("=")) {
      return wrong(`There should be ${this.operands} numbers with one operator between them`);
    }
    if (!this.operators.includes(sign)) return wrong(`This model does not know ${sign}, only ${[...this.operators].join(" ")}`);
    const problem = this.parse(text), [low, high] = this.numbers;
    const outside = problem.operands.find((value) => value < low || value > high);
    if (outside !== undefined) return wrong(`${outside} is not from ${low} to ${high}`);
    if (!this.negative && problem.result < 0) return wrong("The result would be negative");
    if (this.write(problem).question !== `${question}=`) return `Here that is written ${this.write(problem).question}`;
    const { length } = this.ids(text);
    return length > this.model.max_length ? `That is ${length} tokens; this model has positions for ${this.model.max_length}. Type a shorter problem.` : "";
  }

  /** Operator, operands and result; in whole numbers of any size. */
  parse(text) {
    const question = beforeEquals(bare(text)), sign = question.match(/[-+*]/)[0];
    const operands = question.split(sign).map((number) => BigInt(this.reversed ? [...number].reverse().join("") : number));
    return { sign, operands, result: operands.reduce((a, b) => (sign === "+" ? a + b : sign === "-" ? a - b : a * b)) };
  }

  /** The problem and its answer as this task writes them. */
  write({ sign, operands, result }) {
    const number = (value, width) => {
      const digits = String(value < 0 ? -value : value).padStart(this.padded ? width : 0, "0"), minus = value < 0 ? "-" : "";
      return this.reversed ? [...digits].reverse().join("") + minus : minus + digits;
    };
    return { question: `${operands.map((value) => number(value, this.widths[0])).join(sign)}=`, answer: number(result, this.widths[1]) };
  }

  asked(text) { return this.write(this.parse(text)).question; }
  ids(text) { return [this.bos, ...[...this.asked(text)].map((character) => this.first + this.characters.indexOf(character))]; }
  names(text) { return ["<bos>", ...this.asked(text)]; }
  begin(text) { return this.asked(text).length; }
  output(id) { return id === this.end ? "<eos>" : (this.characters[id - this.first] ?? "?"); }
  right(text) { return [...this.write(this.parse(text)).answer, "<eos>"]; }

  /** For the digits of the right answer, the operands' digits of their column, and of the one that carries into it. */
  targets(text) {
    const problem = this.parse(text), { question, answer } = this.write(problem), n = 1 + question.length + answer.length;
    const parts = question.slice(0, -1).split(problem.sign).map((digits) => this.places(digits));
    const highest = parts.map((places) => Math.max(...places)), total = highest.reduce((a, b) => a + b, 0);
    // Digits of the operands by the token that holds them: the column they stand in, and the last they take part in.
    const keys = parts.flatMap((places, part) => [null, ...places.map((place) => [place, place + (problem.sign === "*" ? total - highest[part] : 0)])]);
    const mask = new Uint8Array(n * n);
    this.places(answer).forEach((column, i) => {
      if (column < 0) return;
      const takesPart = (to) => ([low, high]) => low <= to && to <= high;
      keys.forEach((key, k) => { if (key && (takesPart(column)(key) || takesPart(column - 1)(key))) mask[(question.length + i) * n + k] = 1; });
    });
    return ofEveryHead(this.model, mask);
  }

  /** The column of every character of a number, units 0; -1 of its sign. */
  places(number) {
    const digits = number.replace("-", "").length;
    let at = this.reversed ? 0 : digits - 1;
    return [...number].map((character) => (character === "-" ? -1 : this.reversed ? at++ : at--));
  }
}

// ---------------------------------------------------------------------------- string reversal

/** The model reads the string and its right reversal, as in training, and writes what comes next: see `measures`. */
class Reversal {
  constructor(told, model) {
    Object.assign(this, told, { model, symbols: [...told.symbols], generates: false, programmed: true, theirs: "the reference's", does: "backwards", skipped: 1 });
    this.hint = `up to ${this.longest} letters and digits; in training there were ${this.trained} at most`;
  }

  refuse(text) {
    const strange = strangers(text, this.symbols), { length } = [...text];
    if (!length) return `There is nothing to reverse. Type ${this.hint}.`;
    if (strange) return `${strange}. Type ${this.hint}.`;
    return length > this.longest ? `That is ${length} symbols; this page reverses ${this.longest}. Type ${this.longest} or fewer.` : "";
  }

  names(text) { return ["<bos>", ...text, "=", ...[...text].reverse()]; }
  ids(text) { return [this.bos, ...this.names(text).slice(1).map((name) => this.tokens[name === "=" ? this.symbols.length : this.symbols.indexOf(name)])]; }
  begin(text) { return text.length + 1; }
  output(id) { return id === this.end ? "<eos>" : (this.symbols[this.tokens.indexOf(id)] ?? "?"); }
  right(text) { return [...[...text].reverse(), "<eos>"]; }

  /** The token before a symbol of the answer looks at the place of the string where that symbol stands. */
  targets({ length }) {
    const tokens = 2 * length + 2, mask = new Uint8Array(tokens * tokens);
    for (const i of range(length)) mask[(length + 1 + i) * tokens + length - i] = 1;
    return ofEveryHead(this.model, mask);
  }
}

const bare = (text) => text.replace(/\s/g, ""); // 58 + 67 is 58+67
const beforeEquals = (text) => text.replace(/=$/, "");

/** One mask for all heads of a model, by their names. */
const ofEveryHead = ({ n_layers, n_heads }, mask) =>
  Object.fromEntries(range(n_layers * n_heads).map((i) => [headName(Math.floor(i / n_heads), i % n_heads), mask]));

/** Which characters of a text are not known, in words without a full stop; "" if all are. */
function strangers(text, known) {
  const found = [...new Set(text)].filter((each) => !known.includes(each)).map((each) => `'${each}'`);
  return found.length ? `${found.join(", ")} ${found.length > 1 ? "are" : "is"} not in this model's alphabet` : "";
}
