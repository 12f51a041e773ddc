"""Numbers and citations in the text of chapters that are open in `make lab`, as on the pages.

Only the book understands a role that names a number of the run, `` {glue:text}`name:.2f` ``. JupyterLab's
extension jupyterlab-myst lets the kernel evaluate the role `eval`. So the server rewrites the first role into
the second when it opens a chapter, and back when it saves one; every kernel keeps the values given to `glue`.
Citations become links (`citations`). Files only ever contain the book's own roles. If a reader's own text
looks like a rewritten role, one blank is added when it is opened and removed when it is saved, so that
`naming` inverts `asking` for every text.
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
    """The value of a role: the number as the book writes it, or a dash while no cell has glued it."""

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
    """Replaces `myst_nb.glue` in a live kernel: also keeps the value under its name."""
    _given[name] = variable
    _original(name, variable, display)


def asking(text: str) -> str:
    """The text with roles that the kernel evaluates, and with links in place of citations."""
    return re.sub(f"{NUMBER.pattern}|{ASKED.pattern}", _asked, linked(text))


def naming(text: str) -> str:
    """The text with the book's own roles and citations again: the inverse of `asking`."""
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
    """A contents manager that opens chapters with roles that a live notebook understands."""

    def get(self, path: str, *given: Any, **how: Any) -> dict[str, Any]:
        """A file or folder, with roles rewritten for JupyterLab."""
        return _changed(super().get(path, *given, **how), asking)

    def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Writes a file with the book's own roles."""
        return super().save(_changed({"path": path} | model, naming), path)


def _changed(model: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """A model whose Markdown went through `change`; models of other files are returned as they are."""
    content = model.get("content")
    if model.get("type") == "notebook" and content:
        for cell in content["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = change("".join(cell["source"]))
    elif model.get("type") == "file" and isinstance(content, str) and model["path"].endswith(".md"):
        model["content"] = change(content)
    return model
