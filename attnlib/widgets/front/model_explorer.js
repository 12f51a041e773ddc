// ModelExplorer: an AttentionView of what the reader types, as a model reads it that runs in the page itself; the
// model's output beside the right one; and any head's attention swapped for another, to see what the output does.
//
// Every keystroke reads the text anew and redraws all. A text that cannot be asked says why, and what was asked
// before stays, dimmed.
//
// May be touched for: how output and swaps are shown. The model is transformer.js, its tasks are model_tasks.js.

import { capital, make, range, smallButton, sum, visible } from "./common.js";
import { connect, dropDown, field, offer } from "./view.js";
import { placeName } from "./attention_data.js";
import { AttentionView } from "./attention_view.js";
import { headName } from "./transformer.js";
import { unpackModel } from "./model_weights.js";
import { taskOf } from "./model_tasks.js";
import { PLACES, PushView } from "./push_view.js";
import "./ask_box.css";
import "./model_explorer.css";

class Unreadable extends Error {} // no model can be shown

const OWN = "own", MIXED = "mixed", PROGRAM = "program", SWAPS = [OWN, "even", PROGRAM, "off"];

class ModelView extends AttentionView {
  get kind() { return "Model explorer"; }
  get noun() { return "Model"; }
  get chosenHeads() { return (this.head < 0 ? range(this.data.heads) : [this.head]).map((head) => headName(this.layer, head)); }

  get shown() { return [this.itemName, this.asked, this.place()]; }

  place() {
    const swap = this.swapOf(this.chosenHeads);
    return super.place() + (swap === OWN ? "" : `, ${swap === MIXED ? "some heads swapped" : this.called(swap)}${this.inPart}`);
  }

  /** A swap in words: whose attention a head has. */
  called(swap) { return { [OWN]: "its own", [PROGRAM]: this.task.theirs }[swap] ?? swap; }

  // ---- built once

  build(el) {
    this.loaded = -1; // index of the model that is unpacked
    this.box = make("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", input: () => this.choose({ text: this.box.value }) });
    this.label = make("span", { class: "attnx-label attno-label", "aria-hidden": "true" });
    this.tries = make("span", { class: "attno-tries", role: "group", "aria-label": "Texts to begin with" });
    this.error = make("p", { class: "attnq-error", role: "alert" });
    this.note = make("p", { class: "attnq-note" });
    this.known = make("p", { class: "attno-known", hidden: "" }); // a finger cannot point at a picture and not press it
    this.said = make("p", { class: "attno-said", role: "status", "aria-live": "polite" });
    this.output = make("table", { pointerover: (event) => this.onToken(event), pointerleave: () => this.point(null), click: (event) => this.onToken(event) });
    this.result = make("div", { class: "attno-result" }, this.said,
      make("div", { class: "attnx-scroll", tabindex: "0", role: "group", "aria-label": "Output at every token" }, this.output));
    super.build(el);
    this.root.classList.add("attno");
  }

  /** Where the strength stands first, everything else is folded behind it. */
  mount(el, kind, style, ...parts) {
    if (this.model.get("first") !== "strength") return super.mount(el, kind, style, ...parts);
    this.push = new PushView((strength) => this.pushTo(strength), () => this.paint(), ...parts);
    super.mount(el, kind, style, ...this.push.nodes);
    this.push.more.firstChild.after(this.tools);
  }

  above() {
    const form = make("form", { class: "attnq-box attnq-line", submit: (event) => event.preventDefault() }, this.label, this.box, this.tries, this.error);
    return [form];
  }

  below() { return [this.note, this.known, this.result]; }

  buildControls() {
    const controls = super.buildControls();
    this.swapSelect = dropDown("Its attention: attention of the chosen head", (swap) => this.swap(swap));
    this.reset = smallButton(() => { this.choose({ swaps: {} }); this.swapSelect.focus(); }, "as trained"); // it hides itself
    this.slider = make("input", { type: "range", min: 0, max: 100, step: 5, "aria-label": "How much of it, in per cent",
      input: () => this.choose({ strength: Number(this.slider.value) / 100 }) });
    this.share = make("span", { class: "attno-share" });
    this.shareField = field("how much of it", this.slider, this.share);
    this.headSelect.closest("label").after(field("Its attention", this.swapSelect), this.shareField, this.reset);
    return controls;
  }

  // ---- read for every model, text and swap

  unpacked() {} // models are not packed

  read(index) {
    this.broken = index === this.loaded ? "" : this.take(index);
    const text = this.model.get("text"), problem = this.broken || this.task.refuse(text);
    if (this.box.value !== text) this.box.value = text;
    this.error.textContent = problem;
    this.error.hidden = !problem;
    this.box.setAttribute("aria-invalid", Boolean(problem));
    this.root?.classList.toggle("attno-stale", Boolean(problem));
    if (!problem) this.asked = text;
    return this.compute();
  }

  /** Unpacks a model. Returns why that cannot be, or ""; then what was shown before stays, if there was anything. */
  take(index) {
    const item = this.model.get("items")[index];
    let net, task;
    try {
      [net, task] = [unpackModel(this.model, index), taskOf(item.task, item.config)];
    } catch ({ message }) {
      const problem = `The model ${item.label} cannot be computed: ${message}. Make this page again, model and page by one version of attnlib`;
      if (!this.net) throw new Unreadable(`${problem}.`);
      return `${problem}, or choose another model.`;
    }
    Object.assign(this, { loaded: index, net, task, asked: item.task.texts[0].text });
    this.note.textContent = item.note;
    this.note.hidden = !item.note;
    this.label.textContent = `Type ${task.hint}`;
    this.box.setAttribute("aria-label", this.label.textContent);
    this.tries.replaceChildren(...item.task.texts.map(({ text }) =>
      smallButton(() => this.choose({ text }), visible(text))));
    return "";
  }

  /** What the model makes of the text last asked: as it is, and with its swaps. */
  compute() {
    const { net, task, asked } = this, { n_layers, n_heads } = net.config;
    this.targets = task.targets(asked);
    this.swaps = Object.fromEntries(Object.entries(this.model.get("swaps")).filter(([head, swap]) =>
      net.heads.includes(head) && SWAPS.includes(swap) && (swap !== PROGRAM || this.hasProgram(head))));
    this.swapped = Object.keys(this.swaps).length > 0;
    const own = JSON.stringify([this.loaded, asked]);
    if (own !== this.ownOf) Object.assign(this, { ownOf: own, own: this.answer({}) });
    this.run = this.swapped ? this.answer(this.swaps) : this.own;
    if (this.push) this.readShares();
    const { tokens, attentions } = this.run, rows = tokens.length, cells = rows * rows;
    const masks = [...new Set(Object.values(this.targets))].filter((mask) => mask.length === cells && mask.some(Boolean));
    const names = tokens.map(visible);
    return {
      layers: n_layers, heads: n_heads, rows, columns: rows, cells, crossed: false, keys: names, queries: names, weights: attentions,
      maskOf: range(n_layers).map((layer) => range(n_heads).map((head) => masks.indexOf(this.targets[headName(layer, head)]))),
      mask: (k) => masks[k],
    };
  }

  get strength() { return this.model.get("strength"); }
  get inPart() { return this.strength < 1 ? ` at ${Math.round(100 * this.strength)} %` : ""; }

  hasProgram(head) { return this.task.programmed && head in this.targets; }

  /** The tokens that the model reads, its attention, and its outputs: `writes[i]`, {text, probability}, is at token i. */
  answer(chosen, strength = this.strength) {
    const { net, task, asked } = this, ids = task.ids(asked), tokens = task.names(asked), { n_classes, max_length } = net.config;
    const swaps = Object.fromEntries(Object.entries(chosen).map(([head, swap]) => [head, swap === PROGRAM ? evenly(this.targets[head], ids.length) : swap]));
    let read = net.read(ids, swaps, strength);
    const output = (at) => {
      const { id, probability } = likeliest(read.logits.subarray(at * n_classes, (at + 1) * n_classes));
      return { id, probability, text: task.output(id) };
    };
    const begin = task.begin(asked), writes = [];
    if (!task.generates) for (let at = begin; at < ids.length; at++) writes[at] = output(at);
    for (let count = 0; task.generates && count < task.most; count++) {
      const next = writes[ids.length - 1] = output(ids.length - 1);
      if (next.id === task.end || ids.length === max_length) break;
      ids.push(next.id);
      tokens.push(next.text);
      read = net.read(ids, swaps, strength);
    }
    const right = task.right(asked), texts = writes.slice(begin).map(({ text }) => text);
    const good = right && Array.from({ length: Math.max(right.length, texts.length) }, (_, i) => right[i] === texts[i]);
    return { tokens, attentions: read.attentions, logits: read.logits, writes, begin, texts, right, good };
  }

  /** The share of letters right at every place of the slider; another strength reads it no second time. */
  readShares() {
    const { loaded, asked, swaps } = this, of = JSON.stringify([loaded, asked, swaps]);
    if (of === this.sharesOf) return;
    Object.assign(this, { sharesOf: of, shares: PLACES.map((place) => {
      const letters = this.letters(this.answer(swaps, place));
      return sum(letters.map(({ text, right }) => Number(text === right))) / letters.length;
    }) });
  }

  /** What a run writes, less the end: {text, right, probability of the right one} of every letter. */
  letters({ logits, begin, texts, right }) {
    const { n_classes } = this.net.config, letters = right.filter((text) => text !== "<eos>");
    return letters.map((letter, i) => {
      const at = (begin + i) * n_classes, id = range(n_classes).find((each) => this.task.output(each) === letter);
      return { text: texts[i], right: letter, probability: probabilities(logits.subarray(at, at + n_classes))[id] };
    });
  }

  // ---- built for every model, text and swap

  load() {
    super.load();
    this.markSwaps();
  }

  /** What is folded is drawn when it is opened. */
  get closed() { return Boolean(this.push) && !this.push.more.open; }

  paint(heads) {
    if (!this.closed) super.paint(heads);
    else if (this.dress()) this.showPush();
  }

  announce() { if (!this.closed) super.announce(); }

  /** The chosen head is switched off, or has its own attention again. */
  onHeadAgain() { this.swap(this.swapOf(this.chosenHeads) === OWN ? "off" : OWN); }

  buildHeads() {
    const { caption } = this.heads, hint = "; a second click: off";
    super.buildHeads();
    if (!caption.textContent.endsWith(hint)) caption.append(hint);
  }

  /** A head whose attention is swapped has a dashed frame among the small pictures; what is known of it, they tell. */
  markSwaps() {
    const { heads } = this.model.get("items")[this.loaded];
    for (const { layer, head, button } of this.heads.all) {
      const name = headName(layer, head), swap = this.swaps[name];
      button.classList.toggle("attno-swapped", Boolean(swap));
      const known = [...(swap ? [this.called(swap)] : []), ...(heads[name] ? [heads[name]] : [])].join("; ");
      button.title = placeName(layer, head) + (known && `: ${known}`);
    }
  }

  show() {
    super.show();
    this.offerSwaps();
    this.tell();
    this.showPush();
  }

  showPush() {
    if (!this.push) return;
    const { run, strength, shares, theme } = this, swaps = Object.values(this.swaps), { length } = swaps;
    const heads = `${length} head${length === 1 ? "" : "s"}`, to = swaps.every((swap) => swap === PROGRAM) ? "moved to the letter to copy" : "replaced";
    const asked = `“${this.asked}”, to be written ${this.task.does}. Below each letter, the right one.`;
    this.push.show({ asked, outputs: this.letters(run), strength: length ? strength : 0, shares, moved: `of the attention of ${heads} ${to}` }, theme);
  }

  offerSwaps() {
    const heads = this.chosenHeads, swap = this.swapOf(heads), program = heads.every((head) => this.hasProgram(head));
    offer(this.swapSelect, [...(swap === MIXED ? [[MIXED, "several"]] : []), ...SWAPS.filter((name) => name !== PROGRAM || program).map((name) => [name, this.called(name)])]);
    this.swapSelect.value = swap;
    this.reset.hidden = !this.swapped;
    this.shareField.hidden = !this.swapped || Boolean(this.push);
    this.slider.value = 100 * this.strength;
    this.share.textContent = `${Math.round(100 * this.strength)} %`;
    const said = heads.length === 1 ? this.model.get("items")[this.loaded].heads[heads[0]] ?? "" : "";
    this.known.textContent = said && `${placeName(this.layer, this.head)}: ${said}`;
    this.known.hidden = !said;
  }

  swapOf(heads) {
    const [first, ...others] = heads.map((head) => this.swaps[head] ?? OWN);
    return others.every((other) => other === first) ? first : MIXED;
  }

  /** The outputs in words, and as a table of a column for every token that asks for one. */
  tell() {
    const { run, own, task } = this, columns = Math.max(run.begin + Math.max(run.texts.length, run.right?.length ?? 0), own.tokens.length);
    const verdict = (each) => {
      if (task.generates) return `${each.texts.filter((text) => text !== "<eos>").join("")}${each.good ? (each.good.every(Boolean) ? ", right" : ", wrong") : ""}`;
      return each.good ? `${sum(each.good.map(Number))} of ${each.good.length} outputs right`
        : `outputs ${each.texts.join(" ")} (what is right, this page knows of the texts above only)`;
    };
    const swaps = Object.entries(this.swaps), alike = swaps.length > 1 && swaps.length === this.net.heads.length && new Set(Object.values(this.swaps)).size === 1;
    const names = alike ? `all heads ${this.called(swaps[0][1])}` : swaps.map(([head, swap]) => `${head} ${this.called(swap)}`).join(", ");
    const problem = task.generates ? task.asked(this.asked) : "";
    this.said.textContent = this.swapped ? `With ${names}${this.inPart}: ${problem}${verdict(run)} (as trained: ${verdict(own)})` : capital(problem + verdict(run));
    const line = (name, texts, marks = []) => make("tr", {}, make("th", { scope: "row" }, name), ...range(columns - task.skipped).map((i) => {
      const at = i + task.skipped, text = texts[at], wrong = marks[at] === false, written = text === undefined ? "" : visible(text);
      return make("td", { ...(at < run.tokens.length ? { "data-query": at } : {}), ...(wrong ? { class: "attno-wrong" } : {}) }, written, ...(wrong && written ? [make("span", { class: "attnx-hidden" }, " wrong")] : []));
    }));
    const at = (each, values) => [...Array(each.begin), ...values];
    const outputs = (name, each) => line(name, at(each, each.texts), at(each, each.good ?? []));
    this.output.replaceChildren(make("tbody", {}, line("reads", run.tokens), outputs(this.swapped ? "writes now" : "writes", run),
      ...(this.swapped ? [outputs("as trained", own)] : []), ...(run.right ? [line("right", at(run, run.right))] : [])));
    if (this.told !== this.asked && this.output.offsetWidth) this.showWritten(run.begin - task.skipped);
  }

  /** Scrolls the table, where it is too wide, to the two tokens before what is written: once for a text. */
  showWritten(column) {
    const [name, ...cells] = this.output.rows[0].cells;
    this.output.parentElement.scrollLeft = cells[Math.max(column - 2, 0)].offsetLeft - name.offsetWidth;
    this.told = this.asked;
  }

  describe(q) {
    const written = this.run.writes[q];
    return super.describe(q) + (written ? ` It writes '${visible(written.text)}' with probability ${written.probability.toFixed(2)}.` : "");
  }

  // ---- what the reader does

  /** Where no head is swapped, the slider moves all of them to the program's attention. */
  pushTo(strength) {
    const all = Object.fromEntries(this.net.heads.filter((head) => this.hasProgram(head)).map((head) => [head, PROGRAM]));
    this.choose({ strength, ...(this.swapped ? {} : { swaps: all }) });
  }

  swap(swap) {
    const others = Object.entries(this.model.get("swaps")).filter(([head]) => !this.chosenHeads.includes(head));
    this.choose({ swaps: Object.fromEntries([...others, ...(swap === OWN ? [] : this.chosenHeads.map((head) => [head, swap]))]) });
  }

  /** Another model may not be able to read the text: then it begins with its own. */
  onModel() {
    this.load();
    if (!this.broken && this.task.refuse(this.model.get("text"))) this.choose({ text: this.asked });
    this.announce();
  }

  /** Another text: of a sum, the row that was chosen behind the problem stays where it was from its end. */
  onText() {
    const { begin } = this.run, query = this.model.get("query");
    this.load();
    if (this.task.generates && this.run.begin !== begin && query >= begin) this.choose({ query: Math.min(query - begin + this.run.begin, this.data.rows - 1) });
  }

  reactions() {
    const loadAll = () => { this.load(); this.announce(); };
    return { ...super.reactions(), item: () => this.onModel(), text: () => this.onText(), swaps: loadAll, strength: loadAll };
  }
}

/** Attention that is the same on all cells of a mask's row; a row that selects nothing is zero. */
function evenly(mask, tokens) {
  const cells = range(tokens).map((q) => sum([...mask.subarray(q * tokens, (q + 1) * tokens)]) || 1);
  return Float32Array.from(mask, (cell, i) => cell / cells[Math.floor(i / tokens)]);
}

function likeliest(logits) {
  const all = probabilities(logits), probability = Math.max(...all);
  return { id: all.indexOf(probability), probability };
}

function probabilities(logits) {
  const highest = logits.reduce((most, value) => Math.max(most, value), -Infinity), powers = [...logits].map((value) => Math.exp(value - highest)), total = sum(powers);
  return powers.map((power) => power / total);
}

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  try {
    const explorer = new ModelView(model, el);
    return connect(explorer, explorer.reactions());
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    el.replaceChildren(make("section", { class: "attnx" }, make("p", { class: "attnq-error", role: "alert" }, error.message)));
    return () => {};
  }
}

export default { render };
