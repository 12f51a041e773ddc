// TrainingExplorer: an AttentionView of one problem at one checkpoint of a training, which the slider or the chart
// chooses, and the model's answer there.
//
// Another checkpoint redraws the heat map, the small pictures and the marker; the chart itself stays.
//
// May be touched for: what a checkpoint changes in the picture of attention, and the words for a problem.

import { capital, largestOf } from "./common.js";
import { connect } from "./view.js";
import { weightsOf } from "./attention_data.js";
import { AttentionView } from "./attention_view.js";
import { stepName } from "./curves.js";
import { OverTraining } from "./over_training.js";
import { AskBox } from "./ask_box.js";

class TrainingView extends AttentionView {
  get kind() { return "Training explorer"; }
  get noun() { return "Problem"; }
  place() { return `${super.place()}, ${stepName(this.training.step)}`; }

  // ---- built once

  build(el) {
    const { model } = this;
    this.training = new OverTraining(this);
    this.box = new AskBox(model, { label: "A problem of your own", placeholder: `A problem, such as ${model.get("items")[0].label}`,
      verb: "Answer", doing: "Computing …", rows: 1, note: "Recorded. In a live notebook, a problem of your own can be typed here." });
    super.build(el);
  }

  above() { return this.box.nodes; }
  below() { return [this.training.panel]; }

  // ---- built for every problem

  read(index) {
    const data = super.read(index);
    this.training.take(data.checkpoints, data.answers, data.expected, ["answer right", "wrong"]);
    return data;
  }

  buildHeads() {
    super.buildHeads();
    const { data, heads } = this;
    for (const each of heads.all) each.peak = 0; // over training, so that colours can be compared
    for (let moment = 0; moment < data.checkpoints; moment++) {
      this.turnTo(moment);
      for (const each of heads.all) each.peak = Math.max(each.peak, largestOf(weightsOf(data, each.layer, each.head)));
    }
  }

  // ---- drawn for every checkpoint

  turnTo(moment) {
    const { data } = this;
    data.weights = data.all.subarray(moment * data.size, (moment + 1) * data.size);
  }

  readHeads() {
    this.turnTo(this.training.moment);
    super.readHeads();
    for (const each of this.heads.all) each.largest = each.peak || 1;
  }

  paint(heads) {
    super.paint(heads);
    if (this.map.cell) this.training.paint(this.theme);
  }

  show() {
    super.show();
    this.training.tell(`Answer to ${this.data.label}`, this.data.answers[this.training.moment], this.data.expected);
  }

  onCheckpoint() {
    this.training.show();
    if (!this.map.cell) return;
    this.readHeads();
    this.drawHeads();
    this.show();
    if (!this.training.playing) this.announce();
  }

  announce() {
    super.announce();
    this.live.textContent = `${capital(this.training.words())}. Answer ${this.training.answered}. ${this.live.textContent}`;
  }
}

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new TrainingView(model, el), ask = () => explorer.box.show(), reactions = explorer.reactions();
  return connect(explorer, { ...reactions, items: reactions.item, checkpoint: () => explorer.onCheckpoint(), busy: ask, error: ask });
}

export default { render };
