// ScoresView: what explorers of scores over a training share, which is one part of the picture for every score, all at
// the checkpoint that the slider or the chart chooses.
//
// What is redrawn when: another item or set of scores builds the parts; another checkpoint, scale or theme draws them;
// hovering only what is in focus.
//
// May be touched for: how the parts follow what the reader chooses. What one of them looks like is its explorer's.

import { capital, foreign, make } from "./common.js";
import { checkbox, connect, folded, View } from "./view.js";
import { magnitude, unpackScores } from "./scores_data.js";
import { OverTraining } from "./over_training.js";
import { AskBox } from "./ask_box.js";

/**
 * What an explorer that extends it says: `words`, the texts below; `buildHolder`, the node around the parts; `read`, the
 * data of an item, with what the model `said` at each checkpoint and what is `right`; `buildPart`, {score, node, ...} of one, which `arrange`
 * fits to a width, `draw` draws at a checkpoint and `showFocus` for what is in focus; `describeChosen` and `tabulate`, words
 * and numbers; `lead`, where a key leads.
 *
 * Words: `kind`, its name, and `style`, the beginning of its classes; `item`, what a drop-down chooses; `answer`, what the
 * model makes of it, `caption` and `said`, how that is told, and `verdicts`, [right, wrong]; `ask`, of the box; `table`,
 * [summary, label].
 */
export class ScoresView extends View {
  constructor(model, el) {
    super(model);
    this.hover = null; // what is under the pointer
    this.width = 0; // inside the card; without one, as in a closed tab, nothing is drawn
    this.build(el);
    this.load();
  }

  arrange() {}
  unpacked(index) { return unpackScores(this.model, index); }

  // ---- built once

  build(el) {
    const { model, words } = this;
    this.training = new OverTraining(this);
    this.box = new AskBox(model, words.ask);
    this.holder = this.buildHolder();
    this.readout = make("p", { class: "attnx-readout" });
    this.status = make("p", { class: "attnx-hidden", "aria-live": "polite", role: "status" });
    this.table = make("table");
    this.details = folded(...words.table, this.table, () => this.fill());
    this.mount(el, words.kind, `attnx ${words.style}`, ...this.box.nodes, this.buildControls(), this.training.panel, this.holder,
      this.readout, this.details, this.status);
  }

  buildControls() {
    const { item, style } = this.words;
    this.boxes = make("span", { class: `${style}-boxes`, role: "group", "aria-label": "Scores shown" });
    return make("div", { class: "attnx-controls" }, this.buildItems(item), this.boxes, this.buildColours("to the largest in training", "to the largest now", this.words.scales));
  }

  // ---- built for every item and set of scores

  load() {
    const data = (this.data = this.read(this.chosenItem()));
    this.hover = null;
    this.training.take(data.checkpoints, data.said, data.right, this.words.verdicts);
    this.boxes.replaceChildren(...data.scores.map(({ name }) => {
      const [box, label] = checkbox((on) => this.toggle(name, on), {}, make("span", {}, name));
      box.value = name;
      return label;
    }));
    this.buildParts();
  }

  buildParts() {
    for (const box of this.boxes.querySelectorAll("input")) box.checked = this.isShown(box.value);
    this.parts = this.data.scores.filter(({ name }) => this.isShown(name)).map((score) => this.buildPart(score));
    this.holder.replaceChildren(...this.parts.map(({ node }) => node));
    this.paint();
  }

  // ---- drawn for every width and theme

  paint() {
    this.width = this.dress();
    if (!this.width) return; // called again when there is some
    this.training.paint(this.theme);
    this.arrange(this.width);
    this.show();
  }

  // ---- drawn for every checkpoint and scale

  show() {
    if (!this.width) return;
    this.tell();
    for (const part of this.parts) Object.assign(part, { values: this.valuesOf(part.score), top: this.topOf(part.score) });
    this.draw();
    this.showFocus();
    this.fill();
  }

  fill() { if (this.details.open) this.tabulate(); }

  tell() {
    const { data, training, words } = this;
    training.tell(words.caption, data.said[training.moment], data.right, words.said);
  }

  get shown() { return [this.data.label, `step ${this.training.step}`]; }
  get answered() { return `${this.words.answer} ${this.training.answered}`; }

  /** What the strongest colour stands for. */
  topOf(score) { return this.stretched ? magnitude(this.valuesOf(score)) || 1 : score.scale; }
  valuesOf({ values }) { return values[Math.min(this.training.moment, values.length - 1)]; }

  // ---- drawn for every place in focus: all the work of a hover

  point(place) {
    if (place === this.hover) return;
    this.hover = place;
    if (this.width) this.showFocus();
  }

  /** Says what is selected to a screen reader: never on hovering, which would be noise. */
  announce() {
    const chosen = this.describeChosen();
    this.status.textContent = `${capital(this.training.words())}. ${capital(this.answered)}.${chosen && ` ${chosen}`}`;
  }

  // ---- what the reader does

  isShown(name) { return this.model.get("shown").includes(name); }

  toggle(name, on) {
    const others = this.model.get("shown").filter((other) => other !== name);
    this.choose({ shown: on ? [...others, name] : others });
  }

  onToken() {
    if (this.width) this.showFocus();
    this.announce();
  }

  onCheckpoint() {
    this.training.show();
    this.show();
    if (!this.training.playing) this.announce();
  }

  /** Page up and down lead to another checkpoint, escape to no token, and others where `lead` says: [token, node to focus]. */
  onKey(event) {
    if (foreign(event)) return;
    const step = { PageUp: -1, PageDown: 1 }[event.key], place = event.key === "Escape" ? [-1] : this.lead(event);
    if (!step && !place) return;
    event.preventDefault();
    this.hover = null;
    if (step) return this.training.jump(this.training.at + step);
    const [token, node] = place;
    this.choose({ token });
    node?.focus();
  }
}

/** What anywidget and the static page call for such an explorer. */
export const renderer = (Explorer) => ({ model, el }) => {
  const explorer = new Explorer(model, el), ask = () => explorer.box.show();
  const load = () => { explorer.load(); explorer.announce(); };
  return connect(explorer, { item: load, items: load, checkpoint: () => explorer.onCheckpoint(),
    shown: () => explorer.buildParts(), colours: () => explorer.paint(), token: () => explorer.onToken(), busy: ask, error: ask });
};
