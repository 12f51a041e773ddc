// The colours of light and dark pages as scales: a weight as a colour, the ink that can be read on it, and which
// theme a page has. The colours themselves are those of attnlib.colours, which Python puts into colours.js.
//
// May be touched for: how weights become colours. Change a colour in attnlib.colours.

import { COLOURS, INKS } from "./colours.js";
import { canvas } from "./common.js";

export const THEMES = COLOURS;

/** 256 colours, as [red, green, blue], between evenly spaced stops. */
function interpolate(stops) {
  return Array.from({ length: 256 }, (_, step) => {
    const place = (step / 255) * (stops.length - 1);
    const below = Math.min(Math.floor(place), stops.length - 2);
    return stops[below].map((part, i) => Math.round(part + (stops[below + 1][i] - part) * (place - below)));
  });
}

export const css = (rgb) => `rgb(${rgb.join(",")})`;

/** Whether white is read better on a colour than black: by its relative luminance (WCAG 2). */
function isDark(rgb) {
  const [red, green, blue] = rgb.map((part) => (part <= 10.3 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179;
}

/** A colour behind a text, and the ink that can be read on it. */
const tint = (rgb) => ({ colour: css(rgb), ink: INKS[isDark(rgb) ? 1 : 0] });
/** 256 such colours between evenly spaced ones. */
export const scaleOf = (stops) => interpolate(stops.map(partsOf)).map(tint);
export const BLANK = { colour: "", ink: "" };

const pixelsOf = (colours) => Uint32Array.from(colours, ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
const partsOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
for (const theme of Object.values(THEMES)) {
  theme.lut = interpolate(theme.blues.map(partsOf));
  theme.lut[0] = partsOf(theme.surface); // an exact zero is blank, unlike a small weight
  theme.pixels = pixelsOf(theme.lut);
  theme.above = theme.lut.map(tint);
  theme.under = interpolate(theme.oranges.map(partsOf));
  theme.pixelsUnder = pixelsOf(theme.under);
  theme.below = theme.under.map(tint);
}

/** Attention is mostly small, so the scale is the square root: a quarter of the top is half way up. */
export const shade = (weight, top) => (weight > 0 ? Math.min(255, Math.round(255 * Math.sqrt(weight / top))) : 0);

/** Puts a tint behind the text of a node. */
export function tintNode(node, { colour, ink }) {
  Object.assign(node.style, { backgroundColor: colour, color: ink });
}

/** One pixel per cell, of weights that may be below zero: of rows q[0] to q[1], columns k[0] to k[1]. */
export function bitmap({ values, rows, columns }, top, theme, q = [0, rows], k = [0, columns]) {
  const [wide, high] = [k[1] - k[0], q[1] - q[0]], picture = canvas("", wide, high), pen = picture.getContext("2d");
  const image = pen.createImageData(wide, high), pixels = new Uint32Array(image.data.buffer);
  for (let row = q[0], to = 0; row < q[1]; row++) {
    for (let from = row * columns + k[0], end = row * columns + k[1]; from < end; from++, to++) {
      const value = values[from];
      pixels[to] = value < 0 ? theme.pixelsUnder[shade(-value, top)] : theme.pixels[shade(value, top)];
    }
  }
  pen.putImageData(image, 0, 0);
  return picture;
}

/** A map as a small picture needs it, of at most so many rows and columns: of cells that share a place, the one furthest from zero. */
export function shrunk(rowAt, rows, columns, most) {
  const block = Math.ceil(Math.max(rows, columns) / most), [high, wide] = [Math.ceil(rows / block), Math.ceil(columns / block)], kept = new Float32Array(high * wide);
  for (let q = 0; q < rows; q++) {
    const row = rowAt(q);
    for (let to = Math.floor(q / block) * wide, k = 0; k < columns; to++) {
      let furthest = kept[to];
      for (const end = Math.min(k + block, columns); k < end; k++) if (Math.abs(row[k]) > Math.abs(furthest)) furthest = row[k];
      kept[to] = furthest;
    }
  }
  return { values: kept, rows: high, columns: wide };
}

const seen = new Map(); // by colour, as CSS has it: whether it is dark; null: it is seen through

function darkness(colour) {
  if (!seen.has(colour)) {
    const probe = canvas("", 1, 1).getContext("2d", { willReadFrequently: true });
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = probe.getImageData(0, 0, 1, 1).data;
    seen.set(colour, alpha > 127 ? isDark([red, green, blue]) : null);
  }
  return seen.get(colour);
}

/** Whether what lies behind a node is dark: the first ancestor with a colour decides, whoever painted it. */
export function onDark(node) {
  for (let behind = node.parentElement; behind; behind = behind.parentElement) {
    const dark = darkness(getComputedStyle(behind).backgroundColor);
    if (dark !== null) return dark;
  }
  return false;
}
