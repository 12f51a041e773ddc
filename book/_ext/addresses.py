"""A Sphinx extension: links that open an explorer, on the same page or another, in a given state.

Examples: ``[the last layer](#explorer=0&layer=2)``, ``[a sum](/index.md#explorer=0&text=5%2B3)``. The part
after `#` is not the id of a section: it encodes a reader's choices in an explorer, as the page's address does
(`attnlib/widgets/front/stand_in.js`). Such addresses exist only if every page is a file of its own.
"""

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

OF_EXPLORER = "explorer="


def linked(link: nodes.Element, address: str) -> nodes.reference:
    """A link with the same words and the given address."""
    return nodes.reference("", "", *link.children, refuri=address, internal=True, classes=["to-explorer"])


class OnThisPage(SphinxTransform):
    """Keeps links to explorers of the same page as they are."""

    default_priority = 510  # before sections are looked up

    def apply(self, **given: Any) -> None:
        """Change the links of one page."""
        for link in list(self.document.findall(nodes.reference)):
            if link.get("id_link") and link.get("refuri", "").startswith(f"#{OF_EXPLORER}"):
                link.replace_self(linked(link, link["refuri"]))


class OnOtherPages(SphinxPostTransform):
    """Gives links to explorers of other pages their address."""

    default_priority = 8  # before MyST looks up pages and their sections

    def run(self, **given: Any) -> None:
        """Change the links of one page."""
        builder = self.app.builder
        for link in list(self.document.findall(addnodes.pending_xref)):
            chosen = link.get("reftargetid") or ""
            if chosen.startswith(OF_EXPLORER):
                page = builder.get_relative_uri(link["refdoc"], link["reftarget"])
                link.replace_self(linked(link, f"{page}#{chosen}" if builder.name == "html" else page))


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this."""
    app.add_transform(OnThisPage)
    app.add_post_transform(OnOtherPages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
