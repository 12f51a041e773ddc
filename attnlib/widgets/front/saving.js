// Saving: what an explorer shows, as a picture in light colours or as numbers. The picture is the page's own: every
// text, box and canvas of the card where the page has laid it out, a canvas by the strokes that were drawn on it. What
// takes long is done in slices, so that the page answers meanwhile.
//
// May be touched for: how what is in a page becomes SVG, and what a file is called.

import { canvas, clamp, download, frame, make, recording, rest } from "./common.js";
import { shape, svg, SvgPen } from "./svg_pen.js";
import "./saving.css";

const CELL = 13; // pixels of a column, where the picture can be so wide
const PAPER = 640; // pixels that A4 and Letter have between their margins, in a book as in a page
const SLICE = 20000; // rows that are written at once

/** Saves what a view shows as "svg", "png" or "csv", under what it is called. */
export async function save(view, kind) {
  const name = `${[...view.name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")].slice(0, 80).join("")}.${kind}`;
  if (kind === "csv") return download(await csv(view.numbers()), name); // begun at once: those that are shown now
  await frame();
  await rest(); // the button that was pressed is painted
  const { copy, drawn } = await printed(view);
  await rest();
  const hidden = make("div", { class: "attnx-unseen", inert: "" }, copy);
  view.root.after(hidden);
  const picture = drawing(copy, drawn, view.name);
  hidden.remove();
  await rest();
  const text = new Blob([await svg(picture)], { type: "image/svg+xml" });
  download(kind === "svg" ? text : await raster(text, picture.attributes), name);
}

const COMPUTED = /^[=+\-@\t\r].*[(|!]/s; // a text that a spreadsheet would take for a formula

/** Rows as a file. */
async function csv(rows) {
  const plain = (text) => (COMPUTED.test(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const parts = [], cell = (each) => (typeof each === "string" ? quoted(plain(each)) : each);
  let lines = [];
  const pack = () => { parts.push(new Blob(lines)); lines = []; };
  for (const row of rows) {
    lines.push(`${row.map(cell).join(",")}\n`);
    if (lines.length < SLICE) continue;
    pack();
    await rest();
  }
  pack();
  return new Blob(parts, { type: "text/csv" });
}

/** An SVG document as a PNG, three pixels for each of its own as long as that stays printable. */
async function raster(text, { width, height }) {
  const image = new Image(), factor = Math.min(3, 6000 / Math.max(width, height));
  image.src = URL.createObjectURL(text);
  await image.decode();
  const sheet = canvas("", Math.round(width * factor), Math.round(height * factor));
  sheet.getContext("2d").drawImage(image, 0, 0, sheet.width, sheet.height); // at once: strips would differ where they meet
  await rest();
  URL.revokeObjectURL(image.src);
  return new Promise((ready) => { sheet.toBlob(ready, "image/png"); });
}

/**
 * A copy of the card, out of sight, as it would be in light colours, wide enough for its columns and without what is there
 * to be pressed, and what is drawn on its canvases. The card itself is as it was when the page is painted next.
 */
async function printed(view) {
  while (view.printing) await frame(); // PNG was pressed with SVG
  const { root } = view, place = root.parentElement, strokes = new Map(), heading = make("p", { class: "attnx-title" }, view.name);
  place.style.minHeight = `${place.offsetHeight}px`; // the page around stays where it is
  const back = widened(view, clamp(view.columns * CELL + 180, 1000, 2800));
  root.classList.add("attnx-print");
  root.prepend(heading);
  try {
    recording((target) => {
      strokes.set(target, new SvgPen());
      return strokes.get(target);
    }, () => view.paint());
    return copied(root, strokes);
  } finally {
    await frame(); // a slice of its own, and still before the page is painted
    heading.remove();
    root.classList.remove("attnx-print");
    place.style.minHeight = "";
    back(() => recording(() => new SvgPen(), () => view.paint())); // its canvases have what they had: to draw them anew can wait
    await rest();
    view.paint();
  }
}

/** Gives a card a width, light colours and cells as large as they are without zoom. What is returned takes that back, and has it painted. */
function widened(view, width) {
  const { root, zoom } = view, style = root.getAttribute("style") ?? "";
  const scrolled = [...root.querySelectorAll("*")].filter((node) => node.scrollLeft || node.scrollTop).map((node) => [node, node.scrollLeft, node.scrollTop]);
  root.style.width = `${width}px`;
  Object.assign(view, { printing: true, zoom: 0 });
  return (paint) => {
    Object.assign(view, { printing: false, zoom });
    root.setAttribute("style", style);
    paint();
    for (const [node, left, top] of scrolled) Object.assign(node, { scrollLeft: left, scrollTop: top });
  };
}

/** A canvas as fine as paper, and a pen on it. Chromium prints strokes, not pixels: what is cleared would be white, over what lies below. */
function fine(target, width, height) {
  Object.assign(target, { width: 3 * width, height: 3 * height });
  const pen = target.getContext("2d");
  pen.scale(3, 3);
  return pen;
}

/** While the page is printed, a card is as wide as paper: its canvases keep the pixels that they have. Returns how to stop. */
export function fitPaper(view) {
  const stopper = new AbortController(), { signal } = stopper;
  let back = null;
  addEventListener("beforeprint", () => {
    if (view.printing || matchMedia("print").matches) return; // it is laid out for paper
    back = widened(view, PAPER);
    recording(fine, () => view.paint());
  }, { signal });
  addEventListener("afterprint", () => {
    back?.(() => view.paint());
    back = null;
  }, { signal });
  return () => stopper.abort();
}

/** A copy of a card, and by its canvases what was drawn there: a clone has neither that nor what was chosen. */
function copied(root, strokes) {
  const copy = root.cloneNode(true), drawn = new Map(), copies = copy.querySelectorAll("canvas, select");
  root.querySelectorAll("canvas, select").forEach((node, i) => {
    if (node instanceof HTMLSelectElement) copies[i].selectedIndex = node.selectedIndex;
    else drawn.set(copies[i], strokes.get(node)?.drawn ?? shape("image", { preserveAspectRatio: "none", href: node.toDataURL() }));
  });
  return { copy, drawn };
}

function drawing(root, drawn, title) {
  const from = root.getBoundingClientRect(), width = Math.max(root.scrollWidth, from.width), height = Math.max(root.scrollHeight, from.height);
  const sheet = shape("svg", { height }), pen = new SvgPen();
  sheet.inside.push(shape("title", {}, title), shape("rect", { width, height, fill: getComputedStyle(root).backgroundColor }));
  const placed = ({ left, top, width, height }, more = 0) => ({ x: left - from.left - more, y: top - from.top - more, width: width + 2 * more, height: height + 2 * more });
  let right = 0; // where what is drawn ends: beyond it stays nothing blank
  const reach = (rect) => { right = Math.max(right, rect.right - from.left); };

  const box = (node, style, group) => {
    const at = node.getBoundingClientRect(), { x, y, width: w, height: h } = placed(at), rx = parseFloat(style.borderTopLeftRadius) || "", before = group.inside.length;
    if (!/^rgba\(.*, 0\)$/.test(style.backgroundColor)) group.inside.push(shape("rect", { ...placed(at), rx, fill: style.backgroundColor }));
    const wide = ["Top", "Right", "Bottom", "Left"].map((side) => parseFloat(style[`border${side}Width`])), stroke = style.borderTopColor;
    if (wide.every(Boolean)) group.inside.push(shape("rect", { ...placed(at, -wide[0] / 2), rx, fill: "none", stroke, "stroke-width": wide[0] }));
    else if (wide[2]) group.inside.push(shape("path", { d: `M${x} ${y + h}h${w}`, stroke: style.borderBottomColor }));
    const around = [/^(rgb\([^)]*\)) 0px 0px 0px ([\d.]+)px/.exec(style.boxShadow)].filter(Boolean).map(([, colour, spread]) => [colour, Number(spread), 0]);
    if (style.outlineStyle === "solid") around.push([style.outlineColor, parseFloat(style.outlineWidth), parseFloat(style.outlineOffset)]);
    for (const [colour, spread, off] of around) group.inside.push(shape("rect", { ...placed(at, off + spread / 2), rx, fill: "none", stroke: colour, "stroke-width": spread }));
    if (group.inside.length > before) reach(at);
  };

  const write = (text, rect, style, group, exact = true) => {
    pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const { x, y } = placed(rect), { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = pen.measureText(text);
    Object.assign(pen, { fillStyle: style.color });
    const written = pen.fillText(text, x, y + (rect.height - up - down) / 2 + up), line = style.textDecorationLine;
    const fitted = exact ? { textLength: rect.width.toFixed(2), lengthAdjust: "spacingAndGlyphs" } : {}; // whatever font is there
    Object.assign(written.attributes, { style: "white-space: pre", ...fitted, ...(line === "none" ? {} : { "text-decoration": line }) });
    group.inside.push(written);
    reach(rect);
  };

  /** A text that breaks is as many texts as it has lines. */
  const lines = (node) => {
    const range = document.createRange(), found = [];
    range.selectNodeContents(node);
    if (range.getClientRects().length < 2) return [[node.data, range.getBoundingClientRect()]];
    let at = 0;
    for (const letter of node.data) {
      range.setStart(node, at);
      range.setEnd(node, (at += letter.length));
      const rect = range.getBoundingClientRect(), [before, first] = found.at(-1) ?? [];
      if (!rect.width) continue;
      if (first && Math.abs(first.top - rect.top) < 2) found[found.length - 1] = [before + letter, new DOMRect(first.left, first.top, rect.right - first.left, first.height)];
      else found.push([letter, rect]);
    }
    return found;
  };

  const walk = (node, style, group) => {
    if (node instanceof Text) {
      for (const [text, rect] of lines(node)) if (rect.width && text.trim()) write(text, rect, style, group);
      return;
    }
    if (!(node instanceof Element) || node.classList.contains("attnx-hidden")) return;
    const own = getComputedStyle(node), at = node.getBoundingClientRect();
    if (own.display === "none" || own.visibility === "hidden") return;
    const inner = own.opacity < 1 ? shape("g", { opacity: Number(own.opacity) }) : group;
    if (inner !== group) group.inside.push(inner);
    if (node !== root && own.display !== "contents") box(node, own, inner);
    if (node instanceof HTMLSelectElement) return write(node.selectedOptions[0]?.text ?? "", new DOMRect(at.left + 8, at.top, at.width, at.height), own, inner, false);
    if (node instanceof HTMLCanvasElement) {
      const { x, y, width: w, height: h } = placed(at), { tag, attributes } = drawn.get(node);
      Object.assign(attributes, tag === "image" ? { x, y, width: w, height: h } : { transform: `translate(${x} ${y})` });
      reach(at);
      return void (w && h && inner.inside.push(drawn.get(node)));
    }
    for (const child of node.childNodes) walk(child, own, inner);
  };
  walk(root, getComputedStyle(root), sheet);
  const wide = Math.ceil(Math.min(right + 16, width));
  return Object.assign(sheet, { attributes: { height, width: wide, viewBox: `0 0 ${wide} ${height}` } });
}
