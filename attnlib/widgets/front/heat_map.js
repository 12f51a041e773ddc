// HeatMap: queries by keys with labels on both axes, a transparent canvas above for what is in focus, a colour
// scale below. It knows sizes and pixels; what the numbers mean is its owner's business.
//
// May be touched for: cells, labels, legend, and how they are saved.

import { canvas, clamp, download, fit, FONT, make, rasterise, surface, tick } from "./common.js";
import { bitmap, colourOf, css, THEMES } from "./themes.js";
import "./heat_map.css";

export class HeatMap {
  /**
   * `react` holds what the owner does: hover({q, k} or null), pick({q, k}) and key(event). k is -1 where only
   * a row is meant. The values are weights unless `measure` says what else. `axes` names what is across and down.
   */
  constructor(react, axes = ["key →", "query ↓"]) {
    this.react = react;
    this.cells = canvas("attnx-map", 0, 0);
    this.overlay = canvas("attnx-overlay", 0, 0);
    this.rowLabels = canvas("attnx-rows", 0, 0);
    this.columnLabels = canvas("attnx-columns", 0, 0);
    this.corner = make("div", { class: "attnx-corner", "aria-hidden": "true" },
      ...axes.map((name) => make("span", {}, name)));
    this.stage = make("div", { class: "attnx-stage", tabindex: "0", role: "application",
      "aria-roledescription": "heat map", keydown: react.key,
      pointermove: (event) => react.hover(this.at(event)), pointerleave: () => react.hover(null),
      click: (event) => { const place = this.at(event); if (place) react.pick(place); } },
      this.corner, this.columnLabels, this.rowLabels, make("div", { class: "attnx-cells" }, this.cells, this.overlay));
    this.tip = make("div", { class: "attnx-tip", "aria-hidden": "true", hidden: "" });
    this.bar = canvas("attnx-bar", 256, 1);
    this.ticks = make("div", { class: "attnx-ticks" });
    this.caption = make("p", { class: "attnx-caption" });
    this.measureName = make("span", {});
    this.legend = make("div", { class: "attnx-legend", role: "img" }, this.measureName, make("div", {}, this.bar, this.ticks));
    this.frame = make("div", { class: "attnx-frame" }, this.stage, this.tip);
    this.node = make("div", { class: "attnx-panel attnx-wide" }, this.caption, this.frame, this.legend);
    this.measure("weight");
  }

  /** Says below the map what a value is: one weight, share or ratio, or a score by its name. */
  measure(name, several = `the ${name}s`) {
    this.measureName.textContent = name;
    this.legend.setAttribute("aria-label", `Colour scale of ${several}, square root`);
  }

  /** Chooses the size of a cell for a width, of the panel alone and beside other things `taken` wide. */
  arrange({ queries, keys }, width, taken, rows = queries.length) {
    const pen = this.rowLabels.getContext("2d");
    pen.font = `12px ${FONT}`;
    const widest = (tokens) => Math.ceil(Math.max(...tokens.map((token) => pen.measureText(token).width)));
    const most = width < 480 ? 72 : 110;
    this.left = clamp(widest(queries) + 12, 56, most);
    const raw = (room) => Math.min((room - this.left - 2) / keys.length, 36);
    const beside = raw(width - taken) >= Math.min(raw(width), 12);
    // Square cells of whole pixels; a tall map is kept to about one screen as long as its rows can be read.
    this.cell = clamp(Math.floor(raw(beside ? width - taken : width)), 5, Math.max(12, Math.floor(600 / rows)));
    this.size = clamp(Math.floor(this.cell * 0.8), 10, 13);
    this.step = Math.ceil((this.size + 1) / this.cell);
    const keysWidth = (widest(keys) * this.size) / 12;
    this.upright = keysWidth <= this.cell * this.step - 3;
    this.above = clamp(this.upright ? this.size + 10 : keysWidth + 12, 34, most);
    Object.assign(this.corner.style, { width: `${this.left}px`, height: `${this.above}px` });
    return beside;
  }

  /** `view`: values [query key] in one array, top (the weight of the last colour), signed, reference, queries, keys. */
  draw(view, theme) {
    Object.assign(this, { view, theme, width: view.keys.length * this.cell, height: view.queries.length * this.cell });
    const { cell, width, height } = this, pen = surface(this.cells, width, height);
    const [rows, columns] = [view.queries.length, view.keys.length];
    pen.imageSmoothingEnabled = false;
    pen.drawImage(bitmap(view.values, rows, columns, view.top, theme), 0, 0, width, height);
    if (cell >= 14) { // hair lines make large cells countable
      pen.fillStyle = theme.surface;
      for (let k = 1; k < columns; k++) pen.fillRect(k * cell - 0.5, 0, 1, height);
      for (let q = 1; q < rows; q++) pen.fillRect(0, q * cell - 0.5, width, 1);
    }
    if (view.reference) this.drawReference(pen, outline(view.reference, rows, columns));
    const scale = this.bar.getContext("2d");
    const part = (place) => (view.signed ? 2 * place - 1 : place), value = (place) => part(place) * Math.abs(part(place)) * view.top;
    for (let step = 0; step < 256; step++) { scale.fillStyle = css(colourOf(value(step / 255), view.top, theme)); scale.fillRect(step, 0, 1, 1); }
    this.ticks.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((place) =>
      make("span", { style: `left: ${100 * place}%` }, tick(value(place)).replace("-", "−"))));
  }

  drawReference(pen, lines) {
    const { cell, width, height, theme } = this, thick = cell >= 12 ? 2 : 1.25;
    const inside = (at, end) => clamp(at * cell, 1, end - 1); // on the rim, half of the line would be cut off
    pen.beginPath();
    for (const [x1, y1, x2, y2] of lines) {
      pen.moveTo(inside(x1, width), inside(y1, height));
      pen.lineTo(inside(x2, width), inside(y2, height));
    }
    pen.lineCap = "round";
    for (const [colour, wide, alpha] of [[theme.surface, thick + 2, 0.75], [theme.reference, thick, 1]]) {
      Object.assign(pen, { strokeStyle: colour, lineWidth: wide, globalAlpha: alpha });
      pen.stroke();
    }
  }

  /** Marks row q and key k (-1: none), with a tip above the cell if there is something to say. */
  focus(q, k, tip = "") {
    const { cell, width, height, theme } = this, pen = surface(this.overlay, width, height);
    Object.assign(pen, { strokeStyle: theme.ink, lineWidth: 2 });
    if (q >= 0) {
      const [from, to] = [Math.max(q * cell - 1, 1), Math.min((q + 1) * cell + 1, height - 1)];
      pen.strokeRect(1, from, width - 2, to - from);
    }
    if (k >= 0) {
      pen.globalAlpha = 0.4;
      pen.strokeRect(k * cell, 0, cell, height);
      Object.assign(pen, { globalAlpha: 1, lineWidth: 3 });
      pen.strokeRect(k * cell, q * cell, cell, cell);
    }
    this.drawLabels(q, k);
    this.tip.hidden = !tip;
    this.tip.textContent = tip;
    if (!tip) return;
    const { stage, above } = this, y = above + q * cell - stage.scrollTop;
    const x = this.left + (k + 0.5) * cell - stage.scrollLeft - this.tip.offsetWidth / 2;
    const room = this.node.clientWidth - this.tip.offsetWidth; // the tip leaves the row labels free where it can
    this.tip.style.left = `${clamp(x, clamp(room, 0, this.left), Math.max(room, 0))}px`;
    this.tip.style.top = y - 34 > above - 12 ? `${y - 34}px` : `${y + cell + 8}px`; // not over the labels
  }

  drawLabels(q, k) {
    const { view, cell, theme, step, left, above, upright, size } = this;
    // A thinned axis leaves room around the label in focus.
    const shown = (i, chosen) => i === chosen || (i % step === 0 && (chosen < 0 || Math.abs(i - chosen) >= step));
    const dress = (pen, chosen) => {
      pen.font = `${chosen ? "700 " : ""}${size}px ${FONT}`;
      pen.fillStyle = chosen ? theme.ink : theme.faint;
    };
    const rows = surface(this.rowLabels, left, this.height);
    Object.assign(rows, { textAlign: "right", textBaseline: "middle" });
    view.queries.forEach((token, i) => {
      if (!shown(i, q)) return;
      dress(rows, i === q);
      rows.fillText(fit(rows, token, left - 8), left - 6, clamp((i + 0.5) * cell, size / 2, this.height - size / 2));
    });
    const columns = surface(this.columnLabels, this.width, above);
    Object.assign(columns, { textAlign: upright ? "center" : "left", textBaseline: "middle" });
    view.keys.forEach((token, i) => {
      if (!shown(i, k)) return;
      dress(columns, i === k);
      columns.save();
      const half = (upright ? columns.measureText(token).width : size) / 2; // at the rim of small cells
      columns.translate(clamp((i + 0.5) * cell, half, this.width - half), above - (upright ? size / 2 + 4 : 6));
      if (!upright) columns.rotate(-Math.PI / 2);
      columns.fillText(upright ? token : fit(columns, token, above - 8), 0, 0);
      columns.restore();
    });
  }

  /** The cell under the pointer, a row alone where it is over the row's label, or null. */
  at(event) {
    const box = this.overlay.getBoundingClientRect(), { view, cell } = this;
    if (event.target !== this.overlay && event.target !== this.rowLabels) return null;
    const q = Math.floor((event.clientY - box.top) / cell), k = Math.floor((event.clientX - box.left) / cell);
    if (q < 0 || q >= view.queries.length) return null;
    return { q, k: event.target === this.rowLabels ? -1 : clamp(k, 0, view.keys.length - 1) };
  }

  /** Scrolls a long map so that row q and key k (-1: any) are seen beside the labels, which stay. */
  reveal(q, k) {
    const { stage, cell } = this;
    const near = (now, i, room) => clamp(now, (i + 1) * cell - room, Math.max(i * cell, (i + 1) * cell - room));
    if (q >= 0) stage.scrollTop = near(stage.scrollTop, q, stage.clientHeight - this.above);
    if (k >= 0) stage.scrollLeft = near(stage.scrollLeft, k, stage.clientWidth - this.left);
  }
}

/** Borders between reference cells and others, as lines [x1, y1, x2, y2] in cells. */
function outline(cells, rows, columns) {
  const at = (q, k) => q >= 0 && k >= 0 && q < rows && k < columns && cells[q * columns + k];
  const lines = [];
  for (let q = 0; q <= rows; q++) {
    for (let k = 0; k <= columns; k++) {
      if (!at(q, k) !== !at(q - 1, k)) lines.push([k, q, k + 1, q]);
      if (!at(q, k) !== !at(q, k - 1)) lines.push([k, q, k, q + 1]);
    }
  }
  return lines;
}

/** The view as an SVG document: light colours, one rectangle per cell (a picture beyond 10,000 cells). */
function drawing(view) {
  const { queries, keys, values, top, reference, title } = view, theme = THEMES.light, cell = 16, size = 11;
  const rows = queries.length, columns = keys.length;
  const svg = (tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const room = (tokens) => 12 + 0.62 * size * Math.max(...tokens.map((token) => [...token].length));
  const left = Math.max(room(queries), 30), above = 28 + room(keys);
  const width = Math.max(left + columns * cell + 10, 10 + 8 * title.length, 340), bottom = above + rows * cell;
  const root = svg("svg", { width, height: bottom + 48, "font-size": size,
    viewBox: `0 0 ${width} ${bottom + 48}`, "font-family": FONT, fill: theme.ink });
  root.append(svg("title", {}, title), svg("rect", { width, height: bottom + 48, fill: theme.surface }),
    svg("text", { x: 10, y: 18, "font-size": 13, "font-weight": 600 }, title));
  const map = svg("g", { transform: `translate(${left} ${above})` });
  map.append(svg("rect", { width: columns * cell, height: rows * cell, fill: css(theme.lut[0]), stroke: theme.line }));
  if (rows * columns > 10000) {
    map.append(svg("image", { width: columns * cell, height: rows * cell, preserveAspectRatio: "none",
      style: "image-rendering: pixelated", href: bitmap(values, rows, columns, top, theme).toDataURL() }));
  } else {
    values.forEach((weight, i) => weight && map.append(svg("rect", { width: cell, height: cell,
      x: (i % columns) * cell, y: Math.floor(i / columns) * cell, fill: css(colourOf(weight, top, theme)) })));
  }
  if (reference) {
    const path = outline(reference, rows, columns).map((line) => line.map((at) => at * cell))
      .map(([x1, y1, x2, y2]) => `M${x1} ${y1}L${x2} ${y2}`).join("");
    map.append(svg("path", { d: path, stroke: theme.reference, "stroke-width": 2, "stroke-linecap": "round" }));
  }
  queries.forEach((token, q) => map.append(
    svg("text", { x: -6, y: (q + 0.5) * cell + 4, "text-anchor": "end" }, token)));
  keys.forEach((token, k) => map.append(
    svg("text", { transform: `translate(${(k + 0.5) * cell + 4} -6) rotate(-90)` }, token)));
  const scale = svg("g", { transform: `translate(${left} ${bottom + 14})` });
  for (let i = 0; i < 64; i++) scale.append(svg("rect", { x: i * 3, width: 3.2, height: 8, fill: css(theme.lut[i * 4 + 3]) }));
  for (const part of [0, 0.5, 1]) scale.append(svg("text", { x: part * 192, y: 21, "font-size": 10,
    "text-anchor": part ? (part < 1 ? "middle" : "end") : "start" }, tick(part * part * top)));
  root.append(map, scale);
  return { text: new XMLSerializer().serializeToString(root), width, height: bottom + 48 };
}

/** Saves what a heat map shows as "svg" or "png", under its title. */
export function savePicture(view, kind) {
  const picture = drawing(view), name = `${view.title.replace(/[^\p{L}\p{N}]+/gu, "-")}.${kind}`;
  if (kind === "svg") download(new Blob([picture.text], { type: "image/svg+xml" }), name);
  else rasterise(picture, name);
}
