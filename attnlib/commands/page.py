"""An explorer and a line on how it came about, as one page that can be sent."""

from __future__ import annotations

import html
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from attnlib.widgets.explorer import Explorer
from attnlib.widgets.static import whole_page


@dataclass(frozen=True)
class Seen:
    """What a command shows.

    Attributes:
        explorer: of it.
        title: of the page.
        note: a line below: of which model this is, and how it was asked.
    """

    explorer: Explorer
    title: str
    note: str


def checked_place(path: Path) -> Path:
    """The path, if a page can be written there: asked before the minutes that it takes to make one.

    Raises:
        ValueError: its folder does not exist, or it is a folder itself.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it: -o {path / 'look.html'}")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into; make it first")
    return path


def write_page(seen: Seen, path: Path) -> Path:
    """Writes the page; an older one of the same name is replaced.

    Returns:
        The path.
    """
    note = f'<p style="font-size: 0.8rem">{html.escape(seen.note)} Made by attnlib {version("attnlib")}.</p>'
    path.write_text(whole_page(seen.title, f"{seen.explorer.to_html()}\n{note}"), encoding="utf-8")
    return path
