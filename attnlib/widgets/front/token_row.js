// TokenRow: the tokens of an item as running text, each in the colour of its score; the rows of one view are pointed at and
// chosen from together.
//
// May be touched for: the text, its colours, and which token is meant. What it is a row of is its owner's business.

import { clamp, make, written } from "./common.js";
import { BLANK, shade, tintNode } from "./themes.js";

/** So many tokens are written in each of several rows. */
export const MOST_WORDS = 400;

/** By the square root where a score is never negative, as in heat maps of attention; else in proportion. */
export function tintOf(theme, value, top, signed) {
  if (value === 0) return BLANK;
  const step = signed ? Math.round(255 * Math.min(Math.abs(value) / top, 1)) : shade(value, top);
  return (value > 0 ? theme.above : theme.below)[Math.max(step, 1)];
}

export class TokenRow {
  /** `style` begins the classes. */
  constructor(style) {
    this.style = style;
    this.text = make("div", { class: `${style}-text`, role: "group" });
    this.nodes = [];
  }

  /** `apart`: a blank between tokens, unless they bring their own; `classOf`, further classes of a token. */
  write(tokens, apart = true, classOf = () => "") {
    const spaced = apart && !tokens.some((token) => token.startsWith(" "));
    this.nodes = [];
    this.focused = this.reachable = -1;
    this.text.replaceChildren(...written(tokens.slice(0, MOST_WORDS), (word, i) => (this.nodes[i] = make("button",
      { type: "button", class: `${this.style}-token ${classOf(i)}`.trim(), "data-token": i }, word)), (token) => spaced || token.startsWith(" ")));
  }

  /** Says whose scores the colours are. */
  label(name) { this.text.setAttribute("aria-label", `Tokens by ${name}; the arrow keys move`); }

  paint(theme, values, top, signed) {
    this.nodes.forEach((node, i) => tintNode(node, values ? tintOf(theme, values[i], top, signed) : BLANK));
  }

  /** Outlines the token in focus. The tab key reaches the chosen one, or the first; the arrow keys the others. */
  mark(focus, chosen) {
    const reachable = Math.max(chosen, 0);
    this.nodes[this.focused]?.classList.remove("attnx-chosen");
    this.nodes[focus]?.classList.add("attnx-chosen");
    this.focused = focus;
    if (this.reachable === reachable) return;
    this.nodes.forEach((node, i) => { node.tabIndex = i === reachable ? 0 : -1; });
    this.reachable = reachable;
  }
}

export const tokenAt = (event) => Number(event.target.closest?.("[data-token]")?.dataset.token ?? -1);

/** What the node around the rows of a view listens to; between two tokens, the last stays in focus. */
export const pointing = (view) => ({
  pointerover: (event) => { const token = tokenAt(event); if (token >= 0) view.point(token); },
  pointerleave: () => view.point(null),
  click: (event) => { const token = tokenAt(event); if (token >= 0) view.choose({ token: token === view.token ? -1 : token }); },
});

/** Where a key leads from a token of `rows[row]`: [token, row]; up and down to the same token of another row. Else null. */
export function lead({ key }, at, row, rows, tokens) {
  const across = { ArrowUp: -1, ArrowDown: 1 }[key], last = Math.min(tokens, MOST_WORDS) - 1;
  const next = across ? at : { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[key];
  return next === undefined ? null : [clamp(next, 0, last), clamp(row + (across ?? 0), 0, rows - 1)];
}
