"""A Sphinx extension that corrects markup of Sphinx and the theme which screen readers cannot read.

Six things are corrected in the finished pages, as code and templates of Sphinx and the theme write them:

* the arrows that fold the table of contents are named after the pages that they fold;
* the lines of a long signature are no longer a list of definitions without terms;
* the list of references loses ARIA roles that are deprecated, or that its items do not match;
* the bar on the left, which contains the logo, is a region of the page with a name;
* an empty head of a table is an ordinary cell;
* in the list of modules with source code, a package's modules are a list inside the package's item.
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
    """A page with the six things corrected; a corrected page is returned unchanged."""
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
    """Correct every HTML page of a build that succeeded."""
    if error is None and app.builder.format == "html":
        for path in Path(app.outdir).rglob("*.html"):
            before = path.read_text(encoding="utf-8")
            if (after := mended(before)) != before:
                path.write_text(after, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("build-finished", mend_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
