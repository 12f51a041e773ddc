"""Every explorer of the book, by kind: what it shows, and where it stands."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import yaml

from attnlib import widgets
from book.chapters.findings.finding import slug
from book.pipeline.contents import documents

CALL = re.compile(rf"^\s*(?:\w+ = )?({'|'.join(widgets.__all__)})[.(]", re.MULTILINE)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)

CARD = """\
:::{{grid-item-card}} {title}
{shows}

{places}
:::"""


class Place(NamedTuple):
    """Where an explorer stands.

    Attributes:
        explorer: its class.
        document: the notebook, as the table of contents names it.
        title: of the notebook.
        section: the last heading above.
    """

    explorer: str
    document: str
    title: str
    section: str


def gallery(stage: Path) -> str:
    """A card per kind of explorer, with a link to every place in the pages that are rendered."""
    toc = yaml.safe_load((stage / "_toc.yml").read_text(encoding="utf-8"))
    notebooks = [name for name in documents(toc) if (stage / f"{name}.ipynb").exists()]
    found = [place for name in notebooks for place in places(stage, name)]
    kinds = dict.fromkeys(place.explorer for place in found)
    cards = [card(kind, [place for place in found if place.explorer == kind]) for kind in kinds]
    return "\n\n".join(["::::{grid} 1 1 2 2\n:gutter: 3", *cards, "::::"])


def places(stage: Path, document: str) -> Iterator[Place]:
    """The explorers of a notebook, in the order of its cells."""
    title = section = ""
    for cell in nbformat.read(stage / f"{document}.ipynb", as_version=4).cells:
        if cell.cell_type == "markdown":
            for level, heading in HEADING.findall(cell.source):
                title, section = (heading, heading) if level == "#" else (title, heading)
        elif "remove-cell" not in cell.metadata.get("tags", []):
            yield from (Place(name, document, title, section) for name in CALL.findall(cell.source))


def card(kind: str, stands: list[Place]) -> str:
    """A kind of explorer: its name, what its module says that it shows, and where it stands."""
    module: Any = sys.modules[getattr(widgets, kind).__module__]
    shows = (inspect.getdoc(module) or "").splitlines()[0]
    links = [
        f"- [{each.section}](/{each.document}.ipynb#{slug(each.section)}), in *{each.title}*"
        for each in stands
    ]
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).capitalize()
    return CARD.format(title=title, shows=shows, places="\n".join(dict.fromkeys(links)))
