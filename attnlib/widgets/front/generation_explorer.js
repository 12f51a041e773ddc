// GenerationExplorer: a GenerationView of what was recorded, or of what comes from a kernel while a model writes there.
//
// May be touched for: how rows come from Python, and the box that asks for them.

import { bytesOf } from "./common.js";
import { connect } from "./view.js";
import { inflate } from "./inflate.js";
import { AskBox } from "./ask_box.js";
import { GenerationView } from "./generation_view.js";
import { unpack } from "./generation_data.js";

class RecordedView extends GenerationView {
  get writing() { return this.model.get("busy"); }
  unpacked(index) { return unpack(this.model, index); }

  above() {
    this.box = new AskBox(this.model, { label: "Prompt to continue", placeholder: "A prompt to continue", verb: "Generate",
      doing: "Writing …", rows: 3, note: "Recorded. In a live notebook, a prompt of your own can be typed here." });
    return this.box.nodes;
  }

  told() {
    const count = this.data?.rows.length;
    this.box.show(count ? `Writing: ${count} token${count > 1 ? "s" : ""} …` : undefined);
  }

  /** A row that came while the model writes; a view that missed one before waits for the whole. */
  onRow({ index, word }, [bytes]) {
    const { data } = this;
    if (data?.rows.length === index) this.grow(word, data.row(inflate(bytesOf(bytes), data.layers * data.columns)));
  }

  reactions() {
    const settle = () => { if (this.writing) this.told(); else this.settle(); };
    return { ...super.reactions(), busy: settle, error: () => this.told(), "msg:custom": (message, buffers) => this.onRow(message, buffers) };
  }
}

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new RecordedView(model, el);
  return connect(explorer, explorer.reactions());
}

export default { render };
