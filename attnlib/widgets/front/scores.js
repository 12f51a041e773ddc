// Scores of a document's tokens: their colours, how they are unpacked, and how they are written as numbers.
// Uses common.js, inflate.js and curves.js, which Python puts before it.
//
// May be touched for: another form of what attnlib.widgets.document stores, or its colours. Nothing here is drawn.

// ---------------------------------------------------------------------------- colours

// Oranges against the blues: the one pair of hues that every common colour deficiency tells apart.
const ORANGES = {
  light: ["#fdf0e3", "#fbddc1", "#f7c191", "#ee9c58", "#dc7a2a", "#bd5c10", "#94440b", "#6b2f07", "#431d04"],
  dark: ["#34271b", "#4b3118", "#684016", "#8b531a", "#b06c26", "#cf8c47", "#e5af79", "#f4d4b2", "#fdf1e4"],
};


/** Black or white, whichever is read better on a colour. */
function inkOn(rgb) {
  const [red, green, blue] = rgb.map((part) => (part <= 10.3 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.19 ? "#0b111b" : "#ffffff";
}

/** What a colour is as a background, and the ink on it. */
const tint = (rgb) => ({ colour: css(rgb), ink: inkOn(rgb) });
const BLANK = { colour: "", ink: "" };
for (const [mode, theme] of Object.entries(THEMES)) {
  theme.above = theme.lut.map(tint);
  theme.below = interpolate(ORANGES[mode]).map(tint);
}

// ---------------------------------------------------------------------------- data

/** The document at an index: each of its scores as values [moment][token]. */
function unpackDocument(model, index) {
  const documents = model.get("documents"), found = documents[index], count = found.tokens.length;
  const from = sum(documents.slice(0, index).map(({ bytes }) => bytes));
  const all = inflate(bytesOf(model.get("weights")).subarray(from, from + found.bytes), count * sum(found.scores.map(({ moments }) => moments)));
  let at = 0;
  const scores = found.scores.map((score) => {
    const { moments, scale, signed } = score;
    const value = (step) => { const part = signed ? (step - 128) / 127 : step / 255; return scale * part * Math.abs(part); };
    const values = Array.from({ length: moments }, () => Float32Array.from(all.subarray(at, (at += count)), value));
    const ends = { least: Math.min(0, ...values.map((all) => Math.min(...all))), most: Math.max(0, ...values.map((all) => Math.max(...all))) };
    return { ...score, ...ends, values };
  });
  return { ...found, scores, names: found.tokens.map(visible), checkpoints: found.predicted.length };
}

/** As many digits as are right to one of the last, with a sign where there are both. */
function number(value, { scale, signed: both }) {
  if (value === 0) return "0";
  const root = Math.sqrt(Math.abs(value) / scale), half = 0.5 / (both ? 127 : 255);
  const error = scale * ((root + half) ** 2 - root ** 2);
  const digits = clamp(Math.floor(-Math.log10(2 * error)), 0, 5), least = 10 ** -digits;
  if (Math.abs(value) < least / 2) return both ? (value > 0 ? `+<${least}` : `−<${least}`) : `<${least}`;
  return (both && value > 0 ? "+" : "") + signed(value, digits);
}

/** The place of a token when all are sorted from the largest: 1 is the largest. */
const rank = (values, at) => 1 + values.reduce((above, value) => above + (value > values[at]), 0);
const ordinal = (place) => `${place}${{ 1: "st", 2: "nd", 3: "rd" }[place % 100 > 10 && place % 100 < 14 ? 0 : place % 10] ?? "th"}`;
const largestAt = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
