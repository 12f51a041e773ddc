// TrainingExplorer: an AttentionView of one problem at one checkpoint of a training, which the slider or the
// chart chooses, and the model's answer there. Uses common.js, heat_map.js, attention_view.js, inflate.js,
// curves.js, over_training.js and ask_box.js, which Python puts before it.
//
// Another checkpoint redraws the heat map, the small pictures and the marker; the chart itself stays.

/** The problem at an index: its names, its sizes and all its bytes [checkpoint layer head query key]. */
function unpackProblem(model, index) {
  const examples = model.get("examples"), problem = examples[index], before = examples.slice(0, index);
  const [checkpoints, layers, heads, rows, columns] = problem.shape;
  const cells = rows * columns, size = layers * heads * cells, maskBytes = Math.ceil(cells / 8);
  const from = before.reduce((sum, { bytes }) => sum + bytes, 0), masksAt = before.reduce((sum, { masks, shape }) =>
    sum + masks * Math.ceil((shape[3] * shape[4]) / 8), 0);
  const masks = bytesOf(model.get("masks")), names = problem.tokens.map(visible);
  return {
    ...problem, checkpoints, layers, heads, rows, columns, cells, size, crossed: false, keys: names, queries: names,
    all: inflate(bytesOf(model.get("weights")).subarray(from, from + problem.bytes), checkpoints * size),
    maskOf: problem.mask_of, mask: (k) => masks.subarray(masksAt + k * maskBytes),
  };
}

class Explorer extends AttentionView {
  get kind() { return "Training explorer"; }
  get noun() { return "Problem"; }
  get moment() { return this.data.checkpoints > 1 ? this.training.at : 0; }
  labelOf({ label, typed }) { return typed ? `${label} (typed)` : label; }
  place() { return `${super.place()}, ${stepName(this.training.step)}`; }

  // ---- built once

  build(el) {
    const { model } = this;
    this.training = new OverTraining(model, () => this.announce());
    this.box = new AskBox(model, { label: "A problem of your own", placeholder: `A problem, such as ${model.get("examples")[0].label}`,
      verb: "Answer", doing: "Computing …", rows: 1, note: "Recorded. In a live notebook, a problem of your own can be typed here." });
    super.build(el);
  }

  above() { return this.box.nodes; }
  below() { return [this.training.panel]; }

  // ---- built for every problem

  read(index) {
    const data = unpackProblem(this.model, index), { training } = this;
    training.pin(data.checkpoints < training.steps.length);
    training.judge(data.expected !== null && data.checkpoints > 1 ? data.answers.map((answer) => answer === data.expected) : null,
      ["answer right", "wrong"]);
    return data;
  }

  buildHeads() {
    super.buildHeads();
    const { data } = this;
    for (const thumb of this.thumbs) thumb.peak = 0; // over training, so that colours can be compared
    for (let moment = 0; moment < data.checkpoints; moment++) {
      data.weights = data.all.subarray(moment * data.size, (moment + 1) * data.size);
      for (const thumb of this.thumbs) {
        thumb.peak = weightsOf(data, thumb.layer, thumb.head).reduce((a, b) => Math.max(a, b), thumb.peak);
      }
    }
  }

  // ---- drawn for every checkpoint

  readHeads() {
    const { data, moment } = this;
    data.weights = data.all.subarray(moment * data.size, (moment + 1) * data.size);
    super.readHeads();
    for (const thumb of this.thumbs) thumb.largest = thumb.peak || 1;
  }

  paint() {
    super.paint();
    if (this.map.cell) this.training.paint(this.theme);
  }

  drawHeads(width) {
    this.thumbWidth = width;
    super.drawHeads(width);
  }

  show() {
    super.show();
    this.training.tell(`Answer to ${this.data.label}`, this.data.answers[this.moment], this.data.expected);
  }

  onCheckpoint() {
    this.training.show();
    if (!this.map.cell) return;
    this.readHeads();
    this.drawHeads(this.thumbWidth);
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
  const explorer = new Explorer(model, el), ask = () => explorer.box.show();
  const reactions = {
    example: () => { explorer.load(); explorer.announce(); },
    examples: () => { explorer.load(); explorer.announce(); },
    checkpoint: () => explorer.onCheckpoint(),
    layer: () => { explorer.show(); explorer.announce(); },
    head: () => { explorer.show(); explorer.announce(); },
    show_reference: () => explorer.show(),
    query: () => explorer.onQuery(),
    busy: ask,
    error: ask,
  };
  for (const [name, react] of Object.entries(reactions)) model.on(`change:${name}`, react);
  const unwatch = watch(explorer.root, () => explorer.paint());
  return () => {
    for (const [name, react] of Object.entries(reactions)) model.off(`change:${name}`, react);
    explorer.training.stop();
    unwatch();
  };
}

export default { render };
