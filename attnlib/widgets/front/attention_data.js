// Attention as it came from Python: how its bytes are unpacked, and the weights and the reference of a head.
//
// May be touched for: another form of what attnlib.widgets.attention_explorer stores. Nothing here is drawn.

import { bytesOf, range, READ, sum, visible } from "./common.js";
import { inflateItem } from "./inflate.js";

/** The item at an index: its names, its sizes, `all` its bytes [checkpoint layer head query key], and the last checkpoint's. */
export function unpack(model, index) {
  const items = model.get("items"), item = items[index], [checkpoints, layers, heads, rows, columns] = item.shape;
  const cells = rows * columns, size = layers * heads * cells, maskBytes = Math.ceil(cells / 8);
  const masksAt = sum(items.slice(0, index).map(({ masks, shape }) => masks * Math.ceil((shape[3] * shape[4]) / 8)));
  const masks = bytesOf(model.get("masks")), all = inflateItem(model, items, index, checkpoints * size);
  return {
    ...item, checkpoints, layers, heads, rows, columns, cells, size, all, weights: all.subarray((checkpoints - 1) * size),
    crossed: item.query_tokens !== null, keys: item.tokens.map(visible), queries: (item.query_tokens ?? item.tokens).map(visible),
    maskOf: item.mask_of, mask: (k) => unpackedBits(masks.subarray(masksAt + k * maskBytes), cells),
  };
}

/**
 * The same item with `origin`, the position of every row; with only those rows that have a reference in some
 * head, if that is `wanted` and there are any.
 */
export function ofReferencedRows(data, wanted) {
  const { layers, heads, rows, columns } = data, all = range(rows);
  if (!wanted) return { ...data, origin: all };
  const masks = range(1 + Math.max(...data.maskOf.flat())).map(data.mask);
  const origin = all.filter((q) => masks.some((cells) => cells.subarray(q * columns, (q + 1) * columns).includes(1)));
  if (!origin.length) return { ...data, origin: all };
  const row = (from, q) => from.subarray(q * columns, (q + 1) * columns);
  const weights = new Uint8Array(layers * heads * origin.length * columns);
  range(layers * heads).forEach((head) => origin.forEach((q, i) =>
    weights.set(row(data.weights, head * rows + q), (head * origin.length + i) * columns)));
  const kept = masks.map((cells) => Uint8Array.from(origin.flatMap((q) => [...row(cells, q)])));
  return { ...data, origin, weights, rows: origin.length, cells: origin.length * columns, crossed: true,
    queries: origin.map((q) => data.queries[q]), mask: (index) => kept[index] };
}

/** Bits, eight to a byte, as 0 and 1: a mask travels so. */
const unpackedBits = (bytes, count) => Uint8Array.from({ length: count }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);

/** Weights of one head, or of the mean of a layer's heads (head -1); stored as bytes, or numbers as they are. */
export function weightsOf(data, layer, head) {
  const heads = head < 0 ? range(data.heads) : [head];
  const values = new Float32Array(data.cells), stored = data.weights instanceof Uint8Array;
  for (const each of heads) {
    const from = (layer * data.heads + each) * data.cells;
    for (let i = 0; i < data.cells; i++) values[i] += (stored ? READ[data.weights[from + i]] : data.weights[from + i]) / heads.length;
  }
  return values;
}

/** Reference of one head as 0 and 1, of any head for the mean; null where there is none. */
export function referenceOf(data, layer, head) {
  const chosen = head < 0 ? data.maskOf[layer] : [data.maskOf[layer][head]];
  const indices = [...new Set(chosen)].filter((index) => index >= 0);
  if (!indices.length) return null;
  const cells = new Uint8Array(data.cells);
  for (const index of indices) data.mask(index).forEach((is, i) => { cells[i] |= is; });
  return cells;
}

export const placeName = (layer, head) => `layer ${layer}, ${head < 0 ? "mean of heads" : `head ${head}`}`;
