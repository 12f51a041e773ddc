// A language model of Llama's shape (RMS norm, rotary positions, grouped keys, SwiGLU), from the blocks of its GGUF
// file as they are, in WebAssembly with SIMD: no library, no imports, no memory of its own. engine.js lays out all
// memory (the structs below, in this order) and calls `forward` and `predict`.
//
// A row is one token of one sequence. It has a position, which turns its queries and keys, and a slot of the cache,
// in which its keys and values stay; it sees the slots [0, shared) and [start, slot]. So many variants of a prompt,
// each with one token left out, share what stands before that token: position and slot part company at the gap.
//
// `backward` goes the same way back by the rules of AttnLRP (attnlib/attribution/lrp.py), layer by layer: from the logit
// of one token to the embeddings of all before it. It needs the stream that `forward` kept, of one sequence in slots
// 0 to n - 1.
//
// All arithmetic is in float32, as torch's: sums of products differ from it in their order only. With two rows or
// more, weights are unpacked a panel at a time and used for all rows; with one, as they are read.
//
// May be touched for: another type of blocks (`unpack`), another form of layer. Then run build.py, which says how.
#include <wasm_simd128.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef v128_t vec;
enum { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q8_0 = 8, BF16 = 30 };  // as GGUF counts them
enum { PANEL = 8, OWN = 0, OFF = 1, EVEN = 2, PUSHED = 3 };          // PUSHED + slot: to the token in that slot

typedef struct { int type, rows, columns; const u8 *at; } Matrix;
typedef struct { Matrix q, k, v, o, gate, up, down; const float *norm, *norm2; } Layer;
typedef struct {
  int layers, heads, key_heads, size, width, hidden, vocabulary;
  float epsilon;
  const float *cosines, *sines;  // [position][size / 2]
  const float *norm;
  Matrix embedding, output;
  float *x, *y, *q, *a, *g, *u;  // of all rows: the stream, what is read from it, queries, what heads bring, gate, up
  float *panel, *weights, *mean; // unpacked weights; attention of one head, and the mean over heads, to all slots
  Layer layer[];
} Model;
typedef struct {
  int rows, slots;
  const int *token, *position, *slot, *shared, *start; // of each row
  const int *asked; int asks;                       // rows whose logits are wanted, in order, and how many
  const int *change;                                // [layer][head]: OWN, OFF, EVEN or PUSHED + slot
  float *cache;                                     // [layer][slot][keys, values]
  float *rollout, *sink_free;                       // [layer][triangle of slots], or 0; the second without slot 0's key
  float *attention;                                 // [layer][head][slot] of the last row, or 0
  float *stream;                                    // [layer][before attention, before the MLP][slot][width], or 0
  float *slope, *cache_slope;                       // of the logit by the stream [slot][width], by [slot][keys, values]
  float *spare;                                     // as m->g
} Batch;

#define API __attribute__((visibility("default")))
#define splat wasm_f32x4_splat
#define load wasm_v128_load
#define store wasm_v128_store
#define add wasm_f32x4_add
#define mul wasm_f32x4_mul
#ifdef FUSED
#define fma(a, b, c) wasm_f32x4_relaxed_madd(a, b, c)
#else
#define fma(a, b, c) add(mul(a, b), c)
#endif
#define lane wasm_f32x4_extract_lane
static inline float total(vec v) { return (lane(v, 0) + lane(v, 1)) + (lane(v, 2) + lane(v, 3)); }

// e^x, in [-87, 88]: 2^n times a polynomial of the rest (coefficients of Cephes' expf, S. Moshier, public)
static inline vec exponential(vec x) {
  x = wasm_f32x4_pmin(wasm_f32x4_pmax(x, splat(-87.f)), splat(88.f));
  vec n = wasm_f32x4_nearest(mul(x, splat(1.44269504f)));
  vec r = add(wasm_f32x4_sub(x, mul(n, splat(0.693359375f))), mul(n, splat(2.12194440e-4f)));
  vec p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f)), p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f)), p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f)), p = add(fma(p, mul(r, r), r), splat(1.f));
  return mul(p, wasm_i32x4_shl(wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(n), wasm_i32x4_splat(127)), 23));
}

// four 16-bit floats, as 32-bit ones; subnormal ones included
static inline vec halves(vec bits) {
  vec sign = wasm_i32x4_shl(wasm_v128_and(bits, wasm_i32x4_splat(0x8000)), 16);
  vec rest = wasm_i32x4_shl(wasm_v128_and(bits, wasm_i32x4_splat(0x7fff)), 13);
  return wasm_v128_or(mul(rest, splat(0x1p112f)), sign);
}
static inline float half(const u8 *at) { return lane(halves(wasm_i32x4_splat(at[0] | at[1] << 8)), 0); }

// a block of 32 quantised weights: whole numbers in v, to be read as v * scale + offset; gives the block's length
static inline int block(int type, const u8 *at, vec v[8], float *scale, float *offset) {
  vec s[4];
  *scale = half(at);
  if (type == Q8_0) {
    for (int i = 0; i < 4; i++) s[i] = wasm_i16x8_load8x8(at + 2 + 8 * i);
    *offset = 0;
  } else {
    vec z = load(at + (type == Q4_1 ? 4 : 2)), low = wasm_v128_and(z, wasm_i8x16_splat(15)), high = wasm_u8x16_shr(z, 4);
    s[0] = wasm_u16x8_extend_low_u8x16(low), s[1] = wasm_u16x8_extend_high_u8x16(low);
    s[2] = wasm_u16x8_extend_low_u8x16(high), s[3] = wasm_u16x8_extend_high_u8x16(high);
    *offset = type == Q4_1 ? half(at + 2) : -8 * *scale;
  }
  for (int i = 0; i < 4; i++) {
    v[2 * i] = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(s[i]));
    v[2 * i + 1] = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(s[i]));
  }
  return type == Q8_0 ? 34 : type == Q4_1 ? 20 : 18;
}
static inline int stride(const Matrix *w) {
  int blocks = w->columns / 32;
  switch (w->type) {
    case F32: return 4 * w->columns;
    case Q4_0: return 18 * blocks;
    case Q4_1: return 20 * blocks;
    case Q8_0: return 34 * blocks;
    default: return 2 * w->columns;
  }
}
// one row of weights as floats
static __attribute__((noinline)) void unpack(const Matrix *w, int row, float *to) {
  const u8 *at = w->at + (long)row * stride(w);
  if (w->type == F32) for (int i = 0; i < w->columns; i += 4) store(to + i, load(at + 4 * i));
  else if (w->type == F16) for (int i = 0; i < w->columns; i += 4) store(to + i, halves(wasm_u32x4_load16x4(at + 2 * i)));
  else if (w->type == BF16) for (int i = 0; i < w->columns; i += 4) store(to + i, wasm_i32x4_shl(wasm_u32x4_load16x4(at + 2 * i), 16));
  else for (int i = 0; i < w->columns; i += 32) {
    vec v[8]; float scale, offset;
    at += block(w->type, at, v, &scale, &offset);
    for (int j = 0; j < 8; j++) store(to + i + 4 * j, add(mul(v[j], splat(scale)), splat(offset)));
  }
}

static inline float dot(const float *a, const float *b, int n) {
  vec s = splat(0), t = s;
  for (int i = 0; i < n; i += 8) s = fma(load(a + i), load(b + i), s), t = fma(load(a + i + 4), load(b + i + 4), t);
  return total(add(s, t));
}
// one row, against blocks as they are read: sum over blocks of scale * (v . x) + offset * (sum of x)
static __attribute__((always_inline)) inline void one(int type, const Matrix *w, const float *in, const float *sums, float *out) {
  const u8 *at = w->at;
  for (int n = 0; n < w->rows; n++) {
    vec all = splat(0); float offsets = 0;
    for (int i = 0; i < w->columns; i += 32) {
      vec v[8]; float scale, offset;
      at += block(type, at, v, &scale, &offset);
      vec s = mul(v[0], load(in + i)), t = mul(v[1], load(in + i + 4));
      for (int j = 2; j < 8; j += 2) s = fma(v[j], load(in + i + 4 * j), s), t = fma(v[j + 1], load(in + i + 4 * j + 4), t);
      all = fma(add(s, t), splat(scale), all), offsets += offset * sums[i / 32];
    }
    out[n] = total(all) + offsets;
  }
}
// out[row][n] = sum over k of w[n][k] in[row][k]
static __attribute__((noinline)) void times(const Model *m, const Matrix *w, const float *in, int rows, float *out) {
  const int k = w->columns, to = w->rows;
  if (rows == 1 && (w->type == Q4_0 || w->type == Q4_1 || w->type == Q8_0)) {
    float *sums = m->panel;
    for (int i = 0; i < k; i += 32) {
      vec s = load(in + i);
      for (int j = 4; j < 32; j += 4) s = add(s, load(in + i + j));
      sums[i / 32] = total(s);
    }
    if (w->type == Q4_0) one(Q4_0, w, in, sums, out);
    else if (w->type == Q4_1) one(Q4_1, w, in, sums, out);
    else one(Q8_0, w, in, sums, out);
    return;
  }
  for (int n = 0; n < to; n += PANEL) {
    const int panel = to - n < PANEL ? to - n : PANEL;
    for (int i = 0; i < panel; i++) unpack(w, n + i, m->panel + i * k);
    int r = 0;
    for (; r + 4 <= rows; r += 4) for (int p = 0; p < panel; p += 2) {  // an odd panel's last row goes twice
      const int second = p + 1 < panel ? p + 1 : p;
      const float *w0 = m->panel + p * k, *w1 = m->panel + second * k, *x0 = in + r * k, *x1 = x0 + k, *x2 = x1 + k, *x3 = x2 + k;
      vec a0 = splat(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
      for (int i = 0; i < k; i += 4) {
        vec v0 = load(w0 + i), v1 = load(w1 + i), x = load(x0 + i);
        a0 = fma(v0, x, a0), b0 = fma(v1, x, b0), x = load(x1 + i), a1 = fma(v0, x, a1), b1 = fma(v1, x, b1);
        x = load(x2 + i), a2 = fma(v0, x, a2), b2 = fma(v1, x, b2), x = load(x3 + i), a3 = fma(v0, x, a3), b3 = fma(v1, x, b3);
      }
      float *a = out + r * to + n + p, *b = out + r * to + n + second;
      a[0] = total(a0), a[to] = total(a1), a[2 * to] = total(a2), a[3 * to] = total(a3);
      b[0] = total(b0), b[to] = total(b1), b[2 * to] = total(b2), b[3 * to] = total(b3);
    }
    for (; r < rows; r++) for (int p = 0; p < panel; p++) out[r * to + n + p] = dot(m->panel + p * k, in + r * k, k);
  }
}

static __attribute__((noinline)) void normed(const Model *m, const float *from, const float *w, float *to, int rows) {
  for (int r = 0; r < rows; r++, from += m->width, to += m->width) {
    float f = 1.f / __builtin_sqrtf(dot(from, from, m->width) / m->width + m->epsilon);
    for (int i = 0; i < m->width; i += 4) store(to + i, mul(load(w + i), mul(load(from + i), splat(f))));
  }
}
// rotary positions, in GGUF's order of channels: neighbours turn together; `way` is 1, or -1 to turn back
static void turn(const Model *m, float *of, int heads, int position, float way) {
  const int pairs = m->size / 2;
  const float *c = m->cosines + position * pairs, *s = m->sines + position * pairs;
  for (int h = 0; h < heads; h++, of += m->size) for (int i = 0; i < pairs; i++) {
    float a = of[2 * i], b = of[2 * i + 1], sine = way * s[i];
    of[2 * i] = a * c[i] - b * sine, of[2 * i + 1] = a * sine + b * c[i];
  }
}
static inline void axpy(float f, const float *x, float *y, int n) {
  int i = 0;
  for (; i + 4 <= n; i += 4) store(y + i, fma(splat(f), load(x + i), load(y + i)));
  for (; i < n; i++) y[i] += f * x[i];
}

// softmax of one head's scores, in place; or what stands in its place. `own` is the row's own place among the seen.
static __attribute__((noinline)) void weigh(float *w, int seen, int change) {
  if (change == OFF || change == EVEN) {
    for (int j = 0; j < seen; j++) w[j] = change == EVEN ? 1.f / seen : 0;
    return;
  }
  if (change >= PUSHED && change - PUSHED < seen) {
    for (int j = 0; j < seen; j++) w[j] = j == change - PUSHED;
    return;
  }
  float high = w[0], sum = 0;
  for (int j = 1; j < seen; j++) high = w[j] > high ? w[j] : high;
  for (int j = 0; j < seen; j += 4) store(w + j, exponential(wasm_f32x4_sub(load(w + j), splat(high))));  // past the end too
  for (int j = 0; j < seen; j++) sum += w[j];
  for (int j = 0; j < seen; j++) w[j] /= sum;
}
// attention of row r in layer l: from m->q into m->a, and its mean over heads into m->mean
static void attend(const Model *m, const Batch *b, int l, int r) {
  const int size = m->size, keys = m->key_heads * size, shared = b->shared[r], start = b->start[r];
  const int seen = shared + b->slot[r] - start + 1, last = b->attention && r == b->rows - 1;
  const float *cache = b->cache + (long)l * b->slots * 2 * keys;
  const float scale = 1.f / __builtin_sqrtf(size);
  float *w = m->weights;
  for (int j = 0; j < seen; j++) m->mean[j] = 0;
  for (int h = 0; h < m->heads; h++) {
    const float *q = m->q + (r * m->heads + h) * size, *of = cache + h / (m->heads / m->key_heads) * size;
    float *out = m->a + (r * m->heads + h) * size;
    for (int j = 0; j < seen; j++) w[j] = dot(q, of + (long)(j < shared ? j : start + j - shared) * 2 * keys, size) * scale;
    weigh(w, seen, b->change[l * m->heads + h]);
    for (int c = 0; c < size; c += 8) {
      vec s = splat(0), t = s;
      for (int j = 0; j < seen; j++) {
        const float *v = of + (long)(j < shared ? j : start + j - shared) * 2 * keys + keys + c;
        s = fma(splat(w[j]), load(v), s), t = fma(splat(w[j]), load(v + 4), t);
      }
      store(out + c, s), store(out + c + 4, t);
    }
    if (b->rollout) axpy(1.f / m->heads, w, m->mean, seen);
    if (last) for (int j = 0; j < seen; j++) b->attention[(l * m->heads + h) * b->slots + j] = w[j];
  }
}
// R_l[q] = (A R_(l-1) + R_(l-1)[q]) / (t + 1), t the sum of A; without the sink's key, A has as much on the others
static void follow(const Model *m, const Batch *b, float *rollout, int l, int q, int sink) {
  const long triangle = (long)b->slots * (b->slots + 1) / 2;
  float *A = m->mean, *to = rollout + l * triangle + (long)q * (q + 1) / 2, rest = 0, factor = 1;
  for (int k = 1; k <= q; k++) rest += A[k];
  const float sum = rest + A[0];
  for (int k = 0; k <= q; k++) to[k] = 0;
  if (sink) {
    if (rest > 0) A[0] = 0, factor = sum / rest;
    else for (int k = 0; k <= q; k++) A[k] = k == q ? sum : 0;
  }
  for (int k = 0; k <= q; k++) {
    const float f = (A[k] * factor + (k == q)) / (sum + 1);
    if (l) axpy(f, rollout + (l - 1) * triangle + (long)k * (k + 1) / 2, to, k + 1);
    else to[k] = f;
  }
}

// keeps the stream of `rows` rows, all or those that are asked
static void keep(const Model *m, const Batch *b, int part, int rows, const int *asked) {
  for (int r = 0; b->stream && r < rows; r++) {
    float *to = b->stream + ((long)part * b->slots + b->slot[asked ? asked[r] : r]) * m->width;
    for (int i = 0; i < m->width; i += 4) store(to + i, load(m->x + r * m->width + i));
  }
}

API void forward(const Model *m, const Batch *b) {
  const int width = m->width, wide = m->heads * m->size, keys = m->key_heads * m->size;
  int rows = b->rows;
  for (int r = 0; r < rows; r++) unpack(&m->embedding, b->token[r], m->x + r * width);
  for (int l = 0; l < m->layers; l++) {
    const Layer *w = &m->layer[l];
    float *cache = b->cache + (long)l * b->slots * 2 * keys;
    keep(m, b, 2 * l, rows, 0);
    normed(m, m->x, w->norm, m->y, rows);
    times(m, &w->q, m->y, rows, m->q), times(m, &w->k, m->y, rows, m->g), times(m, &w->v, m->y, rows, m->u);
    for (int r = 0; r < rows; r++) {
      float *to = cache + (long)b->slot[r] * 2 * keys;
      turn(m, m->q + r * wide, m->heads, b->position[r], 1);
      turn(m, m->g + r * keys, m->key_heads, b->position[r], 1);
      for (int i = 0; i < keys; i += 4) store(to + i, load(m->g + r * keys + i)), store(to + keys + i, load(m->u + r * keys + i));
    }
    for (int r = 0; r < rows; r++) {
      attend(m, b, l, r);
      if (b->rollout) follow(m, b, b->rollout, l, b->slot[r], 0);
      if (b->sink_free) follow(m, b, b->sink_free, l, b->slot[r], 1);
    }
    if (l == m->layers - 1) {  // no later token sees what the last layer writes: only the rows that are asked go on
      rows = b->asks;
      for (int r = 0; r < rows; r++) {
        for (int i = 0; i < width; i += 4) store(m->x + r * width + i, load(m->x + b->asked[r] * width + i));
        for (int i = 0; i < wide; i += 4) store(m->a + r * wide + i, load(m->a + b->asked[r] * wide + i));
      }
    }
    times(m, &w->o, m->a, rows, m->y);
    for (int i = 0; i < rows * width; i += 4) store(m->x + i, add(load(m->x + i), load(m->y + i)));
    keep(m, b, 2 * l + 1, rows, l == m->layers - 1 ? b->asked : 0);
    normed(m, m->x, w->norm2, m->y, rows);
    times(m, &w->gate, m->y, rows, m->g), times(m, &w->up, m->y, rows, m->u);
    for (int i = 0; i < rows * m->hidden; i += 4) {
      vec g = load(m->g + i), one = splat(1.f);
      store(m->g + i, mul(wasm_f32x4_div(g, add(one, exponential(wasm_f32x4_neg(g)))), load(m->u + i)));
    }
    times(m, &w->down, m->g, rows, m->y);
    for (int i = 0; i < rows * width; i += 4) store(m->x + i, add(load(m->x + i), load(m->y + i)));
  }
}
// the logits [asks][vocabulary] of the rows that the latest call was asked for
API void predict(const Model *m, const Batch *b, float *logits) {
  normed(m, m->x, m->norm, m->y, b->asks);
  times(m, &m->output, m->y, b->asks, logits);
}

// out[row][k] = sum over n of in[row][n] w[n][k]; or as much more
static __attribute__((noinline)) void times_back(const Model *m, const Matrix *w, const float *in, int rows, float *out, int more) {
  const int k = w->columns, to = w->rows;
  if (!more) for (int i = 0; i < rows * k; i += 4) store(out + i, splat(0));
  for (int n = 0; n < to; n += PANEL) {  // sizes are multiples of 8
    for (int i = 0; i < PANEL; i++) unpack(w, n + i, m->panel + i * k);
    for (int r = 0; r < rows; r++) {
      const float *f = in + r * to + n, *p = m->panel;
      float *y = out + r * k;
      vec f0 = splat(f[0]), f1 = splat(f[1]), f2 = splat(f[2]), f3 = splat(f[3]);
      vec f4 = splat(f[4]), f5 = splat(f[5]), f6 = splat(f[6]), f7 = splat(f[7]);
      for (int i = 0; i < k; i += 4) {
        vec s = fma(f0, load(p + i), load(y + i)), t = mul(f1, load(p + k + i));
        s = fma(f2, load(p + 2 * k + i), s), t = fma(f3, load(p + 3 * k + i), t);
        s = fma(f4, load(p + 4 * k + i), s), t = fma(f5, load(p + 5 * k + i), t);
        s = fma(f6, load(p + 6 * k + i), s), t = fma(f7, load(p + 7 * k + i), t);
        store(y + i, add(s, t));
      }
    }
  }
}
// slope += w f of, where normed gave w f from, with f taken as a constant
static void normed_back(const Model *m, const float *from, const float *w, const float *of, float *slope, int rows) {
  for (int r = 0; r < rows; r++, from += m->width, of += m->width, slope += m->width) {
    float f = 1.f / __builtin_sqrtf(dot(from, from, m->width) / m->width + m->epsilon);
    for (int i = 0; i < m->width; i += 4) store(slope + i, add(load(slope + i), mul(load(w + i), mul(load(of + i), splat(f)))));
  }
}
// of row r in slot q: from what heads bring (m->a) to keys and values (b->cache_slope) and queries (m->q, in place).
// Half goes to the values, a quarter each to queries and keys.
static void attend_back(const Model *m, const Batch *b, int l, int r, int q) {
  const int size = m->size, keys = m->key_heads * size, seen = q + 1, group = m->heads / m->key_heads;
  const float *cache = b->cache + (long)l * b->slots * 2 * keys, scale = 1.f / __builtin_sqrtf(size);
  float *w = m->weights, *g = m->mean;
  for (int h = 0; h < m->heads; h++) {
    float *query = m->q + (r * m->heads + h) * size, *to = b->cache_slope + h / group * size, sum = 0;
    const float *a = m->a + (r * m->heads + h) * size, *of = cache + h / group * size;
    for (int j = 0; j < seen; j++) w[j] = dot(query, of + (long)j * 2 * keys, size) * scale;
    weigh(w, seen, OWN);
    for (int j = 0; j < seen; j++) g[j] = dot(a, of + (long)j * 2 * keys + keys, size), sum += w[j] * g[j];
    for (int j = 0; j < seen; j++) {
      axpy(w[j] / 2, a, to + (long)j * 2 * keys + keys, size);
      g[j] = w[j] * (g[j] - sum) * scale / 4;
      axpy(g[j], query, to + (long)j * 2 * keys, size);
    }
    for (int i = 0; i < size; i += 4) store(query + i, splat(0));
    for (int j = 0; j < seen; j++) axpy(g[j], of + (long)j * 2 * keys, query, size);
  }
}
// begins with the logit of a token, of the row that the latest call of `forward` was asked for, the last of n
API void begin_back(const Model *m, const Batch *b, int token, int n) {
  for (long i = 0; i < (long)n * m->width; i += 4) store(b->slope + i, splat(0));
  unpack(&m->output, token, m->y);
  normed_back(m, m->x, m->norm, m->y, b->slope + (long)(n - 1) * m->width, 1);
}
// from behind layer l to before it, at most `most` rows at a time
API void backward(const Model *m, const Batch *b, int l, int n, int most) {
  const int width = m->width, wide = m->heads * m->size, keys = m->key_heads * m->size, first = l == m->layers - 1 ? n - 1 : 0;
  const Layer *w = &m->layer[l];
  const float *before = b->stream + (long)2 * l * b->slots * width, *between = before + (long)b->slots * width;
  for (int c = first, rows; c < n; c += rows) {  // behind the last layer only the last row is asked
    rows = n - c < most ? n - c : most;
    normed(m, between + (long)c * width, w->norm2, m->y, rows);
    times(m, &w->gate, m->y, rows, m->g), times(m, &w->up, m->y, rows, m->u);
    times_back(m, &w->down, b->slope + (long)c * width, rows, b->spare, 0);
    for (int i = 0; i < rows * m->hidden; i += 4) {
      vec g = load(m->g + i), one = splat(1.f), half = mul(load(b->spare + i), splat(.5f));
      vec open = wasm_f32x4_div(half, add(one, exponential(wasm_f32x4_neg(g))));
      store(m->g + i, mul(open, load(m->u + i))), store(m->u + i, mul(open, g));
    }
    times_back(m, &w->gate, m->g, rows, m->y, 0), times_back(m, &w->up, m->u, rows, m->y, 1);
    normed_back(m, between + (long)c * width, w->norm2, m->y, b->slope + (long)c * width, rows);
  }
  for (long i = 0; i < (long)n * 2 * keys; i += 4) store(b->cache_slope + i, splat(0));
  for (int c = first, rows; c < n; c += rows) {
    rows = n - c < most ? n - c : most;
    normed(m, before + (long)c * width, w->norm, m->y, rows);
    times(m, &w->q, m->y, rows, m->q);
    times_back(m, &w->o, b->slope + (long)c * width, rows, m->a, 0);
    for (int r = 0; r < rows; r++) {
      turn(m, m->q + r * wide, m->heads, c + r, 1);
      attend_back(m, b, l, r, c + r);
      turn(m, m->q + r * wide, m->heads, c + r, -1);
    }
    times_back(m, &w->q, m->q, rows, m->y, 0);
    normed_back(m, before + (long)c * width, w->norm, m->y, b->slope + (long)c * width, rows);
  }
  for (int c = 0, rows; c < n; c += rows) {
    rows = n - c < most ? n - c : most;
    for (int r = 0; r < rows; r++) {
      const float *from = b->cache_slope + (long)(c + r) * 2 * keys;
      for (int i = 0; i < keys; i += 4) store(m->g + r * keys + i, load(from + i)), store(m->u + r * keys + i, load(from + keys + i));
      turn(m, m->g + r * keys, m->key_heads, c + r, -1);
    }
    times_back(m, &w->k, m->g, rows, m->y, 0), times_back(m, &w->v, m->u, rows, m->y, 1);
    normed_back(m, before + (long)c * width, w->norm, m->y, b->slope + (long)c * width, rows);
  }
}
