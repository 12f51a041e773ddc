// Curves over training as numbers: where a step lies among the checkpoints, how high a curve is there, and what
// its axis runs over.
//
// May be touched for: the numbers of a chart over training. over_training.js draws it.

import { ends } from "./common.js";

export const stepText = (step) => step.toLocaleString("en", { maximumSignificantDigits: 15 });
export const stepName = (step) => `step ${stepText(step)}`;
/** Two digits behind the point, or of what is small. */
export const valueText = (value) => (value && Math.abs(value) < 0.1 ? value.toPrecision(2) : value.toFixed(2)).replace("-", "−");

/** Where a step lies among the checkpoints: 1.5 is half way from the second to the third. */
export function placeOf(steps, step) {
  const above = steps.findIndex((other) => other >= step);
  if (above <= 0) return 0;
  return above - (steps[above] - step) / (steps[above] - steps[above - 1]);
}

/** The height of a curve at a step; null in a gap. */
export function valueAt({ steps, values }, step) {
  const above = steps.findIndex((other) => other >= step);
  if (above < 0) return null;
  if (steps[above] === step || above === 0) return steps[above] === step ? values[above] : null;
  const [low, high] = [values[above - 1], values[above]];
  if (low === null || high === null) return null;
  return low + ((high - low) * (step - steps[above - 1])) / (steps[above] - steps[above - 1]);
}

/** The ends of the value axis and its ticks: 0 to 1 for shares, down to -1 where they can be negative. */
export function valueAxis(curves) {
  const values = curves.flatMap(({ values }) => values).filter((value) => value !== null);
  const { least: low, most: high } = ends(values);
  const rough = (high - low) / 2, power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = low >= -1 && high <= 1 ? 0.5 : power * [1, 2, 5, 10].find((part) => part * power >= rough);
  const from = Math.floor(low / step) * step, to = high <= 1 && low >= -1 ? 1 : Math.ceil(high / step) * step;
  const ticks = Array.from({ length: Math.round((to - from) / step) + 1 }, (_, i) => from + i * step);
  return { from, to, ticks };
}
