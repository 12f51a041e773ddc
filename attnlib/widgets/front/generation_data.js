// What was generated, as a GenerationView takes it: how what came from Python is unpacked, what a generated token drew
// on in one layer or in their mean, and how that is said.
//
// Wherever it is from, it is an object with: prompt and generated, texts of tokens; keys and queries, the same made visible;
// rows, of every generated token the values [layer prompt]; layers and columns; ignored, a flag for every prompt token that
// the filter hides; shares, whether values are shares of a whole; signed, whether they can be below zero; scale, the value of
// the strongest colour when the scale is not stretched; measure, what a value is; number(value), and at(layer), which names a
// layer, or for -1 their mean; and, where it is known, likely(g), the probability that the model gave a generated token.
//
// May be touched for: another form of what attnlib.widgets.generation_explorer stores, or its numbers in words. Nothing here
// is drawn.

import { format, largestOf, order, range, READ, sum, visible } from "./common.js";
import { inflateItem } from "./inflate.js";

/** The item at an index of those that came from Python; `row` reads the bytes of one more generated token. */
export function unpack(model, index) {
  const items = model.get("items"), item = items[index], { shares, scale } = item;
  const [generated, columns, layers] = item.shape, cells = layers * columns;
  const all = inflateItem(model, items, index, generated * cells), ignored = new Uint8Array(columns);
  for (const k of item.ignored) ignored[k] = 1;
  const value = shares ? READ : READ.map((share) => scale * share * share), row = (bytes) => Float32Array.from(bytes, (byte) => value[byte]);
  return {
    ...item, columns, layers, ignored, row, keys: item.prompt.map(visible), queries: item.generated.map(visible),
    rows: range(generated).map((g) => row(all.subarray(g * cells, (g + 1) * cells))),
    signed: false, measure: shares ? "share" : "ratio", number: (value) => (shares ? format(value) : ratio(value, scale)), at: afterLayer,
  };
}

/** What token g drew on in one layer, or in the mean over layers (-1); hidden tokens are 0. */
export function rowOf({ rows, columns, layers }, g, layer, hidden) {
  const values = new Float32Array(columns);
  for (const each of layer < 0 ? range(layers) : [layer]) {
    for (let k = 0, at = each * columns; k < columns; k++, at++) values[k] += rows[g][at];
  }
  const parts = layer < 0 ? layers : 1;
  return values.map((value, k) => (hidden?.[k] ? 0 : value / parts));
}

/** The value of the strongest colour, above zero or below. */
export const topOf = (values) => largestOf(values.map(Math.abs));

/** Rows one below the other, as a heat map takes them. */
export function stack(rows, columns) {
  const values = new Float32Array(rows.length * columns);
  rows.forEach((row, i) => values.set(row, i * columns));
  return values;
}

// Rollout is what has passed a number of layers: counted from 1, as in tables, where indices begin at 0.
export const layerNumber = (layer) => String(layer + 1);
export const afterLayer = (layer) => (layer < 0 ? "mean over layers" : `after layer ${layerNumber(layer)}`);

/** As many digits as are right: ratios are stored as fourth roots of their share of the largest. */
function ratio(value, scale) {
  if (!(value > 0)) return "0";
  const error = scale * ((value / scale) ** 0.25 + 0.5 / 255) ** 4 - value;
  const digits = Math.min(Math.floor(-Math.log10(2 * error)), 3);
  if (digits > 0 && value < 0.5 / 10 ** digits) return `<${10 ** -digits}`;
  return digits >= 0 ? value.toFixed(digits) : String(Math.round(value * 10 ** digits) / 10 ** digits);
}

export const tokenName = (data, g) => `'${data.queries[g]}' (${g})`;

/** The largest three of a row, largest first. */
export function largest(data, row) {
  return order(row, 3).map((k) => `'${data.keys[k]}' (${k}) ${data.number(row[k])}`);
}

/** A cell of the row of token g in a layer. */
export function cellText(data, row, g, layer, k) {
  return `${tokenName(data, g)}, ${data.at(layer)} → '${data.keys[k]}' (${k}): ${data.number(row[k])}`;
}

/** What the list does not say: how much of it all is the prompt, and the token pointed at. */
export function describe(data, g, layer, k, hidden) {
  const row = rowOf(data, g, layer), all = Math.min(sum(row), 1); // what was rounded adds up to a little more
  const lost = hidden ? all - sum(rowOf(data, g, layer, hidden)) : 0;
  const filter = lost > 0 ? `, ${lost.toFixed(2)} of it on hidden tokens` : "";
  const rest = g > 0 && all < 0.995 ? "; the rest is on tokens generated before" : "";
  const share = data.shares ? `${tokenName(data, g)}, ${data.at(layer)}: ${all.toFixed(2)} is on the prompt${filter}${rest}. ` : "";
  const likely = data.likely ? `Its probability was ${data.likely(g).toPrecision(2)}. ` : "";
  return share + likely + (k < 0 ? "" : `On '${data.keys[k]}' (${k}): ${data.number(row[k])}.`);
}
