"""A Sphinx extension: search with excerpts works in a book opened from disk, where browsers fetch no files.

The texts of all pages are written into a script, which only the search page loads (`book/_static/search.js`).
The extension also makes links to notebooks downloads: from a server, a browser would show raw text.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

NOTEBOOK, SAVED = re.compile(r'<a href="[^"]*\.ipynb" (?=target="_blank")'), r"\g<0>download "
"""A link to a notebook, and the same link as a download (from disk, browsers still open a tab)."""

TEXTS = "texts.js"

Pieces = list[tuple[list[str], str]]
"""The text of a page in order; each piece has the anchors of the section or term that begins with it."""


def said(document: nodes.document) -> Pieces:
    """The sentences and headings of a page, without code and displayed formulas."""
    found: Pieces = []
    for node in document.findall(lambda each: isinstance(each, (nodes.title, nodes.term, nodes.paragraph))):
        begins = node.parent if isinstance(node, nodes.title) else node
        ids = [] if isinstance(node, nodes.paragraph) else list(begins.get("ids", []))
        text = " ".join(node.astext().split())
        if ids or not found:
            found.append((ids, text))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]} {text}")
    return found


def write(app: Sphinx, texts: Mapping[str, Pieces]) -> None:
    """Write the script with the pages' texts, and make links to notebooks downloads."""
    lines = json.dumps(texts, ensure_ascii=False, sort_keys=True, separators=(",\n", ":"))
    Path(app.outdir, "_static", TEXTS).write_text(f"const TEXTS = {lines};\n", encoding="utf-8")
    for path in Path(app.outdir).rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        if (after := NOTEBOOK.sub(SAVED, page)) != page:
            path.write_text(after, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    texts = dict[str, Pieces]()

    def read(app: Sphinx, document: nodes.document, name: str) -> None:
        texts[name] = said(document)

    def load(app: Sphinx, page: str, *_: Any) -> None:
        if page == "search":
            for script in (TEXTS, "search.js"):
                app.add_js_file(script, loading_method="defer")

    def end(app: Sphinx, error: Exception | None) -> None:
        if error is None and app.builder.format == "html":
            write(app, texts)

    app.connect("doctree-resolved", read)
    app.connect("html-page-context", load)
    app.connect("build-finished", end)
    return {"parallel_read_safe": True, "parallel_write_safe": True}  # doctrees are resolved in one process
