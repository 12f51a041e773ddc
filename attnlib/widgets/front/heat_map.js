// HeatMap: queries by keys with labels on both axes, a transparent canvas above for what is in focus, a colour
// scale below. It knows sizes and pixels; what the numbers mean is its owner's business.
//
// A map that is larger than its frame is scrolled there, and only what the frame shows is drawn; above it stands a
// small picture of the whole, with a window to move, and buttons that make the cells larger or smaller.
//
// May be touched for: cells, labels, legend, zoom.

import { canvas, clamp, fit, FONT, foreign, isolated, make, smallButton, surface, tick } from "./common.js";
import { bitmap, shrunk } from "./themes.js";
import "./heat_map.css";

const LEGIBLE = 13, CLOSE = 6; // pixels of a cell: from which every label is there, and from which it can do without zoom
const SCALE = 220; // pixels that a colour scale needs with its numbers

export class HeatMap {
  /**
   * `react` holds what the owner does: hover({q, k} or null), pick({q, k}), key(event) and zoom(step). k is -1 where only
   * a row is meant. The values are weights unless `measure` says what else. `axes` names what is across and down.
   */
  constructor(react, axes = ["key →", "query ↓"]) {
    this.react = react;
    this.widths = new WeakMap(); // of the widest of some tokens
    this.cells = canvas("attnx-map", 0, 0);
    this.overlay = canvas("attnx-overlay", 0, 0);
    this.rowLabels = canvas("attnx-rows", 0, 0);
    this.columnLabels = canvas("attnx-columns", 0, 0);
    this.corner = make("div", { class: "attnx-corner", "aria-hidden": "true" },
      ...axes.map((name) => make("span", {}, name)));
    this.part = make("div", { class: "attnx-part" }, this.cells, this.overlay);
    this.field = make("div", { class: "attnx-cells" }, this.part);
    this.stage = make("div", { class: "attnx-stage", tabindex: "0", role: "application",
      "aria-roledescription": "heat map", keydown: (event) => this.onKey(event), scroll: () => { if (this.view) this.drawPart(); },
      pointermove: (event) => react.hover(this.at(event)), pointerleave: () => react.hover(null),
      click: (event) => { const place = this.at(event); if (place) react.pick(place); } },
      this.corner, this.columnLabels, this.rowLabels, this.field);
    this.tip = make("div", { class: "attnx-tip", "aria-hidden": "true", hidden: "" });
    this.bar = canvas("attnx-bar", 256, 1);
    this.ticks = make("div", { class: "attnx-ticks" });
    this.caption = make("p", { class: "attnx-caption" });
    this.measureName = make("span", {});
    this.legend = make("div", { class: "attnx-legend", role: "img" }, this.measureName, make("div", {}, this.bar, this.ticks));
    this.frame = make("div", { class: "attnx-frame" }, this.stage, this.tip);
    const drag = (event) => { if (event.type === "pointerdown" || event.buttons & 1) this.centre(event); };
    this.overview = canvas("", 0, 0);
    this.window = make("div", { class: "attnx-window" });
    this.whole = make("div", { class: "attnx-overview", "aria-hidden": "true", title: "The whole map; drag to move the part shown", pointerdown: drag, pointermove: drag },
      this.overview, this.window);
    const zoom = (step) => { react.zoom(step); if (this.zoomer.hidden) this.stage.focus(); }; // which has keys for it
    const zoomer = (sign, step, name) => smallButton(() => zoom(step), sign, { "aria-label": name, title: `${name} (${sign})` });
    this.zoomer = make("div", { class: "attnx-zoom", hidden: "" }, this.whole, zoomer("−", -1, "Smaller cells"), zoomer("+", 1, "Larger cells"));
    this.node = make("div", { class: "attnx-panel attnx-wide" }, this.caption, this.zoomer, this.frame, this.legend);
    this.measure("weight");
  }

  /** Says below the map what a value is: one weight, share or ratio, or a score by its name. */
  measure(name, several = `the ${name}s`) {
    this.measureName.textContent = name;
    this.legend.setAttribute("aria-label", `Colour scale of ${several}, square root`);
  }

  /** Chooses the size of a cell for a width, of the panel alone and beside other things `taken` wide, and steps of zoom. */
  arrange({ queries, keys }, width, taken, zoom, rows = queries.length) {
    const widest = (tokens) => {
      if (!this.widths.has(tokens)) {
        const pen = this.rowLabels.getContext("2d");
        pen.font = `13px ${FONT}`;
        this.widths.set(tokens, Math.ceil(Math.max(...tokens.map((token) => pen.measureText(token).width))));
      }
      return this.widths.get(tokens);
    };
    const most = width < 480 ? 72 : 110;
    this.left = clamp(widest(queries) + 12, 56, most);
    const raw = (room) => Math.min((room - this.left - 2) / keys.length, 36);
    const beside = width - taken >= SCALE && raw(width - taken) >= Math.min(raw(width), 12);
    // Square cells of whole pixels; a tall map is kept to about one screen as long as its rows can be read.
    const room = raw(beside ? width - taken : width), close = Math.min(Math.floor(room), Math.max(12, Math.floor(600 / rows)));
    this.cell = clamp(Math.round((close < CLOSE ? LEGIBLE : close) * 1.5 ** zoom), 5, 40);
    this.zoomer.hidden = close >= LEGIBLE && !zoom;
    this.room = beside ? width - taken : width;
    this.size = clamp(Math.floor(this.cell * 0.8), 10, 13);
    this.step = Math.ceil((this.size + 1) / this.cell);
    const keysWidth = (widest(keys) * this.size) / 13;
    this.upright = keysWidth <= this.cell * this.step - 3;
    this.above = clamp(this.upright ? this.size + 10 : keysWidth + 12, 34, most);
    Object.assign(this.corner.style, { width: `${this.left}px`, height: `${this.above}px` });
    for (const node of [this.part, this.rowLabels, this.columnLabels]) Object.assign(node.style, { left: `${this.left}px`, top: `${this.above}px` });
    this.rowLabels.style.left = this.columnLabels.style.top = "0";
    return beside;
  }

  /** `view`: values [query key] in one array, top (the weight of the last colour), signed, reference, queries, keys. */
  draw(view, theme) {
    this.take(view, theme);
    drawn([this]);
  }

  /** Takes a view that `drawn` is to draw. */
  take(view, theme) {
    const { width: before } = this, [rows, columns] = [view.queries.length, view.keys.length];
    const part = (place) => (view.signed ? 2 * place - 1 : place), value = (place) => part(place) * Math.abs(part(place)); // of the top
    if (theme !== this.theme || view.signed !== this.view.signed) {
      const scale = { values: Array.from({ length: 256 }, (_, step) => value(step / 255)), rows: 1, columns: 256 };
      this.bar.getContext("2d").drawImage(bitmap(scale, 1, theme), 0, 0);
    }
    Object.assign(this, { view, theme, width: columns * this.cell, height: rows * this.cell, focused: null });
    this.grown = before ? this.width / before : 1;
    Object.assign(this.field.style, { width: `${this.width}px`, height: `${this.height}px` });
    const places = [0, 0.25, 0.5, 0.75, 1], numbers = places.map((place) => tick(value(place) * view.top).replace("-", "−"));
    const step = Math.max(...numbers.map((number) => number.length)) > 5 ? 2 : 1; // or long ones would touch
    this.ticks.replaceChildren(...places.flatMap((place, at) =>
      at % step ? [] : [make("span", { style: `left: ${100 * place}%` }, numbers[at])]));
  }

  /** What the frame shows of the field, in pixels; after another zoom, around what was in its middle. */
  measured() {
    const { stage, height, left, above, width } = this, [across, down] = [stage.clientWidth, stage.clientHeight];
    if (this.grown !== 1) {
      stage.scrollLeft = (this.shown.x + this.shown.across / 2) * this.grown - across / 2;
      stage.scrollTop = (this.shown.y + this.shown.down / 2) * this.grown - down / 2;
      this.grown = 1;
    }
    return { x: stage.scrollLeft, y: stage.scrollTop, across, down, wide: clamp(across - left, 0, width), high: clamp(down - above, 0, height) };
  }

  /** The whole as small as its panel is wide, where there is a place for it. */
  drawOverview() {
    const { values, queries: { length: rows }, keys: { length: columns }, top } = this.view;
    const wide = Math.max(this.room - 80, 60), high = clamp((wide * rows) / columns, 24, 96), pen = surface(this.overview, wide, high);
    if (this.small?.of !== values || this.small.wide !== wide) {
      this.small = { of: values, wide, map: shrunk((q) => values.subarray(q * columns, (q + 1) * columns), rows, columns, wide) };
    }
    pen.imageSmoothingQuality = "high";
    pen.drawImage(bitmap(this.small.map, top, this.theme), 0, 0, wide, high);
  }

  /** Draws the cells that the frame shows, and what is in focus. */
  drawPart(frame = this.measured()) {
    const { cell, cells, height, theme, view, width } = this, { x, y, wide, high } = frame;
    const within = (from, room, all) => [Math.floor(from / cell), Math.min(Math.ceil((from + room) / cell), all.length)];
    const [top, bottom] = within(y, high, view.queries), [first, last] = within(x, wide, view.keys), pen = surface(cells, wide, high);
    this.shown = { ...frame, q: [top, bottom], k: [first, last] };
    pen.translate(-x, -y);
    pen.imageSmoothingEnabled = false;
    if (bottom > top && last > first) { // a frame that is not laid out, or still scrolled to where a longer text was, shows none
      const picture = bitmap({ values: view.values, columns: view.keys.length }, view.top, theme, [top, bottom], [first, last]);
      pen.drawImage(picture, first * cell, top * cell, picture.width * cell, picture.height * cell);
    }
    if (cell >= 14) { // hair lines make large cells countable
      pen.fillStyle = theme.surface;
      for (let k = Math.max(first, 1); k < last; k++) pen.fillRect(k * cell - 0.5, y, 1, high);
      for (let q = Math.max(top, 1); q < bottom; q++) pen.fillRect(x, q * cell - 0.5, wide, 1);
    }
    if (view.reference) this.drawReference(pen, outline(view.reference, view.keys.length, view.queries.length, this.shown));
    const per = (part, all) => `${(100 * part) / all}%`;
    Object.assign(this.window.style, { left: per(x, width), top: per(y, height), width: per(wide, width), height: per(high, height) });
    if (this.focused) this.mark(...this.focused);
  }

  /** Moves the window of the overview to the pointer. */
  centre(event) {
    const box = this.overview.getBoundingClientRect(), { stage, shown } = this;
    stage.scrollLeft = ((event.clientX - box.left) / box.width) * this.width - shown.wide / 2;
    stage.scrollTop = ((event.clientY - box.top) / box.height) * this.height - shown.high / 2;
  }

  onKey(event) {
    if (foreign(event)) return;
    const step = { "+": 1, "=": 1, "-": -1 }[event.key];
    if (!step) return this.react.key(event);
    this.react.zoom(step);
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
    this.focused = [q, k];
    this.mark(q, k);
    this.tip.hidden = !tip;
    this.tip.textContent = isolated(tip);
    if (!tip) return;
    const { above, cell, stage } = this, y = above + q * cell - stage.scrollTop;
    const x = this.left + (k + 0.5) * cell - stage.scrollLeft - this.tip.offsetWidth / 2;
    const room = this.node.clientWidth - this.tip.offsetWidth; // the tip leaves the row labels free where it can
    this.tip.style.left = `${clamp(x, clamp(room, 0, this.left), Math.max(room, 0))}px`;
    this.tip.style.top = y - 34 > above - 12 ? `${y - 34}px` : `${y + cell + 8}px`; // not over the labels
  }

  mark(q, k) {
    if (!this.shown.wide) return; // lines stand in its place
    const { cell, height, shown: { x, y, wide, high }, theme } = this, pen = surface(this.overlay, wide, high);
    pen.translate(-x, -y);
    Object.assign(pen, { strokeStyle: theme.ink, lineWidth: 2 });
    if (q >= 0) {
      const [from, to] = [Math.max(q * cell - 1, 1), Math.min((q + 1) * cell + 1, height - 1)];
      pen.strokeRect(x + 1, from, wide - 2, to - from);
    }
    if (k >= 0) {
      pen.globalAlpha = 0.4;
      pen.strokeRect(k * cell, y, cell, high);
      Object.assign(pen, { globalAlpha: 1, lineWidth: 3 });
      pen.strokeRect(k * cell, q * cell, cell, cell);
    }
    this.drawLabels(q, k);
  }

  drawLabels(q, k) {
    const { view, cell, shown: part, theme, step, left, above, upright, size } = this;
    // A thinned axis leaves room around the label in focus.
    const shown = (i, chosen) => i === chosen || (i % step === 0 && (chosen < 0 || Math.abs(i - chosen) >= step));
    const dress = (pen, chosen) => {
      pen.font = `${chosen ? "700 " : ""}${size}px ${FONT}`;
      pen.fillStyle = chosen ? theme.ink : theme.faint;
    };
    const rows = surface(this.rowLabels, left, part.high);
    rows.translate(0, -part.y);
    Object.assign(rows, { textAlign: "right", textBaseline: "middle" });
    for (let i = part.q[0]; i < part.q[1]; i++) {
      if (!shown(i, q)) continue;
      dress(rows, i === q);
      rows.fillText(fit(rows, view.queries[i], left - 8), left - 6, clamp((i + 0.5) * cell, size / 2, this.height - size / 2));
    }
    const columns = surface(this.columnLabels, part.wide, above);
    columns.translate(-part.x, 0);
    Object.assign(columns, { textAlign: upright ? "center" : "left", textBaseline: "middle" });
    for (let i = part.k[0]; i < part.k[1]; i++) {
      const token = view.keys[i];
      if (!shown(i, k)) continue;
      dress(columns, i === k);
      columns.save();
      const half = (upright ? columns.measureText(token).width : size) / 2; // at the rim of small cells
      columns.translate(clamp((i + 0.5) * cell, half, this.width - half), above - (upright ? size / 2 + 4 : 6));
      if (!upright) columns.rotate(-Math.PI / 2);
      columns.fillText(upright ? token : fit(columns, token, above - 8), 0, 0);
      columns.restore();
    }
  }

  /** The cell under the pointer, a row alone where it is over the row's label, or null. */
  at(event) {
    const box = this.overlay.getBoundingClientRect(), { cell, shown, view } = this;
    if (event.target !== this.overlay && event.target !== this.rowLabels) return null;
    const q = Math.floor((event.clientY - box.top + shown.y) / cell), k = Math.floor((event.clientX - box.left + shown.x) / cell);
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

/** Draws maps that have taken their views. All are measured first: after a change each measure would lay the page out anew. */
export function drawn(maps) {
  const frames = maps.map((map) => [map.measured(), map.zoomer.offsetParent]);
  maps.forEach((map, i) => {
    const [frame, zoomed] = frames[i];
    if (zoomed) map.drawOverview();
    map.drawPart(frame);
  });
}

/** Borders between reference cells and others, of those that are shown, as lines [x1, y1, x2, y2] in cells. */
function outline(cells, columns, rows, shown) {
  const at = (q, k) => q >= 0 && k >= 0 && q < rows && k < columns && cells[q * columns + k];
  const lines = [];
  for (let q = shown.q[0]; q <= shown.q[1]; q++) {
    for (let k = shown.k[0], left = at(q, k - 1); k <= shown.k[1]; k++) {
      const here = at(q, k);
      if (!here !== !at(q - 1, k)) lines.push([k, q, k + 1, q]);
      if (!here !== !left) lines.push([k, q, k, q + 1]);
      left = here;
    }
  }
  return lines;
}
