"""A Sphinx extension: pages that a screen reader can read, where Sphinx and the theme write what it cannot.

The markup of six things is mended in the finished pages, since it is fixed in code and templates of theirs:

* the arrows that fold the table of contents are named after what they fold;
* the lines of a long signature are no list of definitions, which would have terms;
* the list of references says nothing of roles that its items do not have, or that are out of use;
* the bar on the left, which has the logo in it, is a part of the page with a name;
* a head of a table with nothing in it is a cell;
* modules of a package, in the list of those whose source is there, are a list of its line, not between lines.
"""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ARROW = re.compile(
    r'(?P<link><a class="[^"]*" href="[^"]*">)(?P<name>[^<]*)(?P<end></a><details[^>]*>)<summary>'
)
LINES = re.compile(r"<dl>\n(<dd>.*?)</dl>", re.DOTALL)
OPENED = re.compile(r"</li>\n<ul>(?=<li>)")
CLOSED = re.compile(r"</ul>(?=<li>|</ul>)")
PLAIN = {
    '<div role="list" class="citation-list">': '<div class="citation-list">',
    ' role="doc-biblioentry"': "",
    '<div id="pst-primary-sidebar"': '<div role="complementary" aria-label="Book" id="pst-primary-sidebar"',
    '<th class="head"><p></p></th>': '<td class="head"></td>',
}


def mended(page: str) -> str:
    """A page with the six mended; one that is mended already is as it was."""
    page = ARROW.sub(r'\g<link>\g<name>\g<end><summary aria-label="Pages below: \g<name>">', page)
    page = LINES.sub(lambda found: f'<div class="sig-lines">\n{_as_divisions(found[1])}</div>', page)
    if OPENED.search(page):
        page = CLOSED.sub("</ul></li>", OPENED.sub("<ul>", page))
    for theirs, ours in PLAIN.items():
        page = page.replace(theirs, ours)
    return page


def _as_divisions(lines: str) -> str:
    return lines.replace("<dd>", "<div>").replace("</dd>", "</div>")


def mend_all(app: Sphinx, error: Exception | None) -> None:
    """Mend every page."""
    if error is None and app.builder.format == "html":
        for path in Path(app.outdir).rglob("*.html"):
            before = path.read_text(encoding="utf-8")
            if (after := mended(before)) != before:
                path.write_text(after, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("build-finished", mend_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
