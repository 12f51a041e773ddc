// AskBox: where a reader of a live notebook types a text for a function in the kernel; a static page says that
// there was such a box.
//
// May be touched for: how a text is typed and sent. Who answers is attnlib.widgets.explorer.Asking.

import { allow, make } from "./common.js";
import "./ask_box.css";

export class AskBox {
  /** `words`: label of the box, placeholder, verb on the button, doing (said meanwhile), rows (1: Enter asks). */
  constructor(model, words) {
    this.model = model;
    this.words = words;
    this.nodes = model.get("recorded") ? [make("p", { class: "attnq-note" }, words.note)] : model.get("asks") ? [this.build()] : [];
  }

  build() {
    const { label, placeholder, verb, rows } = this.words, one = rows === 1;
    const keydown = (event) => { if (event.key === "Enter" && (one || event.ctrlKey || event.metaKey)) this.ask(event); };
    this.box = one
      ? make("input", { type: "text", "aria-label": label, placeholder, keydown, autocomplete: "off", spellcheck: "false" })
      : make("textarea", { rows, "aria-label": label, placeholder, keydown });
    this.box.value = this.model.get("asked");
    this.button = make("button", { type: "submit", class: "attnq-go", title: one ? "Enter" : "Ctrl + Enter" }, verb);
    this.progress = make("span", { class: "attnq-progress" });
    this.error = make("p", { class: "attnq-error", role: "alert" });
    const form = make("form", { class: `attnq-box${one ? " attnq-line" : ""}`, submit: (event) => this.ask(event) },
      this.box, this.button, this.progress, this.error);
    this.show();
    return form;
  }

  ask(event) {
    event.preventDefault();
    if (this.model.get("busy")) return;
    this.model.set("asked", this.box.value);
    this.model.save_changes();
    this.model.send({ text: this.box.value });
  }

  /** While an answer is computed, says `doing`. */
  show(doing = this.words.doing) {
    if (!this.box) return;
    const busy = this.model.get("busy"), error = this.model.get("error");
    allow(this.button, !busy);
    this.progress.textContent = busy ? doing : "";
    this.error.textContent = error;
    this.error.hidden = !error;
  }
}
