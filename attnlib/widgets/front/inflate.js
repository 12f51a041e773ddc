// Unpacking: raw deflate (RFC 1951), at once. A DecompressionStream would answer only when the page is drawn
// already.
//
// May be touched for: nothing but a fault; it does what the RFC says.

import { bytesOf, sum } from "./common.js";

const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const DISTANCE_BITS = Array.from({ length: 30 }, (_, i) => Math.max((i >> 1) - 1, 0));
const DISTANCES = DISTANCE_BITS.map((bits, i) => (i < 4 ? i + 1 : ((2 + (i & 1)) << bits) + 1));

/** The `size` bytes that raw deflate packed into `source`. */
export function inflate(source, size) {
  const out = new Uint8Array(size);
  let from = 0, to = 0, hold = 0, held = 0;
  const bits = (count) => {
    for (; held < count; held += 8) hold |= source[from++] << held;
    if (from > source.length) throw new Error("what is packed in this page is cut short"); // else zeros, without end
    const value = hold & ((1 << count) - 1);
    hold >>>= count;
    held -= count;
    return value;
  };
  const codes = (lengths) => { // canonical Huffman: how many codes of each length, and their symbols in order
    const counts = new Uint16Array(16), symbols = [...lengths.keys()].filter((i) => lengths[i]);
    for (const i of symbols) counts[lengths[i]] += 1;
    return { counts, symbols: symbols.sort((a, b) => lengths[a] - lengths[b] || a - b) };
  };
  const next = ({ counts, symbols }) => {
    let code = 0, first = 0, index = 0;
    for (let length = 1; length < 16; length++) {
      code |= bits(1);
      if (code - first < counts[length]) return symbols[index + code - first];
      index += counts[length];
      first = (first + counts[length]) << 1;
      code <<= 1;
    }
    throw new Error("what is packed in this page is damaged");
  };
  const readCodes = () => {
    const [literals, distances, count] = [257 + bits(5), 1 + bits(5), 4 + bits(4)], lengths = [];
    const own = codes(CODE_ORDER.slice(0, count).reduce((all, i) => { all[i] = bits(3); return all; }, Array(19).fill(0)));
    while (lengths.length < literals + distances) {
      const symbol = next(own);
      if (symbol < 16) lengths.push(symbol);
      else if (symbol === 16) lengths.push(...Array(3 + bits(2)).fill(lengths.at(-1)));
      else lengths.push(...Array(symbol === 17 ? 3 + bits(3) : 11 + bits(7)).fill(0));
    }
    return [codes(lengths.slice(0, literals)), codes(lengths.slice(literals))];
  };
  const fixed = () => [codes(Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8))), codes(Array(30).fill(5))];
  for (let last = 0; !last;) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) { // stored as it is, from the next whole byte on
      from -= held >> 3;
      hold = held = 0;
      const length = source[from] | (source[from + 1] << 8);
      out.set(source.subarray(from + 4, from + 4 + length), to);
      from += 4 + length;
      to += length;
      continue;
    }
    const [literals, distances] = kind === 1 ? fixed() : readCodes();
    for (let symbol; (symbol = next(literals)) !== 256;) {
      if (symbol < 256) { out[to++] = symbol; continue; }
      const length = LENGTHS[symbol - 257] + bits(LENGTH_BITS[symbol - 257]);
      const code = next(distances), distance = DISTANCES[code] + bits(DISTANCE_BITS[code]);
      for (const end = to + length; to < end; to++) out[to] = out[to - distance];
    }
  }
  return out;
}

const inflated = new WeakMap(); // by what was packed, and where in it

/**
 * The `size` bytes of the item at an index, to be read alone: the trait `weights` holds what was packed of all `items`,
 * in order. What a reader comes back to is there already.
 */
export function inflateItem(model, items, index, size) {
  const packed = model.get("weights"), from = sum(items.slice(0, index).map(({ bytes }) => bytes));
  const known = inflated.get(packed) ?? new Map();
  inflated.set(packed, known);
  if (!known.has(from)) known.set(from, inflate(bytesOf(packed).subarray(from, from + items[index].bytes), size));
  return known.get(from);
}
