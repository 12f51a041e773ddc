// AttentionExplorer: an AttentionView of the examples that the model holds. Uses common.js, view.js, heat_map.js,
// attention_data.js, head_pictures.js and attention_view.js, which Python puts before it.
//
// May be touched for: which trait redraws what.

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new AttentionView(model, el);
  return connect(explorer, explorer.reactions());
}

export default { render };
