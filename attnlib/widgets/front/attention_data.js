// Attention as it came from Python: how its bytes are unpacked, and the weights and the reference of a head.
//
// May be touched for: another form of what attnlib.widgets.attention_explorer stores. Nothing here is drawn.

import { bytesOf, range, READ, sum, visible } from "./common.js";
import { inflateItem } from "./inflate.js";
import { shrunk } from "./themes.js";

/** The item at an index: its names, its sizes, `all` its bytes [checkpoint layer head query key], and the last checkpoint's. */
export function unpack(model, index) {
  const items = model.get("items"), item = items[index], [checkpoints, layers, heads, rows, columns] = item.shape;
  const cells = rows * columns, size = layers * heads * cells, maskBytes = Math.ceil(cells / 8);
  const masksAt = sum(items.slice(0, index).map(({ masks, shape }) => masks * Math.ceil((shape[3] * shape[4]) / 8)));
  const masks = bytesOf(model.get("masks")), all = inflateItem(model, items, index, checkpoints * size);
  return {
    ...item, checkpoints, layers, heads, rows, columns, stored: rows, cells, size, all, weights: all.subarray((checkpoints - 1) * size),
    crossed: item.query_tokens !== null, keys: item.tokens.map(visible), queries: (item.query_tokens ?? item.tokens).map(visible),
    maskOf: item.mask_of, mask: (k) => unpackedBits(masks.subarray(masksAt + k * maskBytes), cells),
  };
}

/**
 * The same item with `origin`, the position of every row; with only those rows that have a reference in some
 * head, if that is `wanted` and there are any.
 */
export function ofReferencedRows(data, wanted) {
  const { rows, columns } = data, all = range(rows), row = (cells, q) => cells.subarray(q * columns, (q + 1) * columns);
  if (!wanted) return { ...data, origin: all };
  const masks = range(1 + Math.max(...data.maskOf.flat())).map(data.mask);
  const origin = all.filter((q) => masks.some((cells) => row(cells, q).includes(1)));
  if (!origin.length || origin.length === rows) return { ...data, origin: all };
  const cells = origin.length * columns, kept = masks.map((mask) => {
    const some = new Uint8Array(cells);
    origin.forEach((q, i) => some.set(row(mask, q), i * columns));
    return some;
  });
  return { ...data, origin, rows: origin.length, cells, crossed: true, queries: origin.map((q) => data.queries[q]), mask: (index) => kept[index] };
}

/** Bits, eight to a byte, as 0 and 1: a mask travels so. */
function unpackedBits(bytes, count) {
  const bits = new Uint8Array(count);
  for (let i = 0; i < count; i++) bits[i] = (bytes[i >> 3] >> (7 - (i & 7))) & 1;
  return bits;
}

/** Weights of one head, or of the mean of a layer's heads (head -1), [query key]. */
export function weightsOf(data, layer, head) {
  const { cells, columns, rows } = data, values = new Float32Array(cells), read = reader(data, layer, head);
  for (let q = 0; q < rows; q++) read(q, values.subarray(q * columns, (q + 1) * columns));
  return values;
}

/** The same as a small picture needs them. Only one row at a time is held: to fill memory takes longer than to add. */
export function smallOf(data, layer, head, most) {
  const row = new Float32Array(data.columns), read = reader(data, layer, head);
  return shrunk((q) => read(q, row), data.rows, data.columns, most);
}

/** What puts the weights of a query into an array; they are stored as bytes, or numbers as they are. */
function reader({ columns, heads, origin, rows, stored = rows, weights }, layer, head) {
  const among = head < 0 ? range(heads) : [head];
  const parts = weights instanceof Uint8Array ? Float64Array.from(READ, (weight) => weight / among.length) : null;
  return (q, row) => {
    row.fill(0);
    for (const each of among) {
      const from = ((layer * heads + each) * stored + (origin?.[q] ?? q)) * columns;
      if (parts) for (let k = 0; k < columns; k++) row[k] += parts[weights[from + k]];
      else for (let k = 0; k < columns; k++) row[k] += weights[from + k] / among.length;
    }
    return row;
  };
}

/** Reference of one head as 0 and 1, of any head for the mean; null where there is none. */
export function referenceOf(data, layer, head) {
  const chosen = head < 0 ? data.maskOf[layer] : [data.maskOf[layer][head]];
  const indices = [...new Set(chosen)].filter((index) => index >= 0);
  if (!indices.length) return null;
  const [only, ...others] = indices.map(data.mask);
  if (!others.length) return only;
  const cells = only.slice();
  for (const other of others) for (let i = 0; i < data.cells; i++) cells[i] |= other[i];
  return cells;
}

export const placeName = (layer, head) => `layer ${layer}, ${head < 0 ? "mean of heads" : `head ${head}`}`;
