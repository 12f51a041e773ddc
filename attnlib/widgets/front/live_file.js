// Where the file of a language model comes from: this page itself, beside it over http, or the reader's own disk.
//
// May be touched for: how bytes come to the page. Who reads them is ../live/model.js.

const KEPT = "attnlib-models"; // the name of what the browser keeps of them

/** A module of one function that splats a byte over a vector: valid where WebAssembly has SIMD. */
const VECTORS = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11);

/** What a browser lacks for a model of `bytes`, in words; "" if nothing that can be known beforehand. */
export function lacking(bytes) {
  if (!globalThis.WebAssembly?.validate(VECTORS)) return "this browser has no WebAssembly with vectors (SIMD), which it needs";
  if (!globalThis.Worker) return "this browser has no workers, which it needs";
  const gigabytes = navigator.deviceMemory; // Chromium's alone, rounded to a power of two
  if (gigabytes * 1e9 < 6 * memoryFor(bytes)) return `this device has ${gigabytes} GB of memory, too little beside all else for ${sizeOf(memoryFor(bytes))}`;
  return "";
}

/** Two workers hold a copy each, and what they compute. */
export const memoryFor = (bytes) => 6 * bytes;

export const isPhone = () => matchMedia("(pointer: coarse) and (max-width: 900px)").matches;

export const sizeOf = (bytes) => (bytes < 9.5e8 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`);

/** A time that is known roughly, in words. */
export function lasting(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} minutes` : `${Math.round(seconds / 3600)} hours`;
}

const inside = () => [...document.querySelectorAll('script[type="text/x-attnlib-model"]')];

/** Where a file can come from without the reader's choosing it: "page", "http", or "" from a page on disk. */
export function origin(file) {
  if (file.inside) return "page"; // behind this script: it may not be there yet
  return /^https?:$/.test(location.protocol) ? "http" : "";
}

/** Takes the file out of the page, which is then rid of it: packed by gzip, in base64, in pieces. */
export async function unpacked() {
  const pieces = inside().map((script) => {
    const text = script.textContent;
    script.remove();
    return Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  });
  return new Response(new Blob(pieces).stream().pipeThrough(new DecompressionStream("gzip"))).blob();
}

/** Where a book keeps its models: Sphinx says in every page where the book's first folder is. */
const address = ({ file }) => new URL(`${document.documentElement.dataset.content_root ?? "./"}models/${encodeURIComponent(file)}`, document.baseURI);

/** Browsers refuse to keep anything where a page is not from a safe place (plain http of another machine, say). */
const shelf = () => globalThis.caches?.open(KEPT).catch(() => undefined);
const mark = (file) => `${address(file)}?sha256=${file.sha256}`; // of another book, another file

/** Whether the browser has the file from an earlier visit. */
export const isKept = async (file) => Boolean(await (await shelf())?.match(mark(file)));

/** Forgets what is kept: it could not be read. */
export const forget = async (file) => void (await shelf())?.delete(mark(file));

/** The file from beside the page, or what the browser kept of it; `onProgress` is told the share that has come. */
export async function fetched(file, { signal, onProgress }) {
  const kept = await shelf(), found = await kept?.match(mark(file));
  if (found) return found.blob();
  const reply = await fetch(address(file), { signal }).catch((error) => {
    if (signal.aborted) throw error;
    throw new Error(`The file ${file.file} could not be fetched from beside this page (${error.message}).`);
  });
  if (!reply.ok) throw new Error(`The file ${file.file} is not beside this page (${reply.status}): choose it from your disk, if you have it.`);
  const pieces = [];
  let come = 0;
  for (const reader = reply.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    onProgress(Math.min((come += value.length) / file.bytes, 1));
  }
  const whole = new Blob(pieces);
  if (whole.size !== file.bytes) throw new Error(`The file ${file.file} came with ${whole.size} bytes in place of ${file.bytes}: it is another file, or cut short. Try again.`);
  await kept?.put(mark(file), new Response(whole)).catch(() => undefined); // no room: it is fetched again next time
  return whole;
}
