// The plain way: the forward pass as one would write it first, a list of numbers for every token. Post-norm only.
// The lists of weights are made once.

const made = new WeakMap();
const rowsOnce = (values, size) => made.get(values) ?? made.set(values, rowsOf(values, size)).get(values);
const dot = (a, b) => a.reduce((total, value, i) => total + value * b[i], 0);
const rowsOf = (values, size) => Array.from({ length: values.length / size }, (_, i) => [...values.subarray(i * size, (i + 1) * size)]);
const plainLinear = (x, weight, bias) => x.map((token) => weight.map((row, o) => dot(row, token) + bias[o]));
const plainNorm = (x, weight, bias) => x.map((token) => {
  const mean = dot(token, token.map(() => 1)) / token.length, variance = token.reduce((total, value) => total + (value - mean) ** 2, 0) / token.length;
  return token.map((value, i) => ((value - mean) / Math.sqrt(variance + 1e-5)) * weight[i] + bias[i]);
});
const plainSum = (x, y) => x.map((token, t) => token.map((value, i) => value + y[t][i]));
const plainActivation = (name) => (name === "relu" ? (value) => Math.max(value, 0) : (value) => value * (1 - complementaryError(value * Math.SQRT1_2) / 2));

function plainly(config, weights, positions, ids) {
  const { width, n_layers, n_heads, causal, activation } = config, channels = width / n_heads;
  const matrix = (name, size) => rowsOnce(weights[name], size), act = plainActivation(activation);
  let x = ids.map((id, t) => matrix("embedding.weight", width)[id].map((value, i) => value + positions[t * width + i]));
  for (let l = 0; l < n_layers; l++) {
    const of = (name) => weights[`layers.${l}.${name}`], linear = (input, name, size) => plainLinear(input, matrix(`layers.${l}.${name}.weight`, size), of(`${name}.bias`));
    const qkv = linear(x, "attention.qkv", width), part = (token, kind, h) => token.slice(kind * width + h * channels, kind * width + (h + 1) * channels);
    const mixed = qkv.map((query, q) => Array.from({ length: n_heads }, (_, h) => {
      const seen = causal ? qkv.slice(0, q + 1) : qkv;
      const scores = seen.map((key) => Math.exp(dot(part(query, 0, h), part(key, 1, h)) / Math.sqrt(channels))), total = scores.reduce((a, b) => a + b);
      return part(query, 2, h).map((_, c) => dot(scores.map((score) => score / total), seen.map((key) => part(key, 2, h)[c])));
    }).flat());
    x = plainNorm(plainSum(x, linear(mixed, "attention.out", width)), of("attention_norm.weight"), of("attention_norm.bias"));
    const hidden = linear(x, "up", width).map((token) => token.map(act));
    x = plainNorm(plainSum(x, linear(hidden, "down", hidden[0].length)), of("ff_norm.weight"), of("ff_norm.bias"));
  }
  return plainLinear(x, matrix("classify.weight", width), weights["classify.bias"]);
}
