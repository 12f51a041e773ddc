"""A Sphinx extension: figures for light and dark pages, and links to the data of figures and tables.

The output of a cell may also contain the same figure for dark pages and the figure's data
(`attnlib.plots.drawing`). Both figures are placed on the page; the theme shows one of them (see `themed`).
The data are written to `_data/<page>/<name>.csv` or `.npz`, and a line below the figure or table links them,
the page's parameters and the code. A picture in the source tree, `x.svg`, is treated likewise if `x.dark.svg`
or `x.csv` lies beside it. Numbers in the text that were not measured (NaN) become a dash.
"""

import base64
import dataclasses
import posixpath
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer, load_mime_renders
from numbered import Said, framed
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from themed import both

from attnlib.plots.captions import SAID
from attnlib.plots.drawing import CSV, DARK, NPZ
from attnlib.plots.style import ABSENT

SVG = "image/svg+xml"
KINDS = {CSV: "csv", NPZ: "npz"}
PARAMETERS = "parameters-of-this-run"
"""The id of the cell with the page's parameters."""


class Carried:
    """A renderer for MIME types that myst-nb does not know; `place_all` moves its nodes."""

    mime_priority_overrides = ()

    @staticmethod
    def handle_mime(renderer: NbElementRenderer, data: MimeData, inline: bool) -> list[nodes.Element] | None:
        """The picture for dark pages, or data as a node that `place_all` removes again."""
        if data.mime_type == DARK:
            return renderer.render_image(dataclasses.replace(data, mime_type=SVG))
        if data.mime_type in KINDS:
            return [nodes.Element("", content=data.string)]
        return None


def place_all(app: Sphinx, doctree: nodes.document) -> None:
    """Place the dark figures, captions and data links of a page's cells and pictures."""
    pictures_of_the_tree(app, doctree)
    for number in doctree.findall(nodes.inline):
        if "pasted-text" in number["classes"] and number.astext() in ("nan", "inf"):
            number[:] = [nodes.Text(ABSENT)]
    cells = list(doctree.findall(lambda node: _is(node, "cell_code")))
    used = [cell for cell in cells if _tags(cell) & {"parameters", "injected-parameters"}]
    if used:  # injected parameters come after the defaults
        _place_of_lines(used[-1], PARAMETERS)
    numbers = count(1)
    for cell in cells:
        for bundle in list(cell.findall(lambda node: _is(node, "mime_bundle"))):
            parts = {part["mime_type"]: part for part in bundle.children}
            shown = framed(doctree, bundle, parts[SAID][0]) if SAID in parts else bundle
            if DARK in parts:
                both(parts[SVG].next_node(nodes.image), parts[DARK].next_node(nodes.image))
                bundle.remove(parts["text/html"])  # the same for JupyterLab
            for kind in {DARK, SAID, *KINDS} & parts.keys():
                bundle.remove(parts[kind])
            for kind in KINDS.keys() & parts.keys():
                name = _name(shown) or f"table-{next(numbers)}"
                links = [data_link(app, name, kind, parts[kind][0]["content"])]
                links += [_link("parameters", PARAMETERS)] if used else []
                links += _code(cell, name)
                below(app, shown, links)


def pictures_of_the_tree(app: Sphinx, doctree: nodes.document) -> None:
    """Add the dark picture and the data link of every picture in the source tree that has such files."""
    for image in list(doctree.findall(nodes.image)):
        path = Path(app.env.relfn2path(image["uri"])[1])
        if path.with_suffix(".dark.svg").is_file():
            dark = image.deepcopy()
            dark["uri"] = str(Path(image["uri"]).with_suffix(".dark.svg"))
            both(image, dark)
        if path.suffix == ".svg" and path.with_suffix(".csv").is_file():
            rows = path.with_suffix(".csv").read_text(encoding="utf-8")
            figure = next(_above(image, nodes.figure), image)
            below(app, figure, [data_link(app, path.stem, CSV, rows)])


def data_link(app: Sphinx, name: str, kind: str, content: str) -> nodes.reference:
    """Write data into a file beside the pages; return a link to the file."""
    page = app.env.docname
    path = posixpath.join("_data", posixpath.basename(page), f"{name}.{KINDS[kind]}")
    target = Path(app.outdir, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(base64.b64decode(content) if kind == NPZ else content.encode())
    address = posixpath.relpath(path, posixpath.dirname(page) or ".")
    return nodes.reference("", f"data ({KINDS[kind].upper()})", refuri=address, internal=True)


def below(app: Sphinx, shown: nodes.Element, links: list[nodes.reference]) -> None:
    """Put a line of links below a figure or table, but not on the single page for printing."""
    if app.builder.name == "html":
        line = nodes.paragraph(classes=["sources"])
        for link in links:
            line += [nodes.Text(" · "), link] if line.children else [link]
        shown.parent.insert(shown.parent.index(shown) + 1, line)


def _code(cell: nodes.Element, name: str) -> list[nodes.reference]:
    """A link to a cell's lines, if they are on the page."""
    place = _place_of_lines(cell, f"code-of-{name}")
    return [_link("code", place)] if place else []


def _place_of_lines(cell: nodes.Element, name: str) -> str | None:
    """The id of a cell's code, set to `name` if there is none; `None` if the page has no code of the cell."""
    for lines in cell.findall(lambda node: _is(node, "cell_code_source")):
        lines["ids"] = lines["ids"] or [name]
        return str(lines["ids"][0])
    return None


def _link(text: str, place: str) -> nodes.reference:
    return nodes.reference("", text, refid=place, internal=True)


def _name(shown: nodes.Element) -> str:
    return str(next(iter(shown.get("names", [])), ""))


def _is(node: nodes.Node, element: str) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == element


def _tags(cell: nodes.Element) -> set[str]:
    return set(cell["cell_metadata"].get("tags", []))


def _above(node: nodes.Node, kind: type[nodes.Element]) -> Iterator[nodes.Element]:
    while node := node.parent:
        if isinstance(node, kind):
            yield node


class Place(SphinxTransform):
    """Runs `place_all` on a page, before Sphinx collects the names of figures."""

    default_priority = 500

    def apply(self, **given: Any) -> None:
        """Change one page."""
        place_all(self.app, self.document)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    renderers = load_mime_renders()  # the list itself, which myst-nb keeps: what is added stays
    renderers += [each for each in (Carried, Said) if each not in renderers]
    app.setup_extension("numbered")
    app.setup_extension("themed")
    app.add_transform(Place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
