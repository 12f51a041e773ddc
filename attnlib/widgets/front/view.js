// View: what every explorer is, a card in the page that takes the theme of what lies behind it; and the pieces
// that its controls and tables are made of.
//
// May be touched for: how all explorers look and are heard by a page. What one of them shows is in its own file.

import { allow, clamp, isolated, LONGEST, make, rest, smallButton, watch } from "./common.js";
import { fitPaper, save } from "./saving.js";
import { onDark, THEMES } from "./themes.js";
import "./colours.css";
import "./view.css";

const GESTURE = 500; // milliseconds: what follows sooner, of the same traits, is the same step; so is all that one playing changes
const STEPS = 100;

/** What an explorer that extends it says: `shown`, the parts of the name of what it shows; `columns` of its map, if it has one; `numbers`, its rows as CSV. */
export class View {
  constructor(model) {
    Object.assign(this, { model, past: [], last: {}, zoom: 0, columns: 0 });
  }

  get name() { return [this.model.get("title") || this.kind, ...this.shown].filter(Boolean).join(": "); }

  // ---- what the reader chooses

  choose(changes) {
    const { last, past } = this, names = Object.keys(changes).join(), before = this.chosen();
    if (this.choosing) return this.set(changes); // of the same step
    this.set(changes);
    const after = this.chosen(), now = Date.now(), playing = this.training?.timer ?? 0;
    const same = names === last.names && (playing ? playing === last.playing : now - last.time < GESTURE);
    if (Object.keys(before).every((name) => before[name] === after[name])) return;
    if (!same) past.push(before);
    if (past.length > STEPS) past.shift();
    this.last = { names, playing, time: now };
    this.offerUndo();
  }

  set(changes) {
    const { choosing, model } = this;
    this.choosing = true;
    try { for (const [name, value] of Object.entries(changes)) model.set(name, value); } finally { this.choosing = choosing; }
    model.save_changes();
  }

  chosen() { return Object.fromEntries(Object.keys(this.model.get("addressed")).map((name) => [name, this.model.get(name)])); }

  /** One step back. */
  undo() {
    this.last = {};
    const within = this.root.contains(document.activeElement);
    if (this.past.length) this.set(this.past.pop());
    this.offerUndo();
    const { activeElement: now } = document; // what had the focus may be written anew, or hidden
    if (within && !(this.root.contains(now) && now.offsetParent)) this.undoer.focus();
  }

  offerUndo() { allow(this.undoer, this.past.length > 0); }

  zoomBy(step) {
    this.zoom = clamp(this.zoom + step, -3, 3);
    this.paint(false); // of all that is small, nothing changes
  }

  /** Says what is in focus; where nothing is, what to do. */
  say(words, hint) {
    this.readout.textContent = isolated(words || hint);
    this.readout.classList.toggle("attnx-idle", !words);
  }

  /** Says what is left out of an item of so many tokens. */
  tellLength(tokens, most = LONGEST) {
    this.long.hidden = tokens <= most;
    this.long.textContent = tokens > most ? `Text and table show the first ${most.toLocaleString("en")} of ${tokens.toLocaleString("en")} tokens; what CSV saves has all.` : "";
  }

  // ---- controls that all have

  /** The drop-down of items and its name, in a field. */
  buildItems(noun) {
    this.itemSelect = dropDown(noun, (value) => this.chooseItem(value), [], { title: noun,
      focus: () => this.prepare(), pointerenter: () => this.prepare() });
    return (this.itemField = field(noun, this.itemSelect));
  }

  /** Unpacks all items, a slice each: who comes to the drop-down chooses one soon. */
  async prepare() {
    const items = this.model.get("items");
    if (this.prepared === items) return;
    this.prepared = items;
    for (let index = 0; index < this.model.get("items").length; index++) { // others may have come
      this.unpacked(index);
      await rest();
    }
  }

  unpacked() {} // what is packed of an item, if an explorer packs any
  read(index) { return this.unpacked(index); }

  chooseItem(value) { this.choose({ item: Number(value) }); }

  /** The index of the item shown, which the drop-down says where there is another. The model may be ahead of its items. */
  chosenItem() {
    const items = this.model.get("items"), index = clamp(this.model.get("item"), 0, items.length - 1);
    this.itemField.hidden = items.length < 2;
    offer(this.itemSelect, items.map((item, i) => [i, labelOf(item)]));
    this.itemSelect.value = index;
    this.itemName = items.length < 2 ? "" : labelOf(items[index]);
    return index;
  }

  /** The choice of what the strongest colour stands for: of the `whole`, or the largest of what is `shown`. */
  buildColours(whole, shown, others = []) {
    this.colours = dropDown("Colours: what the strongest colour stands for", (colours) => this.choose({ colours }),
      [["whole", whole], ["shown", shown], ...others], { title: "What the strongest colour stands for" });
    return field("Colours", this.colours);
  }

  /** Whether the strongest colour stands for the largest value shown. */
  get stretched() { return this.model.get("colours") === "shown"; }

  buildTools() {
    this.undoer = smallButton(() => this.undo(), "undo", { title: "One step back (Ctrl + Z)" });
    this.offerUndo();
    const savers = ["PNG", "SVG", "CSV"].map((kind) => smallButton((button) => this.save(kind.toLowerCase(), button), kind, { "aria-label": `Save as ${kind}`,
      title: `Save the ${kind === "CSV" ? "numbers" : "picture"} shown` }));
    return this.tools = make("div", { class: "attnx-savers", role: "group", "aria-label": "Undo, send, save" }, this.undoer,
      ...(this.model.link ? [this.buildLink()] : []), make("span", { class: "attnx-label" }, "save"), ...savers);
  }

  /** The button says that it is at work: the millions of numbers of a long text take seconds. */
  async save(kind, button) {
    if (button.hasAttribute("aria-busy")) return;
    button.setAttribute("aria-busy", "true");
    try { await save(this, kind); } finally { button.removeAttribute("aria-busy"); }
  }

  /** In a page without a kernel: copies the address, which holds what was chosen here. */
  buildLink() {
    const copy = async (link) => {
      const address = this.model.link(); // over plain http there is no clipboard
      link.textContent = await navigator.clipboard?.writeText(address).then(() => "copied", () => {}) ?? "see the address bar";
      setTimeout(() => { link.textContent = "copy link"; }, 2000);
    };
    return smallButton(copy, "copy link", { class: "attnx-save attnx-link", title: "Copy a link to what is shown now" });
  }

  /** Puts the card into the page: `kind` says what it is; `style`, its own classes; `parts`, what it holds. */
  mount(el, kind, style, ...parts) {
    const title = this.model.get("title");
    this.long = make("p", { class: "attnx-long attnx-label", hidden: "" });
    this.root = make("section", { class: style, "aria-label": `${kind}${title ? `: ${title}` : ""}` },
      this.buildTools(), ...(title ? [make("p", { class: "attnx-title" }, title)] : []), this.long, ...parts);
    // JupyterLab's command mode would otherwise take the arrow keys, and run the cell on Ctrl + Enter. What else is
    // pressed with Ctrl, Alt or Cmd is the page's: Ctrl + K searches the book.
    this.root.addEventListener("keydown", (event) => {
      if (event.key === "z" && (event.ctrlKey || event.metaKey) && !event.target.matches("textarea, input[type=text]")) {
        event.preventDefault();
        event.stopPropagation();
        this.undo();
      }
      if (event.key === "Enter" || !(event.ctrlKey || event.altKey || event.metaKey)) event.stopPropagation();
    });
    el.append(this.root);
  }

  /** "dark" or "light", as what lies behind is; a picture that is saved is light. */
  get mode() { return !this.printing && onDark(this.root) ? "dark" : "light"; }

  /** Takes that mode. Returns the width inside: 0 in a closed tab or drop-down. */
  dress() {
    const { mode } = this, style = getComputedStyle(this.root);
    this.theme = THEMES[mode];
    if (this.colours) this.colours.value = this.model.get("colours");
    this.root.dataset.mode = mode;
    return Math.max(this.root.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight), 0);
  }
}

/**
 * Lets a view react to its model, `reactions` by name of a trait or of another event (with a colon), and to
 * the width and theme of its page. Returns how to let go of all of them.
 */
export function connect(view, reactions) {
  const events = Object.entries(reactions).map(([name, react]) => [name.includes(":") ? name : `change:${name}`, react]);
  for (const [event, react] of events) view.model.on(event, react);
  const unwatch = watch(view.root, () => view.paint(), () => view.mode !== view.root.dataset.mode), unfit = fitPaper(view);
  return () => {
    for (const [event, react] of events) view.model.off(event, react);
    view.training?.stop();
    unwatch();
    unfit();
  };
}

// ---------------------------------------------------------------------------- controls

/** A drop-down that tells `change` the value chosen. */
export function dropDown(label, change, choices = [], more = {}) {
  const node = make("select", { "aria-label": label, change: (event) => change(event.target.value), ...more });
  offer(node, choices);
  return node;
}

/** Puts choices, [value, name], in the place of those there were. */
export function offer(node, choices) {
  node.replaceChildren(...choices.map(([value, name]) => make("option", { value }, name)));
}

/** What a drop-down calls an item that was recorded, or typed. */
const labelOf = ({ label, typed }) => (typed ? `${label} (typed)` : label);

/** A control, or several, with their name before them. */
export const field = (name, ...controls) => make("label", { class: "attnx-field" }, make("span", {}, name), ...controls);

/** A checkbox and what stands behind it, as [box, label]. */
export function checkbox(change, attributes, ...behind) {
  const box = make("input", { type: "checkbox", change: (event) => change(event.target.checked) });
  return [box, make("label", { class: "attnx-check", ...attributes }, box, ...behind)];
}

// ---------------------------------------------------------------------------- tables

/** A table behind its summary; `fill` is called when it is opened. */
export function folded(summary, label, table, fill) {
  return make("details", { class: "attnx-details", toggle: fill }, make("summary", {}, summary),
    make("div", { class: "attnx-scroll", tabindex: "0", role: "group", "aria-label": label }, table));
}

export const tableHead = (...names) => make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name))));
export const tableRow = (name, ...cells) => make("tr", {}, make("th", { scope: "row" }, isolated(name)), ...cells.map((text) => make("td", {}, isolated(text))));
