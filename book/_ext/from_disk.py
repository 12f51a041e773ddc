"""A Sphinx extension: search with excerpts in a book that is read from disk, where browsers fetch nothing.

What the pages say is a script beside them, which only the page of the search loads
(`book/_static/search.js`). And a notebook of a book that is served is saved, where a browser would show it as
raw text.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

NOTEBOOK, SAVED = re.compile(r'<a href="[^"]*\.ipynb" (?=target="_blank")'), r"\g<0>download "
"""A link to one, and the same that saves it. From disk it opens a tab as before: no browser saves there."""

TEXTS = "texts.js"

Pieces = list[tuple[list[str], str]]
"""What a page says, in its order; each piece with the anchors of the section or term that begins there."""


def said(document: nodes.document) -> Pieces:
    """The sentences and headings of a page: no code, no formulas of their own lines."""
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
    """What the pages say, and links that save notebooks."""
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
