// What the explorers share: text, numbers, bytes, elements, and how a page is watched.
//
// May be touched for: text, numbers, bytes, elements. What they make together is in the other files.

// ---------------------------------------------------------------------------- text and numbers

const SIGNS = { " ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽" };

/** A token that can be seen: white space as signs, other invisible characters by their code. */
export function visible(token) {
  if (token === "") return "∅";
  return token.replace(/[\p{C}\p{Z}]/gu, (sign) =>
    SIGNS[sign] ?? "U+" + sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0"));
}

// A blank before a word is a space between nodes.
const BLANK_BEFORE = /^ [^]*[^\s]/u;

/**
 * Tokens as running text, with a space before a token where `apart` says so, and a new line after a line break.
 * `wrap` makes the node of one token.
 */
export function written(tokens, wrap, apart = (token) => BLANK_BEFORE.test(token)) {
  return tokens.flatMap((token, i) => {
    const node = wrap(visible(BLANK_BEFORE.test(token) ? token.slice(1) : token), i);
    return [...(apart(token) ? [" "] : []), node, ...(token.endsWith("\n") ? [make("br")] : [])];
  });
}

/** A weight w is stored to within sqrt(w)/255: as many digits (2 to 4) as are right to one of the last. */
export function format(weight) {
  if (weight === 0) return "0";
  if (weight < 1e-4) return "<0.0001";
  const digits = Math.floor(-Math.log10((2 * Math.sqrt(weight)) / 255));
  return weight.toFixed(Math.min(Math.max(digits, 2), 4));
}

/** So many tokens are written as text; more would not answer at once. */
export const LONGEST = 500;

export const tick = (weight) => String(Number(weight.toPrecision(2)));
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const range = (count) => [...Array(count).keys()];
export const sum = (values) => values.reduce((a, b) => a + b, 0);
/** The least and the largest of values and zero. */
export function ends(values) {
  let least = 0, most = 0;
  for (let i = 0; i < values.length; i++) {
    if (values[i] < least) least = values[i];
    else if (values[i] > most) most = values[i];
  }
  return { least, most };
}
export const largestOf = (values) => ends(values).most;
/** The places of the largest values above zero, largest first. */
export function order(values, count) {
  const best = [];
  for (let k = 0; k < values.length; k++) {
    if (!(values[k] > 0) || (best.length === count && values[k] <= values[best[count - 1]])) continue;
    const at = best.findIndex((other) => values[k] > values[other]);
    best.splice(at < 0 ? best.length : at, 0, k);
    if (best.length > count) best.pop();
  }
  return best;
}
/** Whether a key is the browser's, as Alt + Left is. */
export const foreign = ({ altKey, ctrlKey, metaKey }) => altKey || ctrlKey || metaKey;
export const ordinal = (place) => `${place}${{ 1: "st", 2: "nd", 3: "rd" }[place % 100 > 10 && place % 100 < 14 ? 0 : place % 10] ?? "th"}`;
export const capital = (text) => text[0].toUpperCase() + text.slice(1);

// ---------------------------------------------------------------------------- bytes

// READ[b] is the weight that the byte b stands for.
export const READ = Float32Array.from({ length: 256 }, (_, step) => (step / 255) ** 2);

/** Bytes come as a DataView from the kernel and as a Uint8Array in a static page. */
export const bytesOf = (value) => new Uint8Array(value.buffer, value.byteOffset, value.byteLength);

// ---------------------------------------------------------------------------- elements

/** An element with attributes, listeners (functions) and children; strings become text, never markup. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** A small button; what is not allowed keeps the focus, as it would not if `disabled`. */
export const smallButton = (press, words = "", more) => make("button", { type: "button", class: "attnx-save",
  click: ({ currentTarget: node }) => node.matches("[aria-disabled=true]") || press(node), ...more }, words);
export const allow = (button, may) => button.setAttribute("aria-disabled", !may);

export function canvas(name, width, height) {
  return make("canvas", { class: name, width, height, "aria-hidden": "true" });
}

let recorder = null;

/** Meanwhile, what would be drawn on a canvas is drawn with the pen that `penOf` has for it. */
export function recording(penOf, meanwhile) {
  recorder = penOf;
  try { meanwhile(); } finally { recorder = null; }
}

/** Sizes a canvas in CSS pixels, sharp on any screen, and returns its cleared context. */
export function surface(target, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  Object.assign(target.style, { width: `${width}px`, height: `${height}px` });
  if (recorder) return recorder(target, width, height);
  if (target.width !== wide || target.height !== high) Object.assign(target, { width: wide, height: high });
  const pen = target.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

export const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

const LEFTWARD = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** Text whose quoted tokens stand apart if any is written from right to left: or the numbers behind it would go before it. */
export const isolated = (text) => (LEFTWARD.test(text) ? text.replace(/'[^']*'/g, "\u2068$&\u2069") : text);

/** A label cut to a width, with an ellipsis. */
export function fit(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const letters = [...text.slice(0, 8 * Math.ceil(width))]; // letters less than 1/8 pixel wide there are none
  while (letters.length > 1 && pen.measureText(letters.join("") + "…").width > width) letters.pop();
  return letters.join("") + "…";
}

// ---------------------------------------------------------------------------- saving and watching

export function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Until the page is about to be painted: what is done then is in the picture. */
export const frame = () => new Promise(requestAnimationFrame);

/** Lets the page do what waits for its turn. */
export const rest = () => new Promise((go) => {
  const { port1, port2 } = new MessageChannel(); // a timeout would be slow where nobody looks
  port1.onmessage = () => { port1.close(); go(); };
  port2.postMessage(0);
});

/** Calls back when the width of a node changes, or the theme of its page, so that it is `outdated`. Returns how to stop. */
export function watch(node, changed, outdated) {
  let width = 0;
  const size = new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    changed();
  });
  size.observe(node);
  const renew = () => { if (outdated()) changed(); }; // the page's classes change with scrolling, too
  const late = () => { renew(); setTimeout(renew, 400); }; // some themes load their colours late
  const theme = new MutationObserver(late);
  for (const page of [document.documentElement, document.body]) {
    theme.observe(page, { attributes: true, attributeFilter: ["class", "data-theme", "data-mode", "data-jp-theme-light"] });
  }
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", late);
  return () => {
    size.disconnect();
    theme.disconnect();
    scheme.removeEventListener("change", late);
  };
}
