/* Formulas as Sphinx writes them, \(x\) or \[x\] behind the number of an equation, are set by KaTeX. */
for (const place of document.querySelectorAll(".math")) {
  const tex = place.lastChild;
  const set = document.createElement("span");
  katex.render(tex.data.trim().slice(2, -2), set, { displayMode: place.matches("div"), throwOnError: false });
  tex.replaceWith(set);
}
