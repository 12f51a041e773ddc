// Scores as they came from Python: how they are unpacked, and how they are written as numbers.
//
// May be touched for: another form of what attnlib.widgets.scores stores. Nothing here is drawn.

import { ends, ordinal, sum } from "./common.js";
import { inflateItem } from "./inflate.js";

/** The item at an index: each of its scores as values [moment][place]. */
export function unpackScores(model, index) {
  const items = model.get("items"), found = items[index], { places } = found;
  const all = inflateItem(model, items, index, places * sum(found.scores.map(({ moments }) => moments)));
  let at = 0;
  const scores = found.scores.map((score) => {
    const { moments, scale, signed } = score;
    const value = (step) => { const part = signed ? (step - 128) / 127 : step / 255; return scale * part * Math.abs(part); };
    const values = Array.from({ length: moments }, () => Float32Array.from(all.subarray(at, (at += places)), value));
    return { ...score, ...ends(values.map(ends).flatMap(Object.values)), values };
  });
  return { ...found, scores };
}

/** As many digits as are right to one of the last, with a sign where there are both. */
export function number(value, { scale, signed: both }) {
  if (value === 0) return "0";
  const root = Math.sqrt(Math.abs(value) / scale), half = 0.5 / (both ? 127 : 255);
  const error = scale * ((root + half) ** 2 - root ** 2);
  const tiny = scale < 1e-3, places = Math.floor(-Math.log10(2 * error)); // that are right, behind the point
  const right = tiny ? places : Math.min(places, 5), least = Number(`1e${-right}`);
  const size = Math.abs(value), sign = value < 0 ? "−" : both ? "+" : "";
  if (size < least / 2) return `${sign}<${least}`;
  if (tiny) return sign + size.toExponential(Math.max(right + Math.floor(Math.log10(size)), 0));
  return sign + (right < 0 ? Math.round(size / least) * least : size.toFixed(right));
}

/** The place of a token when all are sorted from the largest: 1 is the largest. */
export const rank = (values, at) => 1 + values.reduce((above, value) => above + (value > values[at]), 0);
/** The same in words. What was stored as the same number may be a little more or less: its places are a range. */
export function placed(values, at) {
  const first = rank(values, at), equal = values.reduce((all, value) => all + (value === values[at]), 0), last = first + equal - 1;
  if (equal === 1) return first === 1 ? "the largest" : `${ordinal(first)} of ${values.length}`;
  return `${ordinal(first)} to ${ordinal(last)} of ${values.length}`;
}
export const magnitude = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
export const largestAt = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
