// LanguageModelExplorer: a GenerationView of what a language model writes in the page itself, as it writes; and of what
// was recorded, which stays where no model is loaded.
//
// May be touched for: how the model, the box, the switches and the picture follow each other. The model is
// ../live/model.js; what is read from its words, live_run.js.

import { allow, capital, isolated, make, ordinal, range, smallButton, visible } from "./common.js";
import { connect, dropDown, field, offer, tableHead } from "./view.js";
import { GenerationView } from "./generation_view.js";
import { tokenName, unpack } from "./generation_data.js";
import { LiveBox } from "./live_box.js";
import { lasting } from "./live_file.js";
import { ASKED, LiveRun, liveShare, nameOf } from "./live_run.js";
import { LiveSwitches } from "./live_switches.js";
import { LiveModel } from "./../live/model.js";
import "./language_model_explorer.css";

const SPECIAL = /^<\|.*\|>$/s;
const PATIENCE = 60; // seconds: occlusion that takes longer begins when it is asked for
const OWN = "as it is", CHANGED = "with switches"; // the two texts that stand beside each other

class LanguageModelView extends GenerationView {
  get kind() { return "Language model explorer"; }
  get noun() { return "Text"; }
  get writing() { return Boolean(this.run && this.run === this.writer); }

  // ---- built once

  above() {
    const get = (name) => this.model.get(name);
    this.runs = {}; // by name: what was written last
    this.reading = "rollout";
    this.wanted = "relevance"; // what is shown as soon as it is there
    this.computing = null; // the reading that is computed now, and of which word: {reading, g}
    this.head = -1;
    this.ignore = new Set(get("ignore"));
    this.box = new LiveBox({ file: get("file"), trials: get("trials"), asked: get("asked") }, {
      open: (blob, how) => this.open(blob, how), write: () => this.write(), measure: () => this.measure(), anew: () => this.switches.clear() });
    this.switches = new LiveSwitches({ change: () => this.write() });
    this.texts = make("tbody");
    this.both = make("div", { class: "attnx-scroll", tabindex: "0", role: "group", "aria-label": "What it writes", hidden: "" },
      make("table", { class: "attnw-texts" }, tableHead("the model", "writes", "mean probability of a token"), this.texts));
    this.measures = make("table", { class: "attnw-measures" });
    this.panel = make("div", { class: "attnw-panel", hidden: "" }, this.both);
    this.besides = make("div", { class: "attnx-scroll", tabindex: "0", role: "group", "aria-label": "Methods side by side" }, this.measures);
    return [...this.box.nodes, this.panel];
  }

  buildControls() {
    const controls = super.buildControls();
    this.controls = controls;
    this.readingSelect = dropDown("What is shown of every word", (reading) => {
      this.wanted = reading;
      this.chooseReading(reading);
      this.explain();
    });
    this.readingField = field("Show", this.readingSelect);
    this.headSelect = dropDown("Head", (head) => { this.head = Number(head); this.load(); });
    this.headField = field("Head", this.headSelect);
    this.asker = smallButton(() => {
      this.wanted = "blankOut";
      this.compute("blankOut");
    });
    this.itemField.after(this.headField);
    return controls;
  }

  build(el) {
    super.build(el);
    this.details.after(this.besides);
    this.verdict = make("p", { class: "attnw-verdict", role: "status", hidden: "" });
    this.passage.node.before(make("div", { class: "attnx-controls attnw-main" }, this.readingField, this.asker), this.verdict);
    this.likelyCaption = make("p", { class: "attnx-caption" });
    this.likely = make("ol", { class: "attnw-likely" });
    this.likelyBox = make("div", { hidden: "" }, this.likelyCaption, this.likely);
    this.passage.promptText.after(this.likelyBox);
  }

  // ---- a text of the reader's, or one that was recorded

  /** The drop-down of texts has what was written here before what was recorded. */
  chosenItem() {
    const index = super.chosenItem(), names = Object.keys(this.runs);
    if (!names.length) return index;
    this.itemField.hidden = false;
    this.itemSelect.prepend(...names.map((name) => make("option", { value: name }, `yours, ${name}`)));
    if (!this.run) return index;
    this.itemSelect.value = this.runName;
    this.itemName = this.itemSelect.selectedOptions[0].textContent;
    return 0;
  }

  chooseItem(value) {
    this.runName = value in this.runs ? value : "";
    if (this.runName) this.load();
    else if (Number(value) === this.model.get("item")) this.load();
    else super.chooseItem(value);
  }

  /** What was written here and is shown, if it is. */
  get run() { return this.runs[this.runName]; }

  read(index) {
    const { run } = this;
    if (run && !run.readings.some(([key]) => key === this.reading)) this.reading = "rollout";
    return run ? run.data(this.reading, this.head) : unpack(this.model, index);
  }

  load() {
    super.load();
    const { run } = this;
    for (const node of [this.readingField, this.besides]) node.hidden = !run;
    this.panels.hidden = Boolean(run) && ASKED.includes(this.reading); // it has no layers, and other words may not have it
    if (!run) this.asker.hidden = this.likelyBox.hidden = this.verdict.hidden = true;
    this.headField.hidden = !run || this.reading !== "attention";
    if (!run) return;
    offer(this.readingSelect, run.readings);
    this.readingSelect.value = this.reading;
    offer(this.headSelect, [[-1, "mean of heads"], ...range(run.about.heads).map((head) => [head, head + 1])]);
    this.headSelect.value = this.head;
  }

  chooseReading(reading) {
    this.reading = reading;
    this.load();
    this.announce();
  }

  // ---- the model

  async open(blob, how) {
    this.engine?.close();
    this.engine = await LiveModel.open(blob, { parts: this.model.get("parts"), ...how });
    this.box.chatField.hidden = !this.engine.about.chat;
    this.switches.take(this.engine.about);
    this.box.more.append(this.switches.node, this.controls);
    this.panel.hidden = false;
    this.measure();
    return this.engine.about.name;
  }

  /** Says how long what is typed takes to be read, where that is long. */
  async measure() {
    const { text, chat } = this.box.request;
    if (!text || this.box.busy) return;
    const { ids } = await this.engine.encode(text, { chat }), seconds = this.engine.seconds(ids.length);
    if (text === this.box.request.text) this.box.size.textContent = `${ids.length} tokens in the prompt${seconds > 1.5 ? `; about ${lasting(seconds)} until the first word` : ""}`;
  }

  /** What is typed, as tokens: of the prompt, and of what is to follow it. */
  async tokens({ text, chat, continuation, newTokens }) {
    if (!text) throw new Error("There is no prompt. Type one first.");
    const prompt = await this.engine.encode(text, { chat }), before = prompt.ids.length, { longest } = this.engine.about;
    prompt.special ??= prompt.texts.map((each) => SPECIAL.test(each));
    let forced = null;
    if (continuation) {
      const { ids } = await this.engine.encode(chat ? continuation : text + continuation, { chat: false });
      forced = chat ? ids : ids.slice(before);
      if (!forced.length || (!chat && prompt.ids.some((id, k) => id !== ids[k]))) {
        throw new Error(`The continuation does not begin a word of its own behind the prompt: put a blank before it, or take one from the prompt's end.`);
      }
    }
    const all = before + (forced?.length ?? newTokens);
    if (all > longest) throw new Error(`${before} tokens of the prompt and ${all - before} more are ${all}; this page reads ${longest} at most. Shorten the prompt.`);
    return { prompt, forced };
  }

  /** Writes what is asked: as the model is, if that is not there yet, and then with the switches, if there are any. */
  async write() {
    const { request } = this.box, { switches } = this, key = JSON.stringify(request);
    this.computing = null;
    const done = await this.box.goes("Reading the prompt", async (signal, onProgress) => {
      const { prompt, forced } = await this.tokens(request), typed = JSON.stringify([request.text, request.chat]);
      signal.throwIfAborted();
      if (this.typed !== typed) switches.forget();
      this.typed = typed;
      const how = { newTokens: request.newTokens, temperature: request.temperature, seed: request.seed, forced, signal, onProgress };
      if (this.runs[OWN]?.key !== key) {
        await this.follow(OWN, prompt, how);
        this.runs[OWN].key = key; // it is whole
      }
      if (switches.some) return this.follow(CHANGED, this.runs[OWN].prompt, { ...how, changes: switches.changes, blanked: switches.blanked });
      delete this.runs[CHANGED];
      if (this.runName !== OWN) this.chooseItem(OWN);
    });
    this.compareTexts();
    if (!this.run) return;
    this.offerBlankOut();
    if (done) this.explain();
  }

  /** Shows words as they are made; what was shown stays until the first is there. */
  async follow(name, prompt, how) {
    const label = name === OWN ? OWN : `with ${this.switches.words}`;
    const run = (this.writer = new LiveRun(this.engine.about, prompt, this.ignore, { label, forced: Boolean(how.forced) }));
    try {
      for await (const word of this.engine.write(prompt.ids, how)) {
        run.words.push(word);
        if (run.words.length === 1) {
          this.runs = { ...(name === OWN ? {} : this.runs), [name]: run };
          this.runName = name;
          this.load();
        } else if (this.run === run) {
          this.grow(word.text, run.row(this.reading, run.words.length - 1, this.head));
        }
        this.compareTexts();
      }
    } finally {
      if (this.writer === run) this.writer = null;
      if (this.run === run) {
        this.settle(name === OWN ? this.box.placeOf(this.data.generated) : this.model.get("generated")); // the same word of both
        this.announce();
      }
    }
  }

  /** Computes AttnLRP of the word that is chosen, and then its occlusion, if that does not take long and either is to be shown. */
  async explain() {
    const { run, box, generated: g } = this, asked = () => this.run === run && this.generated === g;
    if (!run || this.runName !== OWN || !ASKED.includes(this.wanted) || this.computing?.g === g) return;
    if (this.wanted !== this.reading && run.asked[this.wanted]?.has(g)) this.chooseReading(this.wanted);
    if (box.busy && !this.computing) return; // it writes
    if (!run.has("relevance", g)) await this.compute("relevance");
    if (!asked() || !run.has("relevance", g) || run.has("blankOut", g) || run.declined.has(g) || this.computing?.g === g) return;
    if (this.secondsOf(g) <= PATIENCE) await this.compute("blankOut");
  }

  /** Whether a reading of word g is computed now. */
  computes(reading, g) { return this.computing?.g === g && this.computing.reading === reading; }

  secondsOf(g) { return this.engine.seconds(this.run.columns + g, { blank: true }); }

  /** AttnLRP ("relevance") of the word that is chosen, or what the model does without each token of the prompt ("blankOut"). */
  async compute(reading) {
    const { run, engine } = this, g = this.generated, name = tokenName(this.data, g), mine = (this.computing = { reading, g });
    this.offerBlankOut();
    this.showVerdict();
    const doing = reading === "relevance" ? "Going back through the layers" : "Leaving out one token after the other";
    const done = await this.box.goes(`${doing}, for ${name}`, async (signal, onProgress) => {
      run.asked[reading].set(g, await engine[reading](run.idsUpTo(g), run.columns + g, { signal, onProgress }));
    });
    if (this.computing === mine) {
      this.computing = null;
      if (!done && reading === "blankOut") run.declined.add(g);
    }
    if (!this.run) return;
    if (done && this.run === run && this.wanted === reading) this.chooseReading(reading);
    else if (done && this.run === run) this.load();
    else this.offerBlankOut();
  }

  onChoice() {
    super.onChoice();
    if (this.data) this.explain();
  }

  // ---- drawn for every token in focus

  told() {
    if (this.writing) this.box.tell(`Writing: ${this.run.words.length} token${this.run.words.length > 1 ? "s" : ""} …`);
  }

  showFocus() {
    super.showFocus();
    this.switches.point(this.run ? this.key : -1, this.data.keys);
    if (!this.run) return;
    const { run, focus: { g } } = this;
    this.offerBlankOut();
    this.showMeasures(g);
    this.showLikely(g);
    this.showVerdict();
    if (!run.has(this.reading, g)) this.say("", `${capital(nameOf(this.reading))} of ${tokenName(this.data, g)} is not computed yet: choose the word.`);
  }

  /** The tokens that the model held likeliest in the place of word g, as bars. */
  showLikely(g) {
    const { likely = [] } = this.run.words[g] ?? {};
    this.likelyBox.hidden = !likely.length;
    this.likelyCaption.textContent = isolated(`The model's likeliest tokens in the place of ${tokenName(this.data, g)}`);
    this.likely.replaceChildren(...likely.map(({ text, share }) => make("li", {}, make("span", { class: "attnw-word" }, visible(text)),
      make("span", { class: "attng-bar", "aria-hidden": "true" }, make("span", { style: `width: ${100 * share}%` })),
      make("span", { class: "attnw-share" }, share >= 0.005 ? share.toFixed(2) : "<0.01"))));
  }

  /** Where the source of the word that the prompt is about stands by rollout and by occlusion, if it is known; whatever word is chosen. */
  showVerdict() {
    const { run, box: { source, word } } = this, g = source && this.runName === OWN ? run.words.findIndex(({ text }) => text.trim() === word) : -1;
    const found = g < 0 ? null : run.placeOf(source, "rollout", g);
    this.verdict.hidden = !found;
    if (!found) return;
    const known = [...ASKED, "rollout"].filter((reading) => run.has(reading, g));
    const ranks = known.map((reading) => `${ordinal(run.placeOf(source, reading, g).place)} by ${nameOf(reading)}`), last = ranks.pop();
    const state = (reading) => (this.computes(reading, g) ? "being computed" : "not computed yet");
    const others = ASKED.filter((reading) => !run.has(reading, g)).map((reading) => ` ${capital(nameOf(reading))} is ${state(reading)}.`);
    this.verdict.textContent = `The source of ${tokenName(this.data, g)} is '${source}'. Of ${found.of} tokens it ranks ${[ranks.join(", "), last].filter(Boolean).join(" and ")}.${others.join("")}`;
  }

  offerBlankOut() {
    const { run, generated: g } = this, own = this.runName === OWN;
    const held = this.asker === document.activeElement;
    this.asker.hidden = run.has("blankOut", g) || this.computes("blankOut", g);
    if (held && this.asker.hidden) this.readingSelect.focus(); // what had the focus is gone
    allow(this.asker, own && !this.box.busy);
    this.asker.title = own ? "How much less likely the word gets without each token of the prompt" : "Of what the model writes as it is";
    this.asker.textContent = isolated(`occlusion for ${tokenName(this.data, g)}, about ${lasting(this.secondsOf(g))}`);
  }

  showMeasures(g) {
    const { names, rows } = this.run.beside(g, this.hidden), { keys } = this.data;
    this.measures.replaceChildren(make("caption", { class: "attnx-caption" }, isolated(`Side by side, for ${tokenName(this.data, g)}: means over layers`)),
      tableHead("the largest", ...names), make("tbody", {}, ...rows.map(({ k, values }) => make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, keys[k]), ` (${k})`),
        ...values.map(([value, most]) => make("td", most ? { class: "attnw-most" } : {}, value))))));
  }

  /** What the model writes as it is, and with the switches: from where they part, in another ink. */
  compareTexts() {
    const { [OWN]: own, [CHANGED]: changed } = this.runs;
    const parted = own && changed ? own.words.findIndex(({ id }, g) => id !== changed.words[g]?.id) : -1;
    const line = (run) => {
      const texts = run.words.map(({ text }) => text), from = parted < 0 ? texts.length : parted;
      return make("tr", {}, make("th", { scope: "row" }, run.label), make("td", { class: "attnw-text" }, texts.slice(0, from).join(""), make("span", { class: "attnw-parted" }, texts.slice(from).join(""))),
        make("td", {}, liveShare(Math.exp(run.logp / run.words.length))));
    };
    this.texts.replaceChildren(...[own, changed].filter(Boolean).map(line));
    this.both.hidden = !changed && !own?.forced;
  }
}

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new LanguageModelView(model, el), letGo = connect(explorer, explorer.reactions());
  return () => {
    explorer.box.stop();
    explorer.engine?.close();
    letGo();
  };
}

export default { render };
