// The next token from the model's logits, and how surprising a token is.
//
// May be touched for: another way to choose; a random number more or less for a word would change every text of a seed.

/** -log p of a token, in nats. */
export function surprise(logits, id) {
  let high = -Infinity, sum = 0;
  for (const value of logits) if (value > high) high = value;
  for (const value of logits) sum += Math.exp(value - high);
  return high + Math.log(sum) - logits[id];
}

/** The likeliest token at temperature 0; else one drawn with p^(1 / temperature). */
export function chosen(logits, temperature, random) {
  let best = 0;
  for (let id = 1; id < logits.length; id++) if (logits[id] > logits[best]) best = id;
  if (!(temperature > 0)) return best;
  const share = (id) => Math.exp((logits[id] - logits[best]) / temperature);
  let sum = 0;
  for (let id = 0; id < logits.length; id++) sum += share(id);
  let left = random() * sum;
  for (let id = 0; id < logits.length; id++) if ((left -= share(id)) < 0) return id;
  return best;
}

/** The likeliest tokens, likeliest first: {id, share}. */
export function likeliest(logits, count = 5) {
  const best = [];
  for (let id = 0; id < logits.length; id++) {
    if (best.length === count && logits[id] <= logits[best[count - 1]]) continue;
    const at = best.findIndex((other) => logits[id] > logits[other]);
    best.splice(at < 0 ? best.length : at, 0, id);
    if (best.length > count) best.pop();
  }
  return best.map((id) => ({ id, share: Math.exp(-surprise(logits, id)) }));
}

/** Numbers from 0 to 1, always the same ones from a seed (mulberry32, T. Ettinger, public domain). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
