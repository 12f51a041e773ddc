"""A Sphinx extension: a figure has a light and a dark version, and opens large on a touch.

The theme shows one of the two. The other is not loaded, since pictures are loaded when they come into view.
The HTML contains the size of pictures, so that the page does not move when they are loaded.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

SIZE = re.compile(r'<svg\b[^>]*?\bwidth="(?P<width>[\d.]+)pt"[^>]*?\bheight="(?P<height>[\d.]+)pt"')
PIXELS = 4 / 3  # of a point


class Themed(nodes.container):
    """The picture for light pages, and the one for dark pages."""


def both(light: nodes.image, dark: nodes.image) -> None:
    """Replace the light picture by a box with both; without it, the theme would hide captions beside them."""
    light["classes"].append("only-light")
    dark["classes"].append("only-dark")
    box, parent = Themed(classes=["themed"]), light.parent
    parent[parent.index(light)] = box  # `replace_self` would hand on the class
    box += [light, dark]


def size(path: Path) -> dict[str, int]:
    """Width and height of an SVG by matplotlib, in pixels of a page; empty for other pictures."""
    found = SIZE.search(path.read_text(encoding="utf-8"))
    points = found.groupdict() if found else {}
    return {side: round(PIXELS * float(value)) for side, value in points.items()}


def visit(self: HTML5Translator, node: Themed) -> None:
    """Write both pictures into a link to the light one, which large.js opens without leaving the page."""
    if self.builder.name != "html":  # paper needs no link and no delayed loading
        self.visit_container(node)
        return
    paths = [posixpath.join(self.builder.imgpath, self.builder.images[each["uri"]]) for each in node]
    self.body.append(self.starttag(node, "a", href=paths[0], title="Open this figure large"))
    for image, path in zip(node, paths, strict=True):
        sides = size(Path(self.builder.srcdir, image["uri"]))
        told = {"src": path, "alt": image.get("alt", ""), "loading": "lazy", **sides}
        self.body.append(self.emptytag(image, "img", "\n", **told))
    self.body.append("</a>\n")
    raise nodes.SkipNode


def depart(self: HTML5Translator, node: Themed) -> None:
    """Close the box on paper."""
    self.depart_container(node)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.add_node(Themed, html=(visit, depart))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
