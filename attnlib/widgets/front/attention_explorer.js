// AttentionExplorer: an AttentionView of the items that the model holds; on request, only of those rows that
// have a reference.
//
// May be touched for: which trait redraws what, and which rows are shown.

import { ofReferencedRows } from "./attention_data.js";
import { checkbox, connect } from "./view.js";
import { AttentionView } from "./attention_view.js";

class Explorer extends AttentionView {
  // The model's query counts all rows, this view's those that it shows.
  get query() { return this.data.origin.indexOf(this.model.get("query")); }
  at(row) { return this.data.origin[row]; }
  choose({ query, ...others }) { super.choose({ ...others, ...(query === undefined ? {} : { query: this.at(query) ?? -1 }) }); }

  read(index) { return ofReferencedRows(super.read(index), this.model.get("reference_rows")); }

  buildControls() {
    const controls = super.buildControls();
    [this.rowsBox, this.rowsField] = checkbox((on) => this.choose({ reference_rows: on }),
      { title: "Show only the queries that have a reference" }, "its rows only");
    this.referenceField.after(this.rowsField);
    return controls;
  }

  load() {
    super.load();
    this.rowsField.hidden = this.referenceField.hidden;
    this.rowsBox.checked = this.model.get("reference_rows");
  }

  reactions() { return { ...super.reactions(), reference_rows: () => { this.load(); this.announce(); } }; }
}

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new Explorer(model, el);
  return connect(explorer, explorer.reactions());
}

export default { render };
