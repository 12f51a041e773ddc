// AttentionExplorer: an AttentionView of the examples that the model holds. Uses common.js, heat_map.js and
// attention_view.js, which Python puts before it.

/** What anywidget and the static page call. Returns how to let go of the page again. */
function render({ model, el }) {
  const explorer = new AttentionView(model, el);
  const reactions = {
    example: () => { explorer.load(); explorer.announce(); },
    layer: () => { explorer.show(); explorer.announce(); },
    head: () => { explorer.show(); explorer.announce(); },
    show_reference: () => explorer.show(),
    query: () => explorer.onQuery(),
  };
  for (const [name, react] of Object.entries(reactions)) model.on(`change:${name}`, react);
  const unwatch = watch(explorer.root, () => explorer.paint());
  return () => {
    for (const [name, react] of Object.entries(reactions)) model.off(`change:${name}`, react);
    unwatch();
  };
}

export default { render };
