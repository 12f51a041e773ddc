"""`make lab` shows numbers in the text, as the pages do.

A role that names a number of the run, `` {glue:text}`name:.2f` ``, means something to the book alone.
JupyterLab (its extension jupyterlab-myst) asks the kernel for what stands in the role `eval`. So the server
hands a chapter out with the one written as the other, and writes what is saved back as it was; and every
kernel keeps what `glue` is given. Citations are handed out as links (`citations`). Files never hold anything
but the book's own roles. What looks like a role that was handed out, and is the reader's own, is handed out
with a blank more: `naming` undoes `asking`, whatever the text.
"""

import ast
import re
from collections.abc import Callable
from typing import Any

import myst_nb
from jupyter_server.services.contents.largefilemanager import LargeFileManager

from book.pipeline.absent import NOT_YET
from book.pipeline.citations import cited, linked
from book.pipeline.roles import NUMBER, name_and_format, written

ASKED = re.compile(r"\{eval\}`( *)glued\(([^`]*)\)`")

_given: dict[str, Any] = {}
_original = myst_nb.glue


class Number:
    """What a role shows: the number as the book writes it, or a dash while the run has not come to it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def glued(role: str) -> Number:
    """The number that a role names, `name` or `name:format`."""
    name, form = name_and_format(role, _given)
    if name not in _given:
        return Number(NOT_YET)
    return Number(written(str(_given[name]), form))


def keeping(name: str, variable: Any, display: bool = True) -> None:
    """What stands in the place of `myst_nb.glue` in a live kernel."""
    _given[name] = variable
    _original(name, variable, display)


def asking(text: str) -> str:
    """The text with roles that ask the kernel, and with links in place of citations."""
    return re.sub(f"{NUMBER.pattern}|{ASKED.pattern}", _asked, linked(text))


def naming(text: str) -> str:
    """The text with the book's own roles again."""
    return cited(ASKED.sub(_named, text))


def _asked(found: re.Match[str]) -> str:
    name, blanks, words = found.groups()
    return f"{{eval}}`{blanks} glued({words})`" if name is None else f"{{eval}}`glued({name!r})`"


def _named(found: re.Match[str]) -> str:
    blanks, words = found.groups()
    if blanks:
        return f"{{eval}}`{blanks[1:]}glued({words})`"
    try:
        name = ast.literal_eval(words)
    except (ValueError, SyntaxError):
        return found[0]
    return f"{{glue:text}}`{name}`" if isinstance(name, str) and repr(name) == words else found[0]


class Chapters(LargeFileManager):
    """Hands chapters out with roles that a live notebook understands."""

    def get(self, path: str, *given: Any, **how: Any) -> dict[str, Any]:
        """A file or folder, as JupyterLab is to see it."""
        return _changed(super().get(path, *given, **how), asking)

    def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Writes a file as the book is to have it."""
        return super().save(_changed(model, naming), path)


def _changed(model: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """A notebook or a chapter's text with other roles; anything else as it is."""
    content = model.get("content")
    if model.get("type") == "notebook" and content:
        for cell in content["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = change("".join(cell["source"]))
    elif (
        model.get("type") == "file" and isinstance(content, str) and model.get("path", ".md").endswith(".md")
    ):
        model["content"] = change(content)
    return model
