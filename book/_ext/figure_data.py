"""A Sphinx extension: figures follow the page's light or dark; under each figure and table are its numbers.

An output of a cell may carry, beside what it shows, the same figure for dark pages and the numbers behind it
(`attnlib.plots.drawing`). The figure for dark pages comes to stand beside the other; the theme shows one of
them (see `themed`). The numbers are written to `_data/<page>/<name>.csv` or `.npz`, and a line below the
figure or table links them, the page's parameters and the code. A picture in the source tree, `x.svg`, has the
like if `x.dark.svg` or `x.csv` lies beside it. A dash stands in the text, too, for what was not measured.
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
"""The id of the cell with them."""


class Carried:
    """What myst-nb is told of the kinds that it does not know: they are shown elsewhere."""

    mime_priority_overrides = ()

    @staticmethod
    def handle_mime(renderer: NbElementRenderer, data: MimeData, inline: bool) -> list[nodes.Element] | None:
        """The picture for dark pages, or numbers as a node that `place_all` takes out again."""
        if data.mime_type == DARK:
            return renderer.render_image(dataclasses.replace(data, mime_type=SVG))
        if data.mime_type in KINDS:
            return [nodes.Element("", content=data.string)]
        return None


def place_all(app: Sphinx, doctree: nodes.document) -> None:
    """Put what cells and pictures carry where it belongs."""
    pictures_of_the_tree(app, doctree)
    for number in doctree.findall(nodes.inline):
        if "pasted-text" in number["classes"] and number.astext() in ("nan", "inf"):
            number[:] = [nodes.Text(ABSENT)]
    cells = list(doctree.findall(lambda node: _is(node, "cell_code")))
    used = [cell for cell in cells if _tags(cell) & {"parameters", "injected-parameters"}]
    if used:  # those that were injected stand behind the defaults
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
    """The dark twin and the table of every picture that has them beside it."""
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
    """Writes numbers beside the pages; returns the link."""
    page = app.env.docname
    path = posixpath.join("_data", posixpath.basename(page), f"{name}.{KINDS[kind]}")
    target = Path(app.outdir, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(base64.b64decode(content) if kind == NPZ else content.encode())
    address = posixpath.relpath(path, posixpath.dirname(page) or ".")
    return nodes.reference("", f"data ({KINDS[kind].upper()})", refuri=address, internal=True)


def below(app: Sphinx, shown: nodes.Element, links: list[nodes.reference]) -> None:
    """Put a line of links below what is shown; not where all pages are one, which is printed."""
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
    """The id of a cell's lines: what it has, or this name."""
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
    """Places what a page's cells and pictures carry, before Sphinx notes which names there are."""

    default_priority = 500

    def apply(self, **given: Any) -> None:
        """Change one page."""
        place_all(self.app, self.document)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    renderers = load_mime_renders()  # what installed packages add, read once: the very list
    renderers += [each for each in (Carried, Said) if each not in renderers]
    app.setup_extension("numbered")
    app.setup_extension("themed")
    app.add_transform(Place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
