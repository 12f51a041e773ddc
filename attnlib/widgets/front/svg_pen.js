// SvgPen: takes the strokes that a canvas would take, and keeps them as shapes, of which SVG is made when there is time.
//
// May be touched for: a further stroke that a picture is made of.

import { canvas, rest } from "./common.js";

const ELEMENTS = 1000; // elements that are made at once
const rounded = (place) => Math.round(100 * place) / 100;

/** What is to be an element of SVG, with the shapes inside; a canvas among its attributes is written as its data. */
export const shape = (tag, attributes = {}, text = "") => ({ tag, attributes, text, inside: [] });

/** The element of a shape, with all inside, as text. The page has its turn after every slice of them. */
export async function svg(whole) {
  let made = 0;
  const elementOf = async ({ tag, attributes, text, inside }) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === "" || value === null) continue;
      const written = value instanceof HTMLCanvasElement ? await dataOf(value) : typeof value === "number" ? rounded(value) : value;
      node.setAttribute(name, written);
    }
    if (text) node.textContent = text;
    if (++made % ELEMENTS === 0) await rest();
    for (const each of inside) node.append(await elementOf(each));
    return node;
  };
  return new XMLSerializer().serializeToString(await elementOf(whole));
}

/** What `toDataURL` says, which would hold the page while it packs. */
const dataOf = (picture) => new Promise((ready) => {
  const reader = new FileReader();
  reader.onload = () => ready(reader.result);
  picture.toBlob((blob) => reader.readAsDataURL(blob));
});

let ruler = null;

/** A context to measure a text in a font with. */
function rulerOf(font) {
  ruler ??= { font: "", pen: canvas("", 0, 0).getContext("2d") };
  if (ruler.font !== font) ruler.font = ruler.pen.font = font;
  return ruler.pen;
}

const ANCHORS = { right: "end", center: "middle" }, DROPS = { middle: 0.35, top: 0.8 }; // of a letter's size
const MOST_CELLS = 10000; // a picture of more cells stays pixels

export class SvgPen {
  constructor() {
    const start = { fillStyle: "currentColor", strokeStyle: "currentColor", globalAlpha: 1, lineWidth: 1, lineCap: "", lineJoin: "", font: "", textAlign: "", textBaseline: "" };
    Object.assign(this, start, { drawn: shape("g"), path: "", dash: "", moved: "", kept: [] });
  }

  put(tag, attributes, text) {
    const put = shape(tag, { ...attributes, transform: this.moved, opacity: this.globalAlpha < 1 ? this.globalAlpha : "" }, text);
    this.drawn.inside.push(put);
    return put;
  }
  get ink() {
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-dasharray": this.dash,
      "stroke-linecap": this.lineCap, "stroke-linejoin": this.lineJoin };
  }

  save() { this.kept.push(this.moved); }
  restore() { this.moved = this.kept.pop(); }
  translate(x, y) { this.moved += `translate(${x} ${y})`; }
  rotate(angle) { this.moved += `rotate(${(angle * 180) / Math.PI})`; }
  setLineDash(parts) { this.dash = parts.join(" "); }

  beginPath() { this.path = ""; }
  to(letter, ...places) { this.path += letter + places.map(rounded).join(" "); }
  moveTo(x, y) { this.to("M", x, y); }
  lineTo(x, y) { this.to(this.path ? "L" : "M", x, y); }
  bezierCurveTo(...places) { this.to("C", ...places); }
  arc(x, y, r) { // a whole circle
    this.to("M", x - r, y);
    for (const way of [2 * r, -2 * r]) this.to("a", r, r, 0, 1, 0, way, 0);
  }
  stroke() { this.put("path", { d: this.path, ...this.ink }); }
  fill() { this.put("path", { d: this.path, fill: this.fillStyle }); }

  fillRect(x, y, width, height) { this.put("rect", { x, y, width, height, fill: this.fillStyle }); }
  strokeRect(x, y, width, height) { this.put("rect", { x, y, width, height, ...this.ink }); }

  measureText(text) { return rulerOf(this.font).measureText(text); }
  fillText(text, x, y) {
    const [, weight = "", size, family] = /^(?:(\d+) )?([\d.]+)px (.*)$/.exec(this.font);
    return this.put("text", { x, y: y + (DROPS[this.textBaseline] ?? 0) * size, fill: this.fillStyle, "text-anchor": ANCHORS[this.textAlign] ?? "",
      "font-size": Number(size), "font-weight": weight, "font-family": family }, text);
  }

  /** Cells as squares, which stay sharp wherever they are read: a path of all that have a colour, or they would be thousands of elements. */
  drawImage(picture, x, y, width, height) {
    const { width: columns, height: rows } = picture, [wide, high] = [width / columns, height / rows];
    if (wide < 3 || columns * rows > MOST_CELLS) {
      return this.put("image", { x, y, width, height, preserveAspectRatio: "none", style: "image-rendering: pixelated", href: picture });
    }
    const { data } = picture.getContext("2d").getImageData(0, 0, columns, rows), paths = new Map();
    const square = `h${rounded(wide)}v${rounded(high)}h${rounded(-wide)}z`;
    for (let i = 0; i < columns * rows; i++) {
      const colour = data.subarray(4 * i, 4 * i + 3).join(), at = [x + (i % columns) * wide, y + Math.floor(i / columns) * high];
      if (colour !== "255,255,255") paths.set(colour, `${paths.get(colour) ?? ""}M${at.map(rounded).join(" ")}${square}`);
    }
    for (const [colour, d] of paths) this.put("path", { d, fill: `rgb(${colour})` });
  }
}
