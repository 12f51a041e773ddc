// AttentionExplorer: an AttentionView of the examples that the model holds.
//
// May be touched for: which trait redraws what.

import { connect } from "./view.js";
import { AttentionView } from "./attention_view.js";

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new AttentionView(model, el);
  return connect(explorer, explorer.reactions());
}

export default { render };
