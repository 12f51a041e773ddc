// PushView: what a model writes as a row of tiles, a slider for how much of its heads' attention is replaced, and over
// the slider a curve of the letters right at each of its places. All else stands behind "more".
//
// May be touched for: how tiles, slider and curve look. The numbers are model_explorer.js's.

import { canvas, make, range, sum, surface, visible } from "./common.js";
import { scaleOf } from "./themes.js";
import "./push_view.css";

const PUSH_STEP = 5; // per cent, of the slider and of the curve
export const PLACES = range(100 / PUSH_STEP + 1).map((i) => (i * PUSH_STEP) / 100);
const CURVE_HIGH = 132, CURVE_TOP = 12, CURVE_BELOW = 10, CURVE_BESIDE = 8; // pixels of the curve; beside it, half of the slider's thumb

export class PushView {
  /** `choose` is told a strength; `opened`, that what is folded was opened or closed. */
  constructor(choose, opened, ...folded) {
    this.asked = make("p", { class: "attnp-asked" });
    this.tiles = make("ol", { class: "attnp-tiles" });
    this.score = make("p", { class: "attnp-score" });
    this.how = make("p", { class: "attnp-how" });
    this.picture = canvas("", 0, 0);
    this.curve = make("div", { class: "attnp-curve", role: "img" }, this.picture);
    this.slider = make("input", { type: "range", min: 0, max: 100, step: PUSH_STEP, class: "attnp-slider", "aria-label": "How much of the attention is moved, in per cent",
      input: () => choose(Number(this.slider.value) / 100) });
    this.ends = make("div", { class: "attnp-ends", "aria-hidden": "true" }, make("span", {}, "as trained"), make("span", {}, "all of it"));
    this.more = make("details", { class: "attnx-details attnp-more", toggle: opened }, make("summary", {}, "more"), ...folded);
    this.nodes = [this.asked, this.tiles, make("div", { class: "attnp-said" }, this.score, this.how), this.curve, this.slider, this.ends, this.more];
  }

  /**
   * Shows what is written. `outputs` has {text, right, probability of the right one} of every letter; `shares`, the
   * letters right at `PLACES`; `asked` and `moved` say in words what was asked, and what the slider does.
   */
  show({ asked, outputs, strength, shares, moved }, theme) {
    const right = sum(outputs.map((each) => Number(each.text === each.right))), percent = Math.round(100 * strength);
    const colours = scaleOf([theme.wrong, theme.inconclusive, theme.right]);
    this.asked.textContent = asked;
    this.tiles.setAttribute("aria-label", `What the model writes: ${outputs.length} letters`);
    this.tiles.replaceChildren(...outputs.map((each) => tile(each, colours[Math.round(255 * each.probability)])));
    this.score.textContent = `${right} of ${outputs.length} letters right`;
    this.how.textContent = percent ? `${percent} % ${moved}` : "as trained, at the slider's left end";
    this.slider.value = percent;
    this.slider.setAttribute("aria-valuetext", `${percent} %: ${this.score.textContent}`);
    this.curve.setAttribute("aria-label", `Letters right by how much of the attention is moved: ${PLACES.map((place, i) => [place, shares[i]])
      .filter((_, i) => i % 5 === 0).map(([place, share]) => `${Math.round(100 * share)} % right at ${Math.round(100 * place)} %`).join(", ")}.`);
    this.draw(shares, { place: strength, share: right / outputs.length }, theme);
  }

  draw(shares, now, theme) {
    const width = this.curve.clientWidth, [wide, high] = [width - 2 * CURVE_BESIDE, CURVE_HIGH - CURVE_TOP - CURVE_BELOW];
    if (wide <= 0) return; // called again when there is room
    const pen = surface(this.picture, width, CURVE_HIGH), x = (place) => CURVE_BESIDE + wide * place, y = (share) => CURVE_TOP + high * (1 - share);
    const path = () => { pen.beginPath(); shares.forEach((share, i) => pen[i ? "lineTo" : "moveTo"](x(PLACES[i]), y(share))); };
    Object.assign(pen, { strokeStyle: theme.line, lineWidth: 1, font: "12px system-ui, sans-serif", textBaseline: "middle" });
    for (const share of [0, 0.5, 1]) { pen.beginPath(); pen.moveTo(x(0), y(share)); pen.lineTo(x(1), y(share)); pen.stroke(); }
    Object.assign(pen, { strokeStyle: theme.accent, lineWidth: 2.5, lineJoin: "round" });
    path();
    pen.stroke();
    Object.assign(pen, { strokeStyle: theme.faint, lineWidth: 1, fillStyle: theme.accent });
    pen.beginPath();
    pen.moveTo(x(now.place), y(now.share));
    pen.lineTo(x(now.place), CURVE_HIGH);
    pen.stroke();
    pen.beginPath();
    pen.arc(x(now.place), y(now.share), 6, 0, 2 * Math.PI);
    pen.fill();
    Object.assign(pen, { fillStyle: theme.faint, textAlign: "left" });
    pen.fillText("all letters right", x(0) + 2, y(1) + 9);
    pen.textAlign = "right";
    pen.fillText("none", x(1) - 2, y(0) - 9);
  }
}

/** A letter that the model writes, in the colour of how sure it is of the right one, which stands below. */
function tile({ text, right, probability }, { colour, ink }) {
  const wrong = text !== right, written = text === "<eos>" ? "end" : visible(text);
  return make("li", { title: `It writes '${written}'${wrong ? `, should be '${visible(right)}'` : ""}; probability of the right letter ${probability.toFixed(2)}` },
    make("span", { class: `attnp-tile${text === "<eos>" ? " attnp-end" : wrong ? " attnp-wrong" : ""}`, style: `background-color: ${colour}; color: ${ink}` }, written),
    make("span", { class: "attnp-right" }, make("span", { class: "attnx-hidden" }, wrong ? " wrong, should be " : " right: "), visible(right)));
}
