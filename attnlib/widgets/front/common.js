// What the explorers share. Python puts this file before each explorer's own (attnlib.widgets.static.front_end),
// so that every widget is one module without imports: names here are known there.
//
// May be touched for: text, numbers, colours, bytes, elements. What they make together is in the other files.

// ---------------------------------------------------------------------------- text and numbers

const SIGNS = { " ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽" };

/** A token that can be seen: white space as signs, other invisible characters by their code. */
function visible(token) {
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
function written(tokens, wrap, apart = (token) => BLANK_BEFORE.test(token)) {
  return tokens.flatMap((token, i) => {
    const node = wrap(visible(BLANK_BEFORE.test(token) ? token.slice(1) : token), i);
    return [...(apart(token) ? [" "] : []), node, ...(token.endsWith("\n") ? [make("br")] : [])];
  });
}

/** A weight w is stored to within sqrt(w)/255: as many digits (2 to 4) as are right to one of the last. */
function format(weight) {
  if (weight === 0) return "0";
  if (weight < 1e-4) return "<0.0001";
  const digits = Math.floor(-Math.log10((2 * Math.sqrt(weight)) / 255));
  return weight.toFixed(Math.min(Math.max(digits, 2), 4));
}

const tick = (weight) => String(Number(weight.toPrecision(2)));
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const range = (count) => [...Array(count).keys()];
const sum = (values) => values.reduce((a, b) => a + b, 0);
const largestOf = (values) => values.reduce((a, b) => Math.max(a, b), 0);
const capital = (text) => text[0].toUpperCase() + text.slice(1);

// ---------------------------------------------------------------------------- colours

// Blues from the page's own colour to its opposite, lightness strictly monotone, so that they survive any
// colour blindness and grey print. The reference is orange, which every common deficiency tells from blue.
const THEMES = {
  light: { surface: "#ffffff", ink: "#1c2330", faint: "#5b6577", reference: "#e8590c",
    ramp: ["#eaf2fa", "#d5e5f4", "#b7d4ea", "#86bcdc", "#559fcd", "#2f7fbc", "#155fa3", "#084387", "#08285a"] },
  dark: { surface: "#151a23", ink: "#eef2f8", faint: "#a3adbd", reference: "#ffa94d",
    ramp: ["#1c2a3d", "#1b3653", "#1b4670", "#235d92", "#3578b3", "#5595cd", "#82b4e0", "#b4d3ef", "#ebf5fd"] },
};
for (const theme of Object.values(THEMES)) {
  theme.lut = interpolate(theme.ramp);
  theme.lut[0] = interpolate([theme.surface, theme.surface])[0]; // an exact zero is blank, unlike a small weight
  theme.pixels = Uint32Array.from(theme.lut, ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
}

/** 256 colours, as [red, green, blue], between evenly spaced stops. */
function interpolate(ramp) {
  const stops = ramp.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return Array.from({ length: 256 }, (_, step) => {
    const place = (step / 255) * (stops.length - 1);
    const below = Math.min(Math.floor(place), stops.length - 2);
    return stops[below].map((part, i) => Math.round(part + (stops[below + 1][i] - part) * (place - below)));
  });
}

/** Attention is mostly small, so the scale is the square root: a quarter of the top is half way up. */
const shade = (weight, top) => (weight > 0 ? Math.min(255, Math.round(255 * Math.sqrt(weight / top))) : 0);
const css = (rgb) => `rgb(${rgb.join(",")})`;
const luminance = (rgb) => (0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]) / 255;

/** Puts a colour behind the text of a node, and ink that can be read on it; null takes both away. */
function tintNode(node, rgb) {
  node.style.backgroundColor = rgb ? css(rgb) : "";
  node.style.color = rgb ? (luminance(rgb) > 0.45 ? "#101722" : "#ffffff") : "";
}

/** Whether what lies behind a node is dark: the first ancestor with a colour decides, whoever painted it. */
function onDark(node) {
  const probe = canvas("", 1, 1).getContext("2d", { willReadFrequently: true });
  for (let behind = node.parentElement; behind; behind = behind.parentElement) {
    probe.clearRect(0, 0, 1, 1);
    probe.fillStyle = getComputedStyle(behind).backgroundColor;
    probe.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = probe.getImageData(0, 0, 1, 1).data;
    if (alpha > 127) return luminance([red, green, blue]) < 0.5;
  }
  return false;
}

// ---------------------------------------------------------------------------- bytes

// READ[b] is the weight that the byte b stands for.
const READ = Float32Array.from({ length: 256 }, (_, step) => (step / 255) ** 2);

/** Bytes come as a DataView from the kernel and as a Uint8Array in a static page. */
const bytesOf = (value) => new Uint8Array(value.buffer, value.byteOffset, value.byteLength);

// ---------------------------------------------------------------------------- elements

/** An element with attributes, listeners (functions) and children; strings become text, never markup. */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function canvas(name, width, height) {
  return make("canvas", { class: name, width, height, "aria-hidden": "true" });
}

/** Sizes a canvas in CSS pixels, sharp on any screen, and returns its cleared context. */
function surface(target, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (target.width !== wide || target.height !== high) Object.assign(target, { width: wide, height: high });
  Object.assign(target.style, { width: `${width}px`, height: `${height}px` });
  const pen = target.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/** One pixel per cell. */
function bitmap(values, rows, columns, top, theme) {
  const picture = canvas("", columns, rows), pen = picture.getContext("2d");
  const image = pen.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = theme.pixels[shade(values[i], top)];
  pen.putImageData(image, 0, 0);
  return picture;
}

const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/** A label cut to a width, with an ellipsis. */
function fit(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && pen.measureText(letters.join("") + "…").width > width) letters.pop();
  return letters.join("") + "…";
}

// ---------------------------------------------------------------------------- saving and watching

function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** An SVG document as a PNG, three pixels for each of its own as long as that stays printable. */
function rasterise(picture, name) {
  const image = new Image(), factor = Math.min(3, 6000 / Math.max(picture.width, picture.height));
  image.onload = () => {
    const sheet = canvas("", Math.round(picture.width * factor), Math.round(picture.height * factor));
    sheet.getContext("2d").drawImage(image, 0, 0, sheet.width, sheet.height);
    URL.revokeObjectURL(image.src);
    sheet.toBlob((png) => download(png, name), "image/png");
  };
  image.src = URL.createObjectURL(new Blob([picture.text], { type: "image/svg+xml" }));
}

/** Calls back when the width of a node or the theme of its page changes. Returns how to stop. */
function watch(node, changed) {
  let width = 0;
  const size = new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    changed();
  });
  size.observe(node);
  const late = () => { changed(); setTimeout(changed, 400); }; // some themes load their colours late
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
