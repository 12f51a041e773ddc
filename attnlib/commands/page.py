"""An explorer and a line on how it came about, as one page that can be sent."""

from __future__ import annotations

import html
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attnlib.files import write_atomically
from attnlib.widgets.explorer import Explorer
from attnlib.widgets.static import whole_page


@dataclass(frozen=True)
class Seen:
    """What `look` shows: in a notebook by itself, and as a page with `save`.

    Attributes:
        explorer: of it.
        title: of the page.
        note: a line below: of which model this is, and how it was asked.
    """

    explorer: Explorer
    title: str
    note: str

    def save(self, path: str | Path) -> Path:
        """Writes the page; an older one of the same name is replaced once all of this one is there.

        Returns:
            The path.

        Raises:
            ValueError: as `checked_place`.
            CheckpointError: it could not be written; an older one is as it was.
        """
        place = checked_place(Path(path))
        note = f"{html.escape(self.note)} Made by attnlib {version('attnlib')}."
        body = f'{self.explorer.to_html()}\n<p style="font-size: 0.8rem">{note}</p>'
        page = whole_page(self.title, body)
        write_atomically(place.resolve(), page.encode())
        return place

    def _repr_mimebundle_(self, **how: Any) -> Any:
        """The explorer, where a cell of a notebook ends with it."""
        return self.explorer._repr_mimebundle_(**how)


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
