"""An explorer and a line on how it came about, as one page that can be sent."""

from __future__ import annotations

import html
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from attnlib.files import write_atomically
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
        ValueError: its folder does not exist or cannot be written to, or it is something else than a file.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it: -o {path / 'look.html'}")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into; make it first")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file that a page could replace; name one: -o look.html")
    try:
        tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise ValueError(f"{path.name} cannot be written into {path.parent}: {error.strerror}") from error
    return path


def write_page(seen: Seen, path: Path) -> Path:
    """Writes the page; an older one of the same name is replaced once all of this one is there.

    Returns:
        The path.

    Raises:
        CheckpointError: it could not be written; an older one is as it was.
    """
    note = f'<p style="font-size: 0.8rem">{html.escape(seen.note)} Made by attnlib {version("attnlib")}.</p>'
    page = whole_page(seen.title, f"{seen.explorer.to_html()}\n{note}")
    write_atomically(path.resolve(), page.encode())
    return path
