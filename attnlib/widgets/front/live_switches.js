// LiveSwitches: what is changed in a model before it writes: heads whose attention is off, even or pushed to a token, and
// tokens that are left out.
//
// May be touched for: how changes are chosen and listed. What they do is ../live/model.js.

import { allow, make, range, smallButton } from "./common.js";
import { dropDown, field, offer } from "./view.js";
import { layerNumber } from "./generation_data.js";
import "./live_switches.css";

const ALL = -1, KINDS = [["off", "off"], ["even", "even"], ["push", "redirected to the chosen token"]];

export class LiveSwitches {
  /** `react` holds what the owner does: change(), when there are other changes than before. */
  constructor(react) {
    this.react = react;
    this.chosen = -1; // a prompt token
    this.all = []; // {name, and changes of a head, or blank, a token}
    this.layer = dropDown("Layer of the switch", () => {});
    this.head = dropDown("Head of the switch", () => {});
    this.kind = dropDown("What its attention becomes", () => this.dress(), KINDS);
    this.adder = smallButton(() => this.addHead(), "switch");
    this.blanker = smallButton(() => this.addToken());
    this.resetter = smallButton(() => this.clear().changed(), "as it is");
    this.list = make("span", { class: "attnw-chips", role: "group", "aria-label": "Switches; press one to take it back" });
    this.node = make("div", { class: "attnx-controls attnw-switches", role: "group", "aria-label": "Switches" },
      field("Switch: layer", this.layer), field("head", this.head), field("attention", this.kind), this.adder, this.blanker, this.list);
  }

  /** The model's layers and heads. */
  take({ layers, heads }) {
    offer(this.layer, range(layers).map((layer) => [layer, layerNumber(layer)]));
    offer(this.head, [[ALL, "all"], ...range(heads).map((head) => [head, layerNumber(head)])]);
    this.heads = heads;
    this.dress();
  }

  /** Takes all back; or, of another prompt, those that name a token. */
  clear(some = () => true) {
    this.all = this.all.filter((one) => !some(one));
    this.showAll();
    return this;
  }
  forget() { this.clear((one) => one.blank !== undefined || one.changes[0].kind === "push"); }

  get some() { return this.all.length > 0; }
  get changes() { return this.all.flatMap(({ changes = [] }) => changes); }
  get blanked() { return this.all.filter(({ blank }) => blank !== undefined).map(({ blank }) => blank); }
  get words() { return this.all.map(({ name }) => name).join(", "); }

  /** Another prompt token is chosen, of these; -1 is none. */
  point(chosen, keys) {
    Object.assign(this, { chosen, keys });
    this.dress();
  }

  get token() { return this.chosen < 0 ? "a token" : `'${this.keys[this.chosen]}' (${this.chosen})`; }

  dress() {
    const none = this.chosen < 0, last = this.chosen === this.keys?.length - 1;
    allow(this.adder, this.kind.value !== "push" || !none);
    allow(this.blanker, !none && !last && !this.blanked.includes(this.chosen));
    this.blanker.textContent = `blank ${this.token}`;
    this.blanker.title = none ? "Choose a token of the prompt first" : last ? "The last token predicts the first word: it stays" : "The model reads the prompt without it";
  }

  showAll() {
    this.dress();
    const place = [...this.list.children].indexOf(document.activeElement);
    this.list.replaceChildren(...this.all.map((one) =>
      smallButton(() => this.drop(one), `${one.name} ×`, { class: "attnx-save attnw-chip", title: "Take this back" })), ...(this.some ? [this.resetter] : []));
    if (place >= 0) (this.list.children[place] ?? this.adder).focus(); // what had the focus is gone
  }

  addHead() {
    const layer = Number(this.layer.value), head = Number(this.head.value), kind = this.kind.value;
    const push = kind === "push" ? { token: this.chosen } : {}, place = `layer ${layerNumber(layer)}, ${head === ALL ? "all heads" : `head ${layerNumber(head)}`}`;
    const changes = (head === ALL ? range(this.heads) : [head]).map((each) => ({ layer, head: each, kind, ...push }));
    const same = (one) => one.changes?.[0].layer === layer && (one.head === head || one.head === ALL || head === ALL);
    this.all = [...this.all.filter((one) => !same(one)), { head, changes, name: `${place} ${kind === "push" ? `redirected to ${this.token}` : kind}` }];
    this.changed();
  }

  addToken() {
    this.all = [...this.all, { blank: this.chosen, name: `${this.token} blank` }];
    this.changed();
  }

  drop(one) { this.clear((other) => other === one).changed(); }

  changed() {
    this.showAll();
    this.react.change();
  }
}
