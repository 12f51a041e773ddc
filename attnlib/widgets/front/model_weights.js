// Weights as they came from Python, in half or single precision, and the model that they make. They are packed by
// planes: the first byte of every number, then the second; alike bytes side by side are packed tighter.
//
// May be touched for: another form of what attnlib.widgets.model_explorer stores. Nothing here is drawn.

import { sum } from "./common.js";
import { inflateItem } from "./inflate.js";
import { Transformer } from "./transformer.js";

/** The model at an index among all whose weights the trait holds; throws an Error that says what is wrong with it. */
export const unpackModel = (model, index) => new Transformer(model.get("items")[index].config, unpackWeights(model, index));

/** Its weights, {name in the state dict: Float32Array}. */
export function unpackWeights(model, index) {
  const items = model.get("items"), { tensors, half } = items[index];
  const count = sum(tensors.map(([, size]) => size)), size = half ? 2 : 4;
  const planes = inflateItem(model, items, index, size * count), packed = new Uint8Array(size * count);
  for (let plane = 0; plane < size; plane++) for (let i = 0; i < count; i++) packed[i * size + plane] = planes[plane * count + i];
  const values = half ? Float32Array.from(new Uint16Array(packed.buffer), single) : new Float32Array(packed.buffer);
  if (!values.every(Number.isFinite)) throw new Error("its weights are damaged");
  let at = 0;
  return Object.fromEntries(tensors.map(([name, length]) => [name, values.subarray(at, (at += length))]));
}

/** The number that 16 bits stand for (IEEE 754 binary16). */
function single(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return NaN; // or infinite
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}
