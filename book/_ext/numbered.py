"""A Sphinx extension: figures and tables of cells get a number, a caption and an anchor.

An output that has a name (`attnlib.plots.captions`) becomes a figure of the page, or a table counted with the
page's tables. The caption says if the build's own run computed it (`origins`). A link `[Figure name](#name)`
is shown as "Figure" with its number; in JupyterLab, without Sphinx, link and caption are shown as written.
"""

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer
from origins import THIS_RUN, of_page
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

from attnlib.plots.captions import SAID

IN_TABLE = re.compile(r"<caption\b.*?</caption>", re.DOTALL)
CELL = re.compile(r"(?<=>)[^<>]+(?=</t[dh]>)")
LONG = re.compile(r"\S{13,}")
INTERVAL = re.compile(r"\[[^\[\]]*\]")
SIGN = re.compile(r"&#?\w+;|.")


class TableFigure(nodes.figure):
    """The table of a cell with its caption, numbered with the page's tables."""


class TableCaption(nodes.caption):
    """A table's caption, closed before the table; docutils keeps a picture's caption open for a legend."""


class Said:
    """A renderer for names and captions, which myst-nb passes to `framed`."""

    mime_priority_overrides = ()

    @staticmethod
    def handle_mime(renderer: NbElementRenderer, data: MimeData, inline: bool) -> list[nodes.Element] | None:
        """A node with the name, kind and alternative text, and the rendered caption as its child."""
        if data.mime_type != SAID:
            return None
        said = json.loads(data.string)
        holder = nodes.Element("", **said)
        with renderer.renderer.current_node_context(holder):
            renderer.renderer.nested_render_text(said["caption"], data.line or 0)
        return [holder]


def framed(document: nodes.document, bundle: nodes.Element, said: nodes.Element) -> nodes.Element:
    """Put an output that has a name into a figure; return the figure, or an output without name as it is."""
    for image in bundle.findall(nodes.image):
        image["alt"] = said["alt"]
    if not said["name"]:
        return bundle
    table = said["kind"] == "Table"
    figure = TableFigure(classes=["table-figure"]) if table else nodes.figure()
    bundle.replace_self(figure)
    sentence = said.children[0].children if said.children else []
    caption = (TableCaption if table else nodes.caption)(said["caption"], "", *sentence)
    if said["name"] in of_page(document.settings.env):
        caption += [nodes.Text(" "), nodes.inline("", THIS_RUN, classes=["this-run"])]
    figure += [caption, bundle] if table else [bundle, caption]
    figure["names"].append(said["name"])
    document.note_explicit_target(figure, figure)
    for lines in bundle.findall(nodes.raw):  # remove the caption inside the table, since the figure has it
        shown = CELL.sub(lambda cell: breakable(cell[0]), IN_TABLE.sub("", lines.astext()))
        lines.children = [nodes.Text(shown)]
        lines.rawsource = shown
    return figure


def breakable(cell: str) -> str:
    """The text of a table's cell with line breaks allowed in long words and forbidden in intervals."""
    cell = INTERVAL.sub(lambda ends: ends[0].replace(" ", "\N{NO-BREAK SPACE}"), cell)
    return LONG.sub(lambda word: _parted(word[0]), cell)


def _parted(word: str) -> str:
    """A word with a line break allowed after each joining sign, and after sixteen other characters."""
    signs, since = list[str](), 0
    for sign in SIGN.findall(word):
        signs.append(sign)
        since += 1
        if since == 16 or sign in "_+=/,;:|-":
            signs.append("<wbr>")
            since = 0
    return "".join(signs)


class Numbers(SphinxTransform):
    """Turns links that name a figure or table into references to its number."""

    default_priority = 510

    def apply(self, **given: Any) -> None:
        """Change the links of one page."""
        for link in list(self.document.findall(nodes.reference)):
            name = link.get("refuri", "").removeprefix("#")
            if link.get("id_link") and link.astext() in (f"Figure {name}", f"Table {name}"):
                here = self.env.docname
                asked = addnodes.pending_xref(
                    "", refdomain="std", reftype="numref", reftarget=name, refdoc=here, refexplicit=False
                )
                asked["refwarn"] = asked["of_cell"] = True
                asked += nodes.inline("", link.astext())
                asked.source, asked.line = link.source, link.line
                link.replace_self(asked)


def not_shown(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Words for a reference to a figure that this run lacks; `None` (and a warning) if no cell names it."""
    cells = Path(env.srcdir, "notebooks").glob("*.ipynb")
    if node.get("of_cell") and any(
        f'\\"{node["reftarget"]}\\"' in each.read_text(encoding="utf-8") for each in cells
    ):
        kind = content.astext().split()[0].lower()
        return nodes.inline("", f"a {kind} that this run does not show")
    return None


def visit_figure(self: HTML5Translator, node: TableFigure) -> None:
    """Open the figure."""
    self.visit_figure(node)


def depart_figure(self: HTML5Translator, node: TableFigure) -> None:
    """Close the box that `depart_caption` opened, and the figure."""
    self.body.append("</div>\n</figure>\n")


def visit_caption(self: HTML5Translator, node: TableCaption) -> None:
    """Open the caption with its number."""
    self.visit_caption(node)


def depart_caption(self: HTML5Translator, node: TableCaption) -> None:
    """Close the caption, and open a box in which keys scroll the table sideways, like the theme's own."""
    self.depart_caption(node)
    self.body.append('</figcaption>\n<div class="pst-scrollable-table-container" tabindex="0">\n')


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.add_enumerable_node(TableFigure, "table", html=(visit_figure, depart_figure))
    app.add_node(TableCaption, html=(visit_caption, depart_caption))
    app.add_transform(Numbers)
    app.connect("missing-reference", not_shown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
