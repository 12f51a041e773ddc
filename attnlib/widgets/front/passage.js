// Passage: the prompt and what was generated as running text, the prompt tinted by what one generated token drew
// on, and a list of the largest entries beside it.
//
// May be touched for: the text and the list. Which token is shown is the owner's business.

import { isolated, LONGEST, make, order, written } from "./common.js";
import { BLANK, shade, tintNode } from "./themes.js";
import { tokenName } from "./generation_data.js";

const TOP = 8; // entries of the list

export class Passage {
  /**
   * `react` holds what the owner does: point(place) and pick(place), where a place is {k}, a prompt token, {g}, a
   * generated one, or empty; key(event), pressed on a generated token.
   */
  constructor(react) {
    const caption = (text) => make("p", { class: "attnx-caption" }, text);
    this.promptText = make("div", { class: "attng-text", role: "group", "aria-label": "Prompt", tabindex: "0" });
    this.generatedText = make("div", { class: "attng-text", role: "group", "aria-label": "Generated tokens; the arrow keys move",
      keydown: react.key });
    this.promptCaption = caption("Prompt");
    this.list = make("ol", { class: "attng-top" });
    this.listCaption = caption("");
    this.node = make("div", { class: "attng-body", pointerover: (event) => react.point(this.at(event)),
      click: (event) => react.pick(this.at(event)), pointerleave: () => react.point({}) },
      make("div", { class: "attng-prompt" }, this.promptCaption, this.promptText),
      make("div", {}, caption("Generated"), this.generatedText, make("div", { class: "attng-list" }, this.listCaption, this.list)));
  }

  /** What a node of the text or the list stands for. */
  at(event) {
    const { k, g } = event.target.closest?.("[data-k], [data-g]")?.dataset ?? {};
    return { ...(k === undefined ? {} : { k: Number(k) }), ...(g === undefined ? {} : { g: Number(g) }) };
  }

  // ---- built for every example, and again for every token that comes while a model writes

  write(data) {
    this.data = data;
    this.listed = "";
    this.promptNodes = [];
    this.promptText.replaceChildren(...written(data.prompt.slice(0, LONGEST), (text, k) =>
      (this.promptNodes[k] = make("span", { class: "attng-word", "data-k": k }, text))));
    this.promptText.scrollTop = 0;
    this.writeGenerated();
  }

  writeGenerated() {
    this.generatedNodes = [];
    this.generatedText.replaceChildren(...written(this.data.generated.slice(0, LONGEST), (text, g) =>
      (this.generatedNodes[g] = make("button", { type: "button", class: "attng-word", "data-g": g }, text))));
  }

  // ---- drawn for every token in focus

  /** `values` of the prompt tokens; `top`, the value of the strongest colour; `hidden` tokens are faint. */
  tint(values, top, k, hidden, theme) {
    this.promptCaption.textContent = `Prompt; the strongest colour is ${this.data.number(top)}`;
    this.promptNodes.forEach((node, i) => {
      tintNode(node, values[i] ? theme[values[i] < 0 ? "below" : "above"][shade(Math.abs(values[i]), top)] : BLANK);
      node.classList.toggle("attng-hidden", Boolean(hidden?.[i]));
      node.classList.toggle("attnx-chosen", i === k);
    });
  }

  /** Outlines the generated token in focus; the tab key reaches the chosen one. */
  mark(g, chosen) {
    this.generatedNodes.forEach((node, i) => {
      node.classList.toggle("attnx-chosen", i === g);
      node.setAttribute("aria-pressed", i === chosen);
      node.tabIndex = i === chosen ? 0 : -1;
    });
  }

  fill(values, g, layer) {
    const { data } = this, places = order(values, TOP), top = values[places[0]];
    const content = [g, layer, ...places].join();
    if (content === this.listed) return; // a finger is on an entry that must stay until it is lifted
    this.listed = content;
    this.listCaption.textContent = isolated(`${tokenName(data, g)} is attributed most to`);
    this.list.replaceChildren(...places.map((k) => make("li", { "data-k": k },
      make("span", { class: "attng-name", title: data.keys[k] }, data.keys[k]), make("span", { class: "attng-place" }, String(k)),
      make("span", { class: "attng-bar", "aria-hidden": "true" }, make("span", { style: `width: ${(100 * values[k]) / top}%` })),
      make("span", { class: "attng-value" }, data.number(values[k])))));
  }
}
