// OverTraining: a slider over the checkpoints of a training and a play button, above a chart of its curves whose
// axis is the slider's track.
//
// Checkpoints stand at equal distances, whatever steps lie between them: early ones are recorded densely, and a
// chart in proportion would crowd them. Between two checkpoints the axis is in proportion.
//
// May be touched for: the slider, the chart, its legend, and what is said of an answer.

import { canvas, capital, clamp, make, surface, visible } from "./common.js";
import { placeOf, stepName, stepText, valueAt, valueAxis, valueText } from "./curves.js";
import "./over_training.css";

const DASHES = [[], [7, 3], [2, 3], [8, 3, 2, 3]];
const COMPACT = new Intl.NumberFormat("en", { notation: "compact" }); // 2M: the axis has room for five letters
const CHART = { left: 46, right: 14, top: 10, plot: 118, axis: 22, row: 18 };

export class OverTraining {
  /** `view` is whose it is: it chooses a checkpoint, and announces what is shown when playing has ended. */
  constructor(view) {
    const { model } = view;
    Object.assign(this, { view, model });
    this.steps = model.get("steps");
    this.curves = model.get("curves");
    this.axis = valueAxis(this.curves);
    this.verdicts = null; // whether what is shown was right at each checkpoint
    this.pinned = false; // whether what is shown is of the last checkpoint alone
    this.pointed = -1; // the checkpoint under the pointer
    this.timer = 0;
    this.build();
  }

  get last() { return this.steps.length - 1; }
  get at() { return this.pinned ? this.last : clamp(this.model.get("checkpoint"), 0, this.last); }
  /** Which of the recorded moments is shown: of what is pinned there is one. */
  get moment() { return this.pinned ? 0 : this.at; }
  get step() { return this.steps[this.at]; }
  get playing() { return this.timer > 0; }

  // ---- built once

  build() {
    this.button = make("button", { type: "button", class: "attnt-play", click: () => this.toggle() });
    this.slider = make("input", { type: "range", class: "attnt-slider", min: "0", max: this.last, step: "1",
      "aria-label": "Checkpoint", input: (event) => { this.stop(); this.jump(Number(event.target.value)); } });
    this.picture = canvas("attnt-chart", 0, 0);
    this.marker = canvas("attnt-marker", 0, 0);
    this.tip = make("div", { class: "attnx-tip", "aria-hidden": "true", hidden: "" });
    this.chart = make("div", { class: "attnt-frame", role: "img", title: "Click to choose a checkpoint",
      pointerdown: (event) => this.onPress(event), pointermove: (event) => this.onMove(event),
      pointerleave: () => this.point(-1) }, this.picture, this.marker, this.tip);
    this.controls = make("div", { class: "attnt-controls" }, this.button, this.slider);
    this.controls.hidden = !this.last;
    this.node = make("div", { class: "attnt-track" }, this.controls, this.chart);
    this.heading = make("p", { class: "attnt-step" });
    this.legend = make("ul", { class: "attnt-legend" });
    this.keys = this.curves.map((curve) => ({ curve, line: canvas("attnt-line", 0, 0), value: make("span", { class: "attnt-value" }) }));
    this.legend.append(...this.keys.map(({ curve, line, value }) => make("li", {}, line, make("span", { class: "attnt-name" }, curve.name), value)));
    this.verdictKey = make("li", { class: "attnt-verdicts", hidden: "" });
    this.legend.append(this.verdictKey);
    this.answerCaption = make("p", { class: "attnx-caption" });
    this.answer = make("span", { class: "attnt-text" });
    this.verdict = make("span", { class: "attnt-verdict" });
    this.told = make("div", { class: "attnt-answer" }, this.answerCaption, make("p", {}, this.answer, this.verdict));
    this.side = make("div", { class: "attnt-side" }, this.heading, this.legend, this.told);
    this.panel = make("div", { class: "attnt-training" }, this.node, this.side);
    this.showPlaying();
  }

  // ---- what the owner tells

  /**
   * Takes what was recorded at so many checkpoints, all or the last: the answers, judged by the one `expected` unless that is
   * null; `[right, wrong]` names the verdicts.
   */
  take(checkpoints, answers, expected, [right, wrong]) {
    this.pin(checkpoints < this.steps.length);
    this.verdicts = expected !== null && checkpoints > 1 ? answers.map((answer) => answer === expected) : null;
    this.verdictKey.hidden = !this.verdicts;
    this.verdictKey.textContent = `● ${right}   ○ ${wrong}`;
  }

  /**
   * The model's answer at the checkpoint shown; it is right where it equals `expected`, unless that is null. `said`
   * writes it: as tokens, unless it is a text.
   */
  tell(caption, answer, expected, said = visible) {
    const right = answer === expected;
    this.answerCaption.textContent = this.answerCaption.title = caption;
    this.answer.textContent = said(answer);
    this.verdict.textContent = expected === null ? "" : right ? "✓ right" : `✗ wrong, ${said(expected)} expected`;
    this.verdict.dataset.right = right;
    this.answered = `'${said(answer)}'${expected === null ? "" : right ? ", right" : `, wrong, ${said(expected)} expected`}`;
  }

  /** Shows the last checkpoint whatever is chosen: what is shown was recorded there alone. */
  pin(pinned) {
    this.pinned = pinned;
    if (pinned) this.stop();
    this.slider.disabled = this.button.disabled = pinned;
    this.node.classList.toggle("attnt-pinned", pinned);
  }

  // ---- drawn for every width, theme and verdict

  paint(theme) {
    this.theme = theme;
    this.width = this.node.clientWidth;
    this.height = CHART.top + CHART.plot + CHART.axis + (this.verdicts ? CHART.row : 0);
    if (!(this.width > CHART.left + CHART.right)) return;
    this.colours = theme.curves;
    const pen = surface(this.picture, this.width, this.height);
    Object.assign(pen, { font: "11px system-ui, sans-serif", lineWidth: 1 });
    if (this.curves.length) this.drawValues(pen);
    this.drawSteps(pen);
    this.curves.forEach((curve, i) => this.drawCurve(pen, curve, i));
    this.keys.forEach(({ line }, i) => {
      const stroke = surface(line, 26, 10);
      this.dress(stroke, i);
      stroke.beginPath();
      stroke.moveTo(1, 5);
      stroke.lineTo(25, 5);
      stroke.stroke();
    });
    this.show();
  }

  x(place) { return CHART.left + (this.last ? place / this.last : 0.5) * (this.width - CHART.left - CHART.right); }
  y(value) { return CHART.top + ((this.axis.to - value) / (this.axis.to - this.axis.from)) * CHART.plot; }

  dress(pen, i) {
    Object.assign(pen, { strokeStyle: this.colours[i % this.colours.length], lineWidth: 2, lineJoin: "round", lineCap: "butt" });
    pen.setLineDash(DASHES[i % DASHES.length]);
  }

  drawValues(pen) {
    const { faint } = this.theme, end = this.width - CHART.right;
    Object.assign(pen, { textAlign: "right", textBaseline: "middle", fillStyle: faint, strokeStyle: faint });
    for (const value of this.axis.ticks) {
      const y = Math.round(this.y(value)) + 0.5;
      pen.globalAlpha = value === 0 ? 0.6 : 0.22;
      pen.beginPath();
      pen.moveTo(CHART.left, y);
      pen.lineTo(end, y);
      pen.stroke();
      pen.globalAlpha = 1;
      pen.fillText((Math.abs(value) < 1e4 ? String(Number(value.toPrecision(3))) : COMPACT.format(value)).replace("-", "−"), CHART.left - 10, y);
    }
  }

  /** The steps below the axis, as many as there is room for: the last, the first, and others between. */
  drawSteps(pen) {
    const { faint, ink, surface: ground } = this.theme, base = CHART.top + CHART.plot, taken = [];
    Object.assign(pen, { textBaseline: "top", textAlign: "center", fillStyle: faint, strokeStyle: faint });
    for (const i of new Set([this.last, 0, ...this.steps.keys()])) {
      const text = stepText(this.steps[i]), half = pen.measureText(text).width / 2, x = this.x(i);
      pen.beginPath();
      pen.moveTo(Math.round(x) + 0.5, base + 0.5);
      pen.lineTo(Math.round(x) + 0.5, base + 4.5);
      pen.stroke();
      const at = clamp(x, half, this.width - half);
      if (taken.some(([from, to]) => at - half < to + 10 && at + half > from - 10)) continue;
      taken.push([at - half, at + half]);
      pen.fillText(text, at, base + 8);
    }
    this.verdicts?.forEach((right, i) => {
      pen.beginPath();
      pen.arc(this.x(i), base + CHART.axis + CHART.row / 2, 4, 0, 2 * Math.PI);
      Object.assign(pen, { fillStyle: right ? ink : ground, strokeStyle: ink, lineWidth: 1.25 });
      pen.fill();
      pen.stroke();
    });
  }

  drawCurve(pen, { steps, values }, i) {
    const points = steps.map((step, at) => (values[at] === null ? null : [this.x(placeOf(this.steps, step)), this.y(values[at])]));
    this.dress(pen, i);
    pen.beginPath();
    points.forEach((point, at) => {
      if (!point) return;
      if (!points[at - 1]) pen.moveTo(...point);
      pen.lineTo(...point);
    });
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = pen.strokeStyle;
    points.forEach((point, at) => {
      if (!point || points[at - 1] || points[at + 1]) return; // of a line
      pen.beginPath();
      pen.arc(...point, 2, 0, 2 * Math.PI);
      pen.fill();
    });
  }

  // ---- drawn for every checkpoint

  show() {
    const { at, last, step } = this;
    this.heading.replaceChildren(make("strong", {}, capital(stepName(step))),
      this.pinned ? " · the trained model alone" : ` · checkpoint ${at + 1} of ${last + 1}`);
    this.slider.value = at;
    this.slider.setAttribute("aria-valuetext", `${stepName(step)}, checkpoint ${at + 1} of ${last + 1}`);
    this.slider.style.setProperty("--part", `${last ? (100 * at) / last : 0}%`);
    for (const { curve, value } of this.keys) {
      const now = valueAt(curve, step);
      value.textContent = now === null ? "–" : valueText(now);
    }
    this.chart.setAttribute("aria-label", `Training: ${this.words() || stepName(step)}`);
    if (this.colours) this.mark();
  }

  mark() {
    const pen = surface(this.marker, this.width, this.height), { at, pointed, theme } = this;
    const rule = (i, alpha, wide) => {
      Object.assign(pen, { strokeStyle: theme.ink, globalAlpha: alpha, lineWidth: wide });
      pen.beginPath();
      pen.moveTo(this.x(i), 0);
      pen.lineTo(this.x(i), CHART.top + CHART.plot + 4);
      pen.stroke();
      pen.globalAlpha = 1;
    };
    if (pointed >= 0 && pointed !== at) rule(pointed, 0.35, 1);
    rule(at, 0.9, 1.5);
    this.curves.forEach((curve, i) => {
      const value = valueAt(curve, this.steps[at]);
      if (value === null) return;
      pen.beginPath();
      pen.arc(this.x(at), this.y(value), 4.5, 0, 2 * Math.PI);
      Object.assign(pen, { fillStyle: this.colours[i % this.colours.length], strokeStyle: theme.surface, lineWidth: 2 });
      pen.fill();
      pen.stroke();
    });
    if (this.verdicts) {
      pen.beginPath();
      pen.arc(this.x(at), CHART.top + CHART.plot + CHART.axis + CHART.row / 2, 7.5, 0, 2 * Math.PI);
      Object.assign(pen, { strokeStyle: theme.ink, lineWidth: 1.5 });
      pen.stroke();
    }
  }

  /** The curves at the checkpoint shown, for a screen reader. */
  words(step = this.step) {
    const values = this.curves.map((curve) => [curve.name, valueAt(curve, step)]).filter(([, value]) => value !== null);
    return [stepName(step), ...values.map(([name, value]) => `${name} ${valueText(value)}`)].join(", ");
  }

  // ---- what the reader does

  jump(checkpoint) {
    const next = clamp(checkpoint, 0, this.last);
    if (this.pinned || next === this.model.get("checkpoint")) return;
    this.view.choose({ checkpoint: next });
  }

  nearest(event) {
    const place = (event.clientX - this.picture.getBoundingClientRect().left - CHART.left) / (this.width - CHART.left - CHART.right);
    return clamp(Math.round(place * this.last), 0, this.last);
  }

  onPress(event) {
    if (this.pinned || event.button) return;
    event.preventDefault(); // no text is selected while the pointer draws along
    this.chart.setPointerCapture?.(event.pointerId);
    this.stop();
    this.jump(this.nearest(event));
  }

  onMove(event) {
    if (this.pinned) return;
    this.point(this.nearest(event));
    if (event.buttons & 1) this.jump(this.pointed);
  }

  point(checkpoint) {
    this.pointed = checkpoint;
    if (!this.colours) return;
    this.mark();
    const { tip } = this;
    tip.hidden = checkpoint < 0;
    if (checkpoint < 0) return;
    tip.textContent = this.words(this.steps[checkpoint]);
    tip.style.left = `${clamp(this.x(checkpoint) - tip.offsetWidth / 2, 0, Math.max(this.width - tip.offsetWidth, 0))}px`;
  }

  toggle() { if (this.playing) this.stop(); else this.start(); }

  /** From the checkpoint shown to the last, or through all of them, in about six seconds. */
  start() {
    this.timer = setInterval(() => {
      this.jump(this.at + 1);
      if (this.at === this.last) this.stop();
    }, clamp(6000 / this.last, 120, 800));
    if (this.at === this.last) this.jump(0);
    this.showPlaying();
  }

  stop() {
    if (!this.playing) return;
    clearInterval(this.timer);
    this.timer = 0;
    this.showPlaying();
    this.view.announce();
  }

  showPlaying() {
    this.button.textContent = this.playing ? "❚❚" : "▶";
    for (const name of ["aria-label", "title"]) this.button.setAttribute(name, this.playing ? "Pause" : "Play the training");
  }
}
