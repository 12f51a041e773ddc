// What was generated, as it came from Python: how its bytes are unpacked, what a generated token drew on in one
// layer or in their mean, and how that is said.
//
// May be touched for: another form of what attnlib.widgets.generation_explorer stores, or its numbers in words. Nothing here
// is drawn.

import { format, range, READ, sum, visible } from "./common.js";
import { inflateItem } from "./inflate.js";

/** The item at an index; `rows` holds the bytes [layer prompt] of every generated token. */
export function unpack(model, index) {
  const items = model.get("items"), item = items[index];
  const [generated, columns, layers] = item.shape, cells = layers * columns;
  const all = inflateItem(model, items, index, generated * cells);
  const ignored = new Uint8Array(columns);
  for (const k of item.ignored) ignored[k] = 1;
  return {
    ...item, columns, layers, cells, ignored, keys: item.prompt.map(visible), queries: item.generated.map(visible),
    rows: range(generated).map((g) => all.subarray(g * cells, (g + 1) * cells)),
    read: item.shares ? READ : READ.map((share) => item.scale * share * share),
    measure: item.shares ? "share" : "ratio",
  };
}

/** What token g drew on in one layer, or in the mean over layers (-1); hidden tokens are 0. */
export function rowOf(data, g, layer, hidden) {
  const values = new Float32Array(data.columns), { rows, read, columns } = data;
  for (const each of layer < 0 ? range(data.layers) : [layer]) {
    for (let k = 0, at = each * columns; k < columns; k++, at++) values[k] += read[rows[g][at]];
  }
  const parts = layer < 0 ? data.layers : 1;
  return values.map((value, k) => (hidden?.[k] ? 0 : value / parts));
}

/** Rows one below the other, as a heat map takes them. */
export function stack(rows, columns) {
  const values = new Float32Array(rows.length * columns);
  rows.forEach((row, i) => values.set(row, i * columns));
  return values;
}

/** The places of the largest values, largest first. */
export function order(values, count) {
  return [...values.keys()].filter((k) => values[k] > 0).sort((a, b) => values[b] - values[a]).slice(0, count);
}

// Rollout is what has passed a number of layers: counted from 1, as in tables, where indices begin at 0.
export const layerNumber = (layer) => String(layer + 1);
export const layerName = (layer) => (layer < 0 ? "mean over layers" : `after layer ${layerNumber(layer)}`);

/** As many digits as are right: shares are stored as square roots, other values as fourth roots. */
export function number(value, { shares, scale }) {
  if (shares) return format(value);
  if (!(value > 0)) return "0";
  const error = scale * ((value / scale) ** 0.25 + 0.5 / 255) ** 4 - value;
  const digits = Math.min(Math.floor(-Math.log10(2 * error)), 3);
  if (digits > 0 && value < 0.5 / 10 ** digits) return `<${10 ** -digits}`;
  return digits >= 0 ? value.toFixed(digits) : String(Math.round(value * 10 ** digits) / 10 ** digits);
}

export const tokenName = (data, g) => `'${data.queries[g]}' (${g})`;

/** The largest three of a row, largest first. */
export function largest(data, row) {
  return order(row, 3).map((k) => `'${data.keys[k]}' (${k}) ${number(row[k], data)}`);
}

/** A cell of the row of token g in a layer. */
export function cellText(data, row, g, layer, k) {
  return `${tokenName(data, g)}, ${layerName(layer)} → '${data.keys[k]}' (${k}): ${number(row[k], data)}`;
}

/** What the list does not say: how much of it all is the prompt, and the token pointed at. */
export function describe(data, g, layer, k, hidden) {
  const row = rowOf(data, g, layer), all = sum(row);
  const lost = hidden ? all - sum(rowOf(data, g, layer, hidden)) : 0;
  const filter = lost > 0 ? `, ${lost.toFixed(2)} of it on hidden tokens` : "";
  const rest = all < 0.995 ? "; the rest is on tokens generated before" : "";
  const share = data.shares ? `${tokenName(data, g)}, ${layerName(layer)}: ${all.toFixed(2)} is on the prompt${filter}${rest}. ` : "";
  return share + (k < 0 ? "" : `On '${data.keys[k]}' (${k}): ${number(row[k], data)}.`);
}
