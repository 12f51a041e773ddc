// What stands in a GGUF file (version 2 or 3) before its weights, and whether the engine can compute the model.
//
// May be touched for: a type of weights that engine.c learns to unpack; another shape of model.

export const TYPES = { 0: ["F32", 1, 4], 1: ["F16", 1, 2], 2: ["Q4_0", 32, 18], 3: ["Q4_1", 32, 20], 8: ["Q8_0", 32, 34], 30: ["BF16", 1, 2] };
const FIRST_READ = 2 ** 22, SCALARS = ["Uint8", "Int8", "Uint16", "Int16", "Uint32", "Int32", "Float32", "Uint8"];
const STRING = 8, ARRAY = 9, MOST = 2 ** 24; // more tokens or tensors than any file has
const whole = (value) => Number.isSafeInteger(value) && value > 0;
const said = (value) => (value === undefined ? "not there" : String(value).slice(0, 40)); // what stands where a number or a word should
class Short extends Error {}

/** `meta` {key: value} and `tensors` {name: {shape, type, offset in the file}} of a Blob. */
export const readHeader = async (blob) => {
  for (let size = FIRST_READ; ; size *= 4) {
    const bytes = new Uint8Array(await blob.slice(0, size).arrayBuffer());
    try {
      return parsed(bytes);
    } catch (error) {
      if (!(error instanceof Short)) throw error;
      if (size >= blob.size) throw new Error("this model file is damaged: it ends before its weights begin");
    }
  }
};

function parsed(bytes) {
  const view = new DataView(bytes.buffer), utf8 = new TextDecoder();
  let at = 0;
  const take = (count) => {
    if (at + count > bytes.length) throw new Short();
    return (at += count) - count;
  };
  const u32 = () => view.getUint32(take(4), true);
  const u64 = () => Number(view.getBigUint64(take(8), true));
  const many = () => {
    const count = u64();
    if (count > MOST) throw new Error("this model file is damaged: it claims to hold more than any can");
    return count;
  };
  const text = () => { const count = many(); return utf8.decode(bytes.subarray(take(count), at)); };
  const value = (type) => {
    if (type === STRING) return text();
    if (type === ARRAY) { const of = u32(), count = many(); return Array.from({ length: count }, () => value(of)); }
    if (type === 12) return view.getFloat64(take(8), true);
    if (type === 10 || type === 11) return u64();
    if (!SCALARS[type]) throw new Error(`this model file is damaged: it holds a value of the unknown type ${type}`);
    const size = Number(/\d+/.exec(SCALARS[type])[0]) / 8;
    return view[`get${SCALARS[type]}`](take(size), true);
  };
  if (utf8.decode(bytes.subarray(0, 4)) !== "GGUF") throw new Error("this is no GGUF file: it does not begin with the letters GGUF");
  take(4);
  const version = u32();
  if (version !== 2 && version !== 3) throw new Error(`this is a GGUF file of version ${version}; this page reads versions 2 and 3`);
  const count = many(), pairs = many(), meta = Object.create(null), tensors = Object.create(null);
  for (let i = 0; i < pairs; i++) { const key = text(); meta[key] = value(u32()); }
  for (let i = 0; i < count; i++) {
    const name = text(), dimensions = u32();
    if (dimensions > 4) throw new Error(`this model file is damaged: ${name} has ${dimensions} dimensions`);
    tensors[name] = { shape: Array.from({ length: dimensions }, u64), type: u32(), offset: u64() };
  }
  const unit = meta["general.alignment"] ?? 32, start = Math.ceil(at / unit) * unit;
  if (!whole(unit)) throw new Error(`this model file is damaged: it aligns its weights to ${said(unit)} bytes`);
  for (const tensor of Object.values(tensors)) tensor.offset += start;
  return { meta, tensors, start };
}

/** Whether all weights of a tensor are numbers, given the bytes of its blocks: in 16 bits, also scales, and in 32. */
export function areNumbers(type, bytes) {
  const [name, , length] = TYPES[type], halves = { Q4_1: [0, 2] }[name] ?? [0];
  if (name === "F32" || name === "BF16") {
    for (let high = length - 1; high < bytes.length; high += length) if ((bytes[high] & 127) === 127 && bytes[high - 1] > 127) return false;
    return true;
  }
  for (const half of halves) for (let high = half + 1; high < bytes.length; high += length) if ((bytes[high] & 124) === 124) return false;
  return true;
}

/**
 * The sizes of a model of Llama's shape; an Error that says in a line what else it is, or what is wrong with it. All of
 * it is held against the file, of so many `bytes`, before anything is made of it: as attnlib's `live/checking.py`.
 */
export function llamaOf({ meta, tensors }, bytes) {
  const kind = meta["general.architecture"], count = Object.keys(tensors).length;
  if (kind !== "llama") throw new Error(`this model is of the architecture ${said(kind)}; this page computes those of the shape of Llama ("llama")`);
  const of = (name, otherwise) => meta[`llama.${name}`] ?? otherwise;
  const width = of("embedding_length"), heads = of("attention.head_count"), vocabulary = tensors["token_embd.weight"]?.shape[1];
  const sizes = { layers: of("block_count"), heads, keyHeads: of("attention.head_count_kv", heads), size: of("attention.key_length", width / heads),
    width, hidden: of("feed_forward_length"), vocabulary, context: of("context_length") };
  for (const [name, value] of Object.entries(sizes)) if (!whole(value)) throw new Error(`this model file is damaged: the model's ${name} should be a whole number from 1 on; it is ${said(value)}`);
  const numbers = { epsilon: of("attention.layer_norm_rms_epsilon"), base: of("rope.freq_base", 10000) };
  for (const [name, value] of Object.entries(numbers)) if (!(Number.isFinite(value) && value > 0)) throw new Error(`this model file is damaged: the model's ${name} should be a number above 0; it is ${said(value)}`);
  const { size, hidden, keyHeads, layers } = sizes;
  if (9 * layers > count) throw new Error(`this model file is damaged: it claims to have ${layers} layers, and has ${count} weights, where each layer has 9`);
  if ([width, size, hidden].some((n) => n % 8) || heads % keyHeads) throw new Error(`this page computes models whose sizes are multiples of 8; this one has ${width}, ${hidden} and heads of ${size}`);
  if (of("rope.dimension_count", size) !== size || of("rope.scaling.type", "none") !== "none" || tensors["rope_freqs.weight"] || of("expert_count", 0)) throw new Error("this model has stretched or partial rotary positions, or experts, which this page does not compute");
  const expected = { "token_embd.weight": [width, vocabulary], "output_norm.weight": [width] };
  if (tensors["output.weight"]) expected["output.weight"] = [width, vocabulary];
  for (let l = 0; l < layers; l++) {
    for (const [name, shape] of Object.entries({ attn_q: [width, heads * size], attn_k: [width, keyHeads * size], attn_v: [width, keyHeads * size],
      attn_output: [heads * size, width], ffn_gate: [width, hidden], ffn_up: [width, hidden], ffn_down: [hidden, width], attn_norm: [width], ffn_norm: [width] }))
      expected[`blk.${l}.${name}.weight`] = shape;
  }
  const strange = Object.keys(tensors).filter((name) => !expected[name]);
  if (strange.length) throw new Error(`this model has weights that this page knows nothing of: ${strange.slice(0, 3).map(said).join(", ")}`);
  for (const [name, shape] of Object.entries(expected)) {
    const tensor = tensors[name], type = TYPES[tensor?.type];
    if (!tensor) throw new Error(`this model file is damaged: it lacks ${name}`);
    if (!type || (shape.length === 1 && tensor.type)) throw new Error(`${name} is stored in a way that this page does not read (type ${tensor.type}); it reads ${Object.values(TYPES).map(([known]) => known).join(", ")}`);
    if (String(tensor.shape) !== String(shape)) throw new Error(`this model file is damaged: ${name} is ${tensor.shape.join(" x ")} and not ${shape.join(" x ")}`);
    const [, block, length] = type;
    if (shape[0] % block || tensor.offset + (shape.reduce((a, b) => a * b) / block) * length > bytes) throw new Error(`this model file is damaged or was cut short: ${name} is not whole`);
  }
  return { ...sizes, ...numbers, name: said(meta["general.name"] ?? "a language model") };
}
