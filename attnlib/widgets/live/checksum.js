// SHA-256 of a file: the browser's own, or, where it offers none (in pages by plain http), the one here (FIPS 180-4).
//
// May be touched for: nothing that changes a sum.

const ROUNDS = new Int32Array(64), START = new Int32Array(8); // the fractions of roots of the first primes
for (let n = 2, found = 0; found < 64; n++) {
  if (Array.from({ length: n - 2 }, (_, d) => n % (d + 2)).includes(0)) continue;
  const fraction = (root) => ((root % 1) * 2 ** 32) | 0;
  if (found < 8) START[found] = fraction(Math.sqrt(n));
  ROUNDS[found++] = fraction(Math.cbrt(n));
}

/** In hexadecimal, of a Blob. */
export async function sha256Of(blob) {
  const native = globalThis.crypto?.subtle, sum = native ? new DataView(await native.digest("SHA-256", await blob.arrayBuffer())) : await sumOf(blob);
  return Array.from({ length: 8 }, (_, i) => sum.getUint32(4 * i).toString(16).padStart(8, "0")).join("");
}

async function sumOf(blob) {
  const state = START.slice(), end = new DataView(new ArrayBuffer((blob.size % 64 < 56 ? 64 : 128) - (blob.size % 64)));
  end.setUint8(0, 128);
  end.setBigUint64(end.byteLength - 8, 8n * BigInt(blob.size));
  const reader = new Blob([blob, end]).stream().getReader();
  for (let rest = new Uint8Array(0); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    const bytes = rest.length ? new Uint8Array(rest.length + value.length) : value;
    if (rest.length) { bytes.set(rest); bytes.set(value, rest.length); }
    addTo(state, bytes);
    rest = bytes.slice(bytes.length - (bytes.length % 64));
  }
  const sum = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => sum.setInt32(4 * i, word));
  return sum;
}

/** Adds the whole blocks of 64 bytes to a state. */
function addTo(state, bytes) {
  const w = new Int32Array(64), turned = (x, by) => (x >>> by) | (x << (32 - by));
  for (let at = 0; at + 64 <= bytes.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = (bytes[at + 4 * i] << 24) | (bytes[at + 4 * i + 1] << 16) | (bytes[at + 4 * i + 2] << 8) | bytes[at + 4 * i + 3];
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + (turned(x, 7) ^ turned(x, 18) ^ (x >>> 3)) + w[i - 7] + (turned(y, 17) ^ turned(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const one = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const two = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => { state[i] += word; });
  }
}
