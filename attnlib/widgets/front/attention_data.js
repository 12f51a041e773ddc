// Attention as it came from Python: how its bytes are unpacked, and the weights and the reference of a head.
//
// May be touched for: another form of what attnlib.widgets.encoding stores. Nothing here is drawn.

import { bytesOf, range, READ, visible } from "./common.js";

/** The example at an index: its names, its sizes, and views of its bytes among those of all examples. */
export function unpack(model, index) {
  const weights = bytesOf(model.get("weights")), masks = bytesOf(model.get("masks"));
  let weightsAt = 0, masksAt = 0;
  for (const [i, example] of model.get("examples").entries()) {
    const [layers, heads, rows, columns] = example.shape;
    const cells = rows * columns, maskBytes = Math.ceil(cells / 8);
    if (i === index) {
      return {
        layers, heads, rows, columns, cells, crossed: example.query_tokens !== null,
        keys: example.tokens.map(visible), queries: (example.query_tokens ?? example.tokens).map(visible),
        weights: weights.subarray(weightsAt), maskOf: example.mask_of,
        mask: (k) => unpackedBits(masks.subarray(masksAt + k * maskBytes), cells),
      };
    }
    weightsAt += layers * heads * cells;
    masksAt += example.masks * maskBytes;
  }
}

/**
 * The same example with `origin`, the position of every row; with only those rows that have a reference in some
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
export const unpackedBits = (bytes, count) => Uint8Array.from({ length: count }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);

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
