// Transformer: the forward pass of attnlib.models.Transformer, from its settings and weights, in any of its forms;
// and what it does when chosen heads attend elsewhere.
//
// All numbers of a sequence lie in one Float32Array, token after token. The loops over channels are the work: they
// take four tokens and two channels at a time, so that every number that is fetched is used more than once.
//
// May be touched for: a new form of the model in Python, with the test that holds both against each other.

const EPSILON = 1e-5; // of torch's LayerNorm
const SETTINGS = ["vocabulary", "n_classes", "n_layers", "n_heads", "width", "ff_width", "causal", "positions", "norm", "activation",
  "dropout", "max_length"];
const TOKENS_AT_ONCE = 4;

/**
 * A model from its `config` (that of Python, as JSON) and its `weights`, {name in the state dict: Float32Array}.
 * Throws an Error that says what this page cannot compute, or which weight is missing or of another size.
 */
export class Transformer {
  constructor(config, weights) {
    const { width, n_layers, n_heads, ff_width, n_classes, vocabulary, positions, norm, activation, max_length } = config;
    const strange = Object.keys(config).filter((name) => !SETTINGS.includes(name));
    if (strange.length) throw new Error(`this page knows no setting ${strange.join(", ")} of a model`);
    for (const [name, value, known] of [["positions", positions, ["sinusoidal", "learned", "none"]], ["norm", norm, ["pre", "post"]],
      ["activation", activation, ["relu", "gelu"]]]) {
      if (!known.includes(value)) throw new Error(`this page cannot compute ${name} "${value}", only ${known.join(", ")}`);
    }
    const taken = (name, size) => {
      if (weights[name]?.length !== size) throw new Error(`${name} must hold ${size} numbers; got ${weights[name]?.length ?? "none"}`);
      return weights[name];
    };
    const linear = (name, from, to) => ({ weight: taken(`${name}.weight`, from * to), bias: taken(`${name}.bias`, to), from, to });
    const layerNorm = (name) => ({ weight: taken(`${name}.weight`, width), bias: taken(`${name}.bias`, width) });
    this.config = config;
    this.embedding = taken("embedding.weight", vocabulary * width);
    this.positions = positions === "learned" ? taken("positions", max_length * width) : positions === "none" ? null : sinusoids(max_length, width);
    this.layers = Array.from({ length: n_layers }, (_, i) => ({
      qkv: linear(`layers.${i}.attention.qkv`, width, 3 * width), out: linear(`layers.${i}.attention.out`, width, width),
      attentionNorm: layerNorm(`layers.${i}.attention_norm`), up: linear(`layers.${i}.up`, width, ff_width),
      down: linear(`layers.${i}.down`, ff_width, width), ffNorm: layerNorm(`layers.${i}.ff_norm`),
    }));
    this.norm = norm === "pre" ? layerNorm("norm") : null;
    this.classify = linear("classify", width, n_classes);
    this.heads = Array.from({ length: n_layers * n_heads }, (_, i) => headName(Math.floor(i / n_heads), i % n_heads));
  }

  /**
   * Reads token ids. Returns `logits` [token class] and `attentions` [layer head query key], each in one array.
   *
   * `swaps`, by the name of a head ("L0H1"), stand in place of its attention, which is returned as it was used:
   * "even" (the same on every key that a query may look at), "off" (the head brings nothing), or weights [query key],
   * where a row of zeros leaves the head its own attention, as `reinforced` does in Python. So does `strength`, s in
   * [0, 1]: (1 - s) of a head's own attention stays, and s of what stands in its place is added.
   */
  read(ids, swaps = {}, strength = 1) {
    const { config, layers } = this, { width, n_heads, n_classes, max_length, vocabulary } = config, tokens = ids.length;
    if (tokens > max_length) throw new Error(`there are ${tokens} tokens, and this model reads at most ${max_length}`);
    for (const name of Object.keys(swaps)) if (!this.heads.includes(name)) throw new Error(`no head is called ${name}`);
    const pre = config.norm === "pre", rows = Math.ceil(tokens / TOKENS_AT_ONCE) * TOKENS_AT_ONCE;
    const attentions = new Float32Array(layers.length * n_heads * tokens * tokens);
    let x = new Float32Array(rows * width); // the tokens, and zeros up to a whole number of steps
    ids.forEach((id, t) => {
      if (!(id >= 0 && id < vocabulary)) throw new Error(`there is no token ${id}`);
      for (let i = 0; i < width; i++) x[t * width + i] = this.embedding[id * width + i] + (this.positions ? this.positions[t * width + i] : 0);
    });
    layers.forEach((layer, l) => {
      const qkv = project(pre ? normalised(x, layer.attentionNorm) : x, layer.qkv), mixed = new Float32Array(rows * width);
      for (let h = 0; h < n_heads; h++) {
        const from = (l * n_heads + h) * tokens * tokens, weights = attentions.subarray(from, from + tokens * tokens);
        attend(qkv, weights, mixed, h, config, tokens, swaps[headName(l, h)], strength);
      }
      x = added(x, project(mixed, layer.out));
      if (!pre) x = normalised(x, layer.attentionNorm);
      const hidden = activated(project(pre ? normalised(x, layer.ffNorm) : x, layer.up), config.activation);
      x = added(x, project(hidden, layer.down));
      if (!pre) x = normalised(x, layer.ffNorm);
    });
    const logits = project(this.norm ? normalised(x, this.norm) : x, this.classify);
    return { logits: logits.subarray(0, tokens * n_classes), attentions };
  }
}

export const headName = (layer, head) => `L${layer}H${head}`;

/** Positions as sines and cosines, rounded where torch rounds: at large angles it shows. */
function sinusoids(length, width) {
  const table = new Float32Array(length * width), { fround } = Math;
  for (let i = 0; i < width; i += 2) {
    const wavelength = fround(10000 ** fround(i / width));
    for (let p = 0; p < length; p++) {
      const angle = fround(p / wavelength);
      table[p * width + i] = Math.sin(angle);
      table[p * width + i + 1] = Math.cos(angle);
    }
  }
  return table;
}

/** W x + b for every token: x [token from] to [token to], with W [to from]. */
function project(x, { weight, bias, from, to }) {
  const rows = x.length / from, y = new Float32Array(rows * to);
  for (let o = 0; o < to; o += 2) {
    const second = Math.min(o + 1, to - 1), w0 = o * from, w1 = second * from; // of an odd number, the last twice
    for (let t = 0; t < rows; t += TOKENS_AT_ONCE) {
      const x0 = t * from, x1 = x0 + from, x2 = x1 + from, x3 = x2 + from;
      let a0 = bias[o], a1 = a0, a2 = a0, a3 = a0, b0 = bias[second], b1 = b0, b2 = b0, b3 = b0;
      for (let i = 0; i < from; i++) {
        const a = weight[w0 + i], b = weight[w1 + i], v0 = x[x0 + i], v1 = x[x1 + i], v2 = x[x2 + i], v3 = x[x3 + i];
        a0 += a * v0; a1 += a * v1; a2 += a * v2; a3 += a * v3;
        b0 += b * v0; b1 += b * v1; b2 += b * v2; b3 += b * v3;
      }
      const y0 = t * to, y1 = y0 + to, y2 = y1 + to, y3 = y2 + to;
      y[y0 + o] = a0; y[y1 + o] = a1; y[y2 + o] = a2; y[y3 + o] = a3;
      y[y0 + second] = b0; y[y1 + second] = b1; y[y2 + second] = b2; y[y3 + second] = b3;
    }
  }
  return y;
}

/** One head: its attention into `weights` [query key], what it brings into its channels of `mixed` [token width]. */
function attend(qkv, weights, mixed, head, { width, n_heads, causal }, tokens, swap, strength) {
  const channels = width / n_heads, row = 3 * width, queries = head * channels, keys = width + queries, values = 2 * width + queries;
  for (let q = 0; q < tokens; q++) {
    const seen = causal ? q + 1 : tokens, at = q * tokens, given = ArrayBuffer.isView(swap) ? swap.subarray(at, at + tokens) : null;
    const own = swap === undefined || given?.every((weight) => weight === 0) ? 1 : 1 - strength;
    if (own) {
      let highest = -Infinity, total = 0;
      for (let k = 0; k < seen; k++) {
        let score = 0;
        for (let c = 0; c < channels; c++) score += qkv[q * row + queries + c] * qkv[k * row + keys + c];
        weights[at + k] = score / Math.sqrt(channels);
        highest = Math.max(highest, weights[at + k]);
      }
      for (let k = 0; k < seen; k++) total += weights[at + k] = Math.exp(weights[at + k] - highest);
      for (let k = 0; k < seen; k++) weights[at + k] *= own / total;
    }
    if (own < 1 && swap === "even") for (let k = 0; k < seen; k++) weights[at + k] += (1 - own) / seen;
    if (own < 1 && given) for (let k = 0; k < tokens; k++) weights[at + k] += (1 - own) * given[k];
    for (let k = 0; k < tokens; k++) {
      const weight = weights[at + k];
      if (weight) for (let c = 0; c < channels; c++) mixed[q * width + queries + c] += weight * qkv[k * row + values + c];
    }
  }
}

/** Layer normalisation: every token to mean 0 and variance 1, then scaled and moved. */
function normalised(x, { weight, bias }) {
  const width = weight.length, y = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += width) {
    let mean = 0, variance = 0;
    for (let i = 0; i < width; i++) mean += x[from + i];
    mean /= width;
    for (let i = 0; i < width; i++) variance += (x[from + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / width + EPSILON);
    for (let i = 0; i < width; i++) y[from + i] = (x[from + i] - mean) * scale * weight[i] + bias[i];
  }
  return y;
}

function activated(x, activation) {
  if (activation === "relu") for (let i = 0; i < x.length; i++) x[i] = Math.max(x[i], 0);
  else for (let i = 0; i < x.length; i++) x[i] *= 1 - complementaryError(x[i] * Math.SQRT1_2) / 2;
  return x;
}

// Chebyshev coefficients of erfc (Press et al., Numerical Recipes, 6.2): off by at most 1.2e-7 of its value.
const CHEBYSHEV = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];

/** erfc(x) = 1 - erf(x), of which torch's GELU is made: x (1 - erfc(x / sqrt 2) / 2). */
function complementaryError(x) {
  const t = 1 / (1 + Math.abs(x) / 2);
  let sum = 0;
  for (let i = CHEBYSHEV.length - 1; i >= 0; i--) sum = sum * t + CHEBYSHEV[i];
  const tail = t * Math.exp(sum - x * x);
  return x < 0 ? 2 - tail : tail;
}

function added(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
  return x;
}
