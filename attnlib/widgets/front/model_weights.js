// Weights as they came from Python, in half or single precision, and the model that they make.
//
// May be touched for: another form of what attnlib.widgets.packed_model stores. Nothing here is drawn.

import { bytesOf, sum } from "./common.js";
import { Transformer } from "./transformer.js";

/** The model at an index among all whose weights the trait holds. */
export function unpackModel(model, index) {
  const examples = model.get("examples"), { config, tensors, half, bytes } = examples[index];
  const from = sum(examples.slice(0, index).map((each) => each.bytes)), packed = bytesOf(model.get("weights")).slice(from, from + bytes);
  const values = half ? Float32Array.from(new Uint16Array(packed.buffer), single) : new Float32Array(packed.buffer), weights = {};
  let at = 0;
  for (const [name, size] of tensors) weights[name] = values.subarray(at, (at += size));
  return new Transformer(config, weights);
}

/** The number that 16 bits stand for (IEEE 754 binary16). */
function single(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}
