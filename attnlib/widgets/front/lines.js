// Lines: queries on the left, keys on the right, and a line for every weight, for who would rather follow a line
// than find a cell. Which row is in focus, and what the numbers mean, is its owner's business.
//
// May be touched for: where tokens stand and how lines look.

import { canvas, clamp, fit, FONT, make, surface } from "./common.js";
import { css, shade } from "./themes.js";
import "./lines.css";

const STEP = 20; // pixels of a token
const MOST_LINES = 3000;
const SEEN = 0.02; // the part of the scale from which a weight is drawn where no row is in focus

export class Lines {
  /** `react` holds what the owner does: hover({q, k} or null) and pick({q, k}); k is always -1. */
  constructor(react) {
    this.picture = canvas("attnx-drawn", 0, 0);
    this.field = make("div", {}, this.picture);
    this.node = make("div", { class: "attnx-lines", hidden: "", scroll: () => this.focus(...this.focused),
      pointermove: (event) => react.hover(this.at(event)), pointerleave: () => react.hover(null),
      click: (event) => { const place = this.at(event); if (place) react.pick(place); } }, this.field);
  }

  /** `view`: values [query key] in one array, top (the weight of the last colour), reference, queries, keys. */
  draw(view, theme, width) {
    Object.assign(this, { view, theme, width: clamp(width, 150, 620) });
    this.side = Math.min(150, this.width * 0.32);
    this.height = Math.max(view.queries.length, view.keys.length) * STEP;
    this.field.style.height = `${this.height}px`;
  }

  /** Draws row q, its reference outlined, with key k in bold; all rows where there is none (-1). Only as far as it is seen. */
  focus(q, k) {
    this.focused = [q, k];
    if (this.node.hidden) return;
    const { view, theme, width, side } = this, { queries, keys, values, top, reference } = view, columns = keys.length;
    const above = this.node.scrollTop, high = Math.min(this.node.clientHeight, this.height), pen = surface(this.picture, width, high);
    pen.translate(0, -above);
    const middle = (i) => (i + 0.5) * STEP, right = width - side, [first, last] = [Math.floor(above / STEP), Math.floor((above + high) / STEP)];
    const drawn = [], least = q < 0 ? SEEN * top : 0, passes = (row, column) => Math.max(row, column) >= first && Math.min(row, column) <= last;
    for (let row = Math.max(q, 0), i = row * columns; row < (q < 0 ? queries.length : q + 1); row++) {
      for (let column = 0; column < columns; column++, i++) if (values[i] > 0 && values[i] >= least && passes(row, column)) drawn.push(i);
    }
    for (const i of drawn.sort((a, b) => values[a] - values[b]).slice(-MOST_LINES)) {
      const weight = values[i], row = Math.floor(i / columns), column = i % columns, part = Math.min(weight / top, 1);
      Object.assign(pen, { strokeStyle: css(theme.lut[shade(weight, top)]), lineWidth: 0.5 + 5 * part, globalAlpha: q < 0 ? 0.75 : 1 });
      pen.beginPath();
      pen.moveTo(side, middle(row));
      pen.bezierCurveTo(width / 2, middle(row), width / 2, middle(column), right, middle(column));
      pen.stroke();
    }
    pen.globalAlpha = 1;
    const write = (token, i, chosen, align, at) => {
      const ink = chosen || q < 0 ? theme.ink : theme.faint, font = `${chosen ? "700 " : ""}12px ${FONT}`;
      Object.assign(pen, { font, fillStyle: ink, textAlign: align, textBaseline: "middle" });
      pen.fillText(fit(pen, token, side - 14), at, middle(i));
    };
    const each = (tokens, of) => { for (let i = first; i <= Math.min(last, tokens.length - 1); i++) of(tokens[i], i); };
    each(queries, (token, i) => write(token, i, i === q, "right", side - 6));
    each(keys, (token, i) => write(token, i, q >= 0 && (i === k || values[q * columns + i] >= 0.1 * top), "left", right + 6));
    if (q < 0 || !reference) return;
    Object.assign(pen, { strokeStyle: theme.reference, lineWidth: 2 });
    pen.font = `700 12px ${FONT}`;
    each(keys, (token, i) => {
      if (reference[q * columns + i]) pen.strokeRect(right + 1, i * STEP + 1, Math.min(pen.measureText(token).width + 10, side - 2), STEP - 2);
    });
  }

  /** Scrolls so that row q (-1: any) is seen. */
  reveal(q) {
    const { node } = this;
    if (q >= 0) node.scrollTop = clamp(node.scrollTop, (q + 1) * STEP - node.clientHeight, q * STEP);
  }

  /** The query beside the pointer, in the left half; else null. */
  at(event) {
    const box = this.field.getBoundingClientRect(), q = Math.floor((event.clientY - box.top) / STEP);
    const inside = q >= 0 && q < this.view.queries.length && event.clientX - box.left < this.width / 2;
    return inside ? { q, k: -1 } : null;
  }
}
