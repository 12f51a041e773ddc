// HeadPictures: a small picture of every head, one row for every layer, and of the mean of its heads; a click or
// the arrow keys choose one.
//
// May be touched for: the small pictures. The heat map of the chosen head is heat_map.js.

import { canvas, clamp, foreign, largestOf, make, range, rest, surface } from "./common.js";
import { bitmap } from "./themes.js";
import { placeName, smallOf } from "./attention_data.js";

const MOST_PICTURES = 120; // pictures at once
const FINEST = 88; // rows or columns of a picture, at most: two for each of its pixels
const SOME_CELLS = 1e6; // that are read at once; the page has its turn before more

export class HeadPictures {
  /** `choose({layer, head})` is called when the reader does; `again()`, when the chosen one is clicked. */
  constructor(choose, again) {
    Object.assign(this, { choose, again });
    this.node = make("div", { class: "attnx-heads", role: "group", "aria-label": "All heads; the arrow keys move",
      keydown: (event) => this.onKey(event) });
    this.caption = make("p", { class: "attnx-caption" });
    this.panel = make("div", { class: "attnx-panel" }, this.caption, this.node);
  }

  // ---- built for every example

  /** Of more heads than there is room for, those of some layers, the chosen one among them. */
  build(data, chosen) {
    const number = (text) => make("span", { class: "attnx-number", "aria-hidden": "true" }, text);
    const heads = Math.min(data.heads, MOST_PICTURES), layers = Math.max(Math.floor(MOST_PICTURES / (heads + 1)), 1), first = Math.floor(chosen / layers) * layers;
    const all = heads === data.heads && layers >= data.layers, last = Math.min(first + layers, data.layers) - 1;
    const same = this.data?.layers === data.layers && this.data.heads === data.heads && this.first === first;
    Object.assign(this, { data, heads, first, last });
    if (same) return; // of another example, or of some of its rows, the buttons are the same
    this.caption.textContent = all ? "All heads" : `${heads < data.heads ? `The first ${heads} of ${data.heads} heads` : "Heads"} of layers ${first} to ${last}, of ${data.layers}`;
    this.node.style.gridTemplateColumns = `auto repeat(${heads + 1}, auto)`;
    this.node.replaceChildren(number(""), number("mean"), ...range(heads).map(number));
    this.all = [];
    for (let layer = first; layer <= last; layer++) {
      this.node.append(number(layer));
      for (let head = -1; head < heads; head++) {
        const name = placeName(layer, head), picture = canvas("", 0, 0);
        const button = make("button", { type: "button", class: "attnx-thumb", "aria-label": name, title: name,
          click: () => (this.chosen.layer === layer && this.chosen.head === head ? this.again() : this.choose({ layer, head })) }, picture);
        this.all.push({ layer, head, button, picture });
        this.node.append(button);
      }
    }
  }

  /** The weights of every head are to be read anew; `largest` is what a stretched scale ends at. */
  forget() { for (const each of this.all) each.small = each.largest = undefined; }

  read(each) {
    each.small = smallOf(this.data, each.layer, each.head, FINEST);
    each.largest ??= largestOf(each.small.values) || 1;
  }

  holds(layer) { return layer >= this.first && layer <= this.last; }
  at(layer, head) { return head < this.heads ? this.all[(layer - this.first) * (this.heads + 1) + head + 1] : undefined; }

  // ---- drawn for every example, width, theme and scale

  /** How wide a picture can be where all have this width, and how wide all are together with their numbers. */
  arrange(width) {
    const columns = this.heads + 1;
    this.width = clamp(Math.floor((Math.min(width, 380) - 24) / columns) - 6, 24, 44);
    return 24 + columns * (this.width + 6);
  }

  /** Of large maps one picture after the other, behind all else, unless all are wanted `now`. */
  async draw(theme, stretched, now) {
    const { width } = this, { rows, columns, cells, heads } = this.data, height = Math.max(20, Math.round(width * clamp(rows / columns, 0.4, 2.5)));
    const turn = (this.turn = {});
    let read = 0;
    for (const each of this.all) {
      read += each.small ? 0 : cells * (each.head < 0 ? heads : 1);
      if (read > SOME_CELLS && !now) {
        await rest();
        if (this.turn !== turn) return; // what was to be drawn is not shown any more
        read = 0;
      }
      if (!each.small) this.read(each);
      const pen = surface(each.picture, width, height);
      pen.imageSmoothingEnabled = columns > width;
      pen.imageSmoothingQuality = "high";
      pen.drawImage(bitmap(each.small, stretched ? each.largest : 1, theme), 0, 0, width, height);
    }
  }

  // ---- drawn for every layer and head

  mark(layer, head) {
    this.chosen = { layer, head };
    for (const each of this.all) {
      const chosen = each.layer === layer && each.head === head;
      each.button.setAttribute("aria-pressed", chosen);
      each.button.tabIndex = chosen ? 0 : -1;
    }
  }

  onKey(event) {
    if (foreign(event)) return;
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const { layers, heads } = this.data;
    const layer = clamp(this.chosen.layer + step[0], 0, layers - 1), head = clamp(this.chosen.head + step[1], -1, heads - 1);
    this.choose({ layer, head });
    this.at(layer, head)?.button.focus();
  }
}
