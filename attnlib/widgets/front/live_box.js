// LiveBox: the way to a language model that runs in the page. First what it needs and a button that loads it; then a
// form for a prompt, with what is to follow it and how words are chosen, and a line for what goes on.
//
// May be touched for: what a reader types and presses before a model writes. What it wrote is the explorer's business.

import { capital, make, smallButton } from "./common.js";
import { checkbox, dropDown, field } from "./view.js";
import { fetched, forget, isKept, isPhone, lacking, memoryFor, origin, sizeOf, unpacked } from "./live_file.js";
import "./ask_box.css";
import "./live_box.css";

const number = (label, attributes) => make("input", { type: "number", "aria-label": label, ...attributes });

export class LiveBox {
  /**
   * `told`: the file, {name, file, bytes, sha256, inside}, trials, {name, text, continuation, word, chat, note, source}, and asked, a first
   * prompt. `react` holds what the owner does: open(blob, {sha256, signal, onProgress}), which gives the model's own name;
   * write(); measure(), when what is typed is another; anew(), when it is another altogether.
   */
  constructor(told, react) {
    Object.assign(this, { ...told, react });
    this.say = make("p", { class: "attnq-note" });
    this.progress = make("progress", { max: 1, "aria-label": "Progress" });
    this.doing = make("span", { class: "attnq-progress" });
    this.stopper = smallButton(() => this.stop(), "Stop");
    this.going = make("div", { class: "attnw-going", hidden: "" }, this.progress, this.doing, this.stopper);
    this.error = make("p", { class: "attnq-error", role: "alert", hidden: "" });
    this.nodes = [make("div", { class: "attnw" }, this.buildDoor(), this.buildForm(), this.going, this.error)];
    this.form.hidden = true;
    if (this.from === "page" && !this.lacks && !isPhone()) addEventListener("load", () => this.load(), { once: true });
  }

  // ---- the door: before the model is there

  buildDoor() {
    const { name, file, bytes } = this.file, size = sizeOf(bytes), door = make("div", { class: "attnw-door" }, this.say);
    this.lacks = lacking(bytes);
    this.from = origin(this.file);
    const about = `${name} can run in this page, so that you can type to it. `;
    if (this.lacks) {
      this.say.textContent = `${about}But ${this.lacks}. What was recorded is below.`;
      return (this.door = door);
    }
    const needs = `It takes ${sizeOf(memoryFor(bytes))} of memory; ${isPhone() ? "a phone may not have that, and then this page begins anew. " : ""}` +
      "what you type stays on this device.";
    this.picker = make("input", { type: "file", accept: ".gguf", "aria-label": `The file ${file}`, change: () => this.load(this.picker.files[0]) });
    const chooser = (label) => make("label", { class: "attnw-file" }, make("span", {}, label), this.picker);
    const button = (text) => make("button", { type: "button", class: "attnq-go", click: () => this.load() }, text);
    if (this.from === "page") {
      door.append(button(`Start ${name} (${size}, in this page)`));
      this.say.textContent = `${about}Ready in a few seconds. ${needs}`;
    } else if (this.from === "http") {
      const go = button(`Load ${name} (${size})`);
      door.append(go, chooser("or choose the file"));
      this.say.textContent = `${about}It comes from the folder of this book, once, and is ready two seconds later. ${needs}`;
      isKept(this.file).then((kept) => {
        if (!kept) return;
        go.textContent = `Start ${name} (${size}, kept by this browser)`;
        this.say.textContent = `${about}It came on an earlier visit: ready in about two seconds. ${needs}`;
      });
    } else {
      door.append(chooser(`Choose ${file} (${size})`));
      this.say.textContent = `${about}A page from disk cannot read other files by itself: choose it once, from the folder models ` +
        `of this book. Ready about two seconds later. ${needs}`;
    }
    return (this.door = door);
  }

  /** Loads the model, from a file that was chosen or from where it can be had. */
  async load(chosen) {
    const fetching = !chosen && this.from === "http";
    this.door.hidden = true;
    const done = await this.goes(`Loading ${this.file.name}`, async (signal, onProgress) => {
      const blob = chosen ?? (fetching ? await fetched(this.file, { signal, onProgress }) : await unpacked());
      this.doing.textContent = `Reading ${this.file.name} …`;
      const another = chosen && chosen.size !== this.file.bytes; // any other file has to be this page's own
      try {
        this.introduce(await this.react.open(blob, { sha256: another ? "" : this.file.sha256, signal, onProgress }), another);
      } catch (error) {
        if (fetching && !signal.aborted) await forget(this.file);
        throw error;
      }
    });
    this.door.hidden = done;
    this.form.hidden = !done;
    this.picker.value = "";
    if (!done) return;
    if (this.text.value) this.write();
    else if (this.trials.length) this.try(this.trials[0]);
    else this.text.focus();
  }

  /** Says which model this is, by its file. */
  introduce(name, another) {
    const own = make("bdi", {}, name), { name: made } = this.file;
    (another ? this.note : this.more.lastChild)[another ? "before" : "after"](this.who);
    if (another) this.who.replaceChildren(`This is another model than ${made}, for which this page was made: its file says “`, own, "”.");
    else this.who.replaceChildren(`The file has the checksum of ${made}; the name in it is “`, own, "”.");
  }

  // ---- the form: what is asked

  buildForm() {
    this.text = make("textarea", { rows: 3, "aria-label": "Your prompt", placeholder: "A prompt to continue", input: () => this.onInput("", ""),
      keydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.submit(event); } });
    this.text.value = this.asked;
    this.forced = make("input", { type: "text", "aria-label": "Continuation to force", autocomplete: "off", spellcheck: "false",
      placeholder: "words of yours in place of the model's; begin with a blank where a word begins" });
    [this.chat, this.chatField] = checkbox(() => this.onInput(this.note.textContent, this.word), { title: "In the form in which the model was taught to answer" }, make("span", {}, "as a chat"));
    this.count = number("Tokens: words to write at most", { min: 1, max: 512, value: 24 });
    this.temperature = number("Temperature; 0 takes the likeliest word", { min: 0, max: 5, step: 0.1, value: 0 });
    this.seed = number("Seed of the draws", { min: 0, max: 4294967295, value: 0 });
    this.who = make("p", { class: "attnq-note attnw-note" });
    this.note = make("p", { class: "attnq-note attnw-note" });
    this.size = make("span", { class: "attnq-progress" });
    this.tries = dropDown("Prompt to try", (at) => { if (at) this.try(this.trials[at]); }, [...this.trials.map(({ name }, at) => [at, name]), ["", "your own"]]);
    this.tries.value = "";
    const tried = field("Prompt", this.tries);
    tried.hidden = !this.trials.length;
    this.more = make("details", { class: "attnx-details attnw-more" }, make("summary", {}, "more"),
      make("label", { class: "attnw-forced" }, make("span", {}, "Force"), this.forced),
      make("div", { class: "attnx-controls attnw-how" }, this.chatField, field("Tokens", this.count), field("Temperature", this.temperature), field("Seed", this.seed)));
    this.form = make("form", { class: "attnq-box", submit: (event) => this.submit(event) },
      make("div", { class: "attnw-tries" }, tried), this.note, this.text,
      make("button", { type: "submit", class: "attnq-go", title: "Ctrl + Enter" }, "Write"), this.size, this.more);
    return this.form;
  }

  /** What is asked, as the engine takes it. */
  get request() {
    const amount = (input, low, high) => Math.min(Math.max(Number(input.value) || 0, low), high);
    return { text: this.text.value, chat: this.chat.checked, continuation: this.forced.value, newTokens: Math.round(amount(this.count, 1, 512)),
      temperature: amount(this.temperature, 0, 5), seed: Math.round(amount(this.seed, 0, 2 ** 32 - 1)) };
  }

  /** A prompt that is offered takes the place of what was typed, and is written at once. */
  try(trial) {
    const { text, continuation, chat, note, word } = trial;
    this.text.value = text;
    this.forced.value = continuation;
    this.chat.checked = chat && !this.chatField.hidden;
    this.onInput(note, word, trial);
    this.react.anew();
    this.write();
  }

  /** The place of the word that the prompt is about, among words as texts: the first if it is about none. */
  placeOf(words) { return Math.max(words.findIndex((text) => this.word && text.trim() === this.word), 0); }

  /** Another prompt: what there is to see in it, and the word that it is about. */
  onInput(note, word, trial = null) {
    this.note.textContent = note;
    this.word = word;
    this.tries.value = trial ? this.trials.indexOf(trial) : "";
    this.source = trial?.source ?? "";
    this.size.textContent = "";
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.react.measure(), 300);
  }

  submit(event) {
    event.preventDefault();
    this.write();
  }

  write() { this.react.write(); }

  // ---- what goes on

  /**
   * Does a work that can be stopped: `work(signal, onProgress)`. What went before it is stopped, and has ended when it
   * begins. Returns whether it was done: a work that failed says why, one that was stopped says nothing.
   */
  goes(doing, work) {
    this.stop();
    const stopper = (this.stopping = new AbortController()), before = this.latest;
    this.latest = (async () => {
      await before;
      return this.goesNow(doing, work, stopper);
    })();
    return this.latest;
  }

  async goesNow(doing, work, stopper) {
    const { signal } = stopper, current = () => this.stopping === stopper;
    if (signal.aborted) return false;
    this.tell(`${doing} …`);
    this.error.hidden = true;
    this.going.hidden = false;
    try {
      await work(signal, (share) => { if (current()) this.progress.value = share; });
      return !signal.aborted;
    } catch (error) {
      if (!signal.aborted) this.fail(error.message);
      return false;
    } finally {
      if (current()) {
        if (this.going.contains(document.activeElement)) this.text.focus(); // the button to stop it goes
        this.going.hidden = true;
        this.stopping = null;
      }
    }
  }

  get busy() { return Boolean(this.stopping); }

  stop() { this.stopping?.abort(); }

  /** Says what is done now; how far it is, is not known yet. */
  tell(doing) {
    this.doing.textContent = doing;
    this.progress.removeAttribute("value");
  }

  fail(message) {
    this.error.textContent = capital(message);
    this.error.hidden = false;
  }
}
