"""Executed notebooks as a reader downloads them: what only the book renders is written out."""

import re
from pathlib import Path

import nbformat
from myst_nb.core.variables import format_plain_text

from book.pipeline.absent import glued

NUMBER = re.compile(r"\{glue:text\}`([^`]+)`")


def write_out(folder: Path) -> None:
    """Rewrites every notebook below a folder, so that JupyterLab shows its text with the numbers in it."""
    for path in sorted(folder.rglob("*.ipynb")):
        path.write_text(nbformat.writes(with_numbers(nbformat.read(path, 4))))


def with_numbers(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Puts into the text what `glue` kept of this run, in the place of the roles that name it.

    Roles of other notebooks stay as they are: a file by itself does not have their numbers.
    """
    kept = glued(notebook)

    def written(role: re.Match[str]) -> str:
        key, _, form = role[1].rpartition(":") if role[1] not in kept else (role[1], "", "")
        if key not in kept:
            return role[0]
        return format_plain_text(kept[key], form)

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = NUMBER.sub(written, cell.source)
    return notebook
