// Saving: what an explorer shows, as a picture in light colours or as numbers. The picture is the page's own: every
// text, box and canvas of the card where the page has laid it out, a canvas by the strokes that were drawn on it.
//
// May be touched for: how what is in a page becomes SVG, and what a file is called.

import { canvas, clamp, download, make, recording } from "./common.js";
import { svg, SvgPen } from "./svg_pen.js";
import "./saving.css";

const CELL = 13; // pixels of a column, where the picture can be so wide

/** Saves what a view shows as "svg", "png" or "csv", under what it is called. */
export function save(view, kind) {
  const name = `${[...view.name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")].slice(0, 80).join("")}.${kind}`;
  if (kind === "csv") return download(new Blob(csv(view.numbers()), { type: "text/csv" }), name);
  const picture = printed(view), text = new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
  if (kind === "svg") download(text, name);
  else rasterise(text, picture, name);
}

/** Rows as the parts of a file: a text alone may not be as long as all of them. */
function csv(rows) {
  const parts = [""], cell = (each) => (typeof each === "string" && /[",\r\n]/.test(each) ? `"${each.replaceAll('"', '""')}"` : each);
  for (const row of rows) {
    if (parts.at(-1).length > 1e6) parts.push("");
    parts[parts.length - 1] += `${row.map(cell).join(",")}\n`;
  }
  return parts;
}

/** An SVG document as a PNG, three pixels for each of its own as long as that stays printable. */
function rasterise(text, picture, name) {
  const [width, height] = ["width", "height"].map((side) => Number(picture.getAttribute(side)));
  const image = new Image(), factor = Math.min(3, 6000 / Math.max(width, height));
  image.onload = () => {
    const sheet = canvas("", Math.round(width * factor), Math.round(height * factor));
    sheet.getContext("2d").drawImage(image, 0, 0, sheet.width, sheet.height);
    URL.revokeObjectURL(image.src);
    sheet.toBlob((png) => download(png, name), "image/png");
  };
  image.src = URL.createObjectURL(text);
}

/** The card as it would be in light colours, wide enough for its columns and without what is there to be pressed. */
function printed(view) {
  const { root, zoom } = view, place = root.parentElement, style = root.getAttribute("style") ?? "", strokes = new Map();
  const scrolled = [...root.querySelectorAll("*")].filter((node) => node.scrollLeft || node.scrollTop).map((node) => [node, node.scrollLeft, node.scrollTop]);
  const heading = make("p", { class: "attnx-title" }, view.name), width = clamp(view.columns * CELL + 180, 1000, 2800);
  place.style.minHeight = `${place.offsetHeight}px`; // the page around stays where it is
  root.classList.add("attnx-print");
  root.style.width = `${width}px`;
  root.prepend(heading);
  Object.assign(view, { printing: true, zoom: 0 });
  try {
    recording((target) => {
      strokes.set(target, new SvgPen());
      return strokes.get(target);
    }, () => view.paint());
    return drawing(root, strokes, view.name);
  } finally {
    Object.assign(view, { printing: false, zoom });
    heading.remove();
    root.setAttribute("style", style);
    root.classList.remove("attnx-print");
    place.style.minHeight = "";
    view.paint();
    for (const [node, left, top] of scrolled) Object.assign(node, { scrollLeft: left, scrollTop: top });
  }
}

function drawing(root, strokes, title) {
  const from = root.getBoundingClientRect(), width = Math.max(root.scrollWidth, from.width), height = Math.max(root.scrollHeight, from.height);
  const sheet = svg("svg", { height });
  sheet.append(svg("title", {}, title), svg("rect", { width, height, fill: getComputedStyle(root).backgroundColor }));
  const placed = ({ left, top, width, height }, more = 0) => ({ x: left - from.left - more, y: top - from.top - more, width: width + 2 * more, height: height + 2 * more });
  let right = 0; // where what is drawn ends: beyond it stays nothing blank
  const reach = (rect) => { right = Math.max(right, rect.right - from.left); };

  const box = (node, style, group) => {
    const at = node.getBoundingClientRect(), { x, y, width: w, height: h } = placed(at), rx = parseFloat(style.borderTopLeftRadius) || "", before = group.childElementCount;
    if (!/^rgba\(.*, 0\)$/.test(style.backgroundColor)) group.append(svg("rect", { ...placed(at), rx, fill: style.backgroundColor }));
    const wide = ["Top", "Right", "Bottom", "Left"].map((side) => parseFloat(style[`border${side}Width`])), stroke = style.borderTopColor;
    if (wide.every(Boolean)) group.append(svg("rect", { ...placed(at, -wide[0] / 2), rx, fill: "none", stroke, "stroke-width": wide[0] }));
    else if (wide[2]) group.append(svg("path", { d: `M${x} ${y + h}h${w}`, stroke: style.borderBottomColor }));
    const around = [/^(rgb\([^)]*\)) 0px 0px 0px ([\d.]+)px/.exec(style.boxShadow)].filter(Boolean).map(([, colour, spread]) => [colour, Number(spread), 0]);
    if (style.outlineStyle === "solid") around.push([style.outlineColor, parseFloat(style.outlineWidth), parseFloat(style.outlineOffset)]);
    for (const [colour, spread, off] of around) group.append(svg("rect", { ...placed(at, off + spread / 2), rx, fill: "none", stroke: colour, "stroke-width": spread }));
    if (group.childElementCount > before) reach(at);
  };

  const write = (text, rect, style, group, exact = true) => {
    const pen = new SvgPen();
    pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const { x, y } = placed(rect), { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = pen.measureText(text);
    Object.assign(pen, { fillStyle: style.color });
    pen.fillText(text, x, y + (rect.height - up - down) / 2 + up);
    const node = pen.node.firstChild, line = style.textDecorationLine;
    const fitted = exact ? { textLength: rect.width.toFixed(2), lengthAdjust: "spacingAndGlyphs" } : {}; // whatever font is there
    const more = { style: "white-space: pre", ...fitted, ...(line === "none" ? {} : { "text-decoration": line }) };
    for (const [name, value] of Object.entries(more)) node.setAttribute(name, value);
    group.append(node);
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
    const inner = own.opacity < 1 ? group.appendChild(svg("g", { opacity: Number(own.opacity) })) : group;
    if (node !== root && own.display !== "contents") box(node, own, inner);
    if (node instanceof HTMLSelectElement) return write(node.selectedOptions[0]?.text ?? "", new DOMRect(at.left + 8, at.top, at.width, at.height), own, inner, false);
    if (node instanceof HTMLCanvasElement) {
      const { x, y, width: w, height: h } = placed(at), drawn = strokes.get(node)?.node;
      drawn?.setAttribute("transform", `translate(${x} ${y})`);
      reach(at);
      return void (w && h && inner.append(drawn ?? svg("image", { x, y, width: w, height: h, preserveAspectRatio: "none", href: node.toDataURL() })));
    }
    for (const child of node.childNodes) walk(child, own, inner);
  };
  walk(root, getComputedStyle(root), sheet);
  const wide = Math.ceil(Math.min(right + 16, width));
  sheet.setAttribute("width", wide);
  sheet.setAttribute("viewBox", `0 0 ${wide} ${height}`);
  return sheet;
}
