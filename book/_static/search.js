// Search in a book that is read from disk: excerpts are of texts.js, since a browser fetches no pages there, and pages
// and sections whose titles have all words come first. It adds to Sphinx's searchtools.js, on the page of the search alone.
"use strict";

const asked = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);

/** Found are [page, title, anchor, description, score]; a description is of code. */
Scorer.score = ([, title, , description, score]) => {
  const own = title.toLowerCase().split(" > ").pop(), words = own.split(/[^\p{L}\p{N}]+/u);
  const all = asked.every((word) => words.some((each) => each.startsWith(word)));
  return score + (description ? -50 : all ? 50 + (50 * asked.join(" ").length) / own.length : 0);
};

window.fetch = async (address) => ({ text: async () => String(address) }); // Sphinx asks for a page, to look into it
Search.htmlToText = (address, anchor) => {
  const pieces = TEXTS[address.slice(document.documentElement.dataset.content_root.length).replace(/\.html$/, "")] ?? [];
  const first = Math.max(0, pieces.findIndex(([ids]) => ids.includes(anchor?.slice(1))));
  return pieces.slice(first).map(([, text]) => text).join(" ");
};
