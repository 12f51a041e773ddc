"""Executed notebooks as a reader downloads them: what only the book renders is written out."""

import re
from pathlib import Path

import nbformat

from .roles import NUMBER, glued, name_and_format, written


def write_out(folder: Path) -> None:
    """Rewrites every notebook below a folder, so that JupyterLab shows its text with the numbers in it."""
    for path in sorted(folder.rglob("*.ipynb")):
        path.write_text(nbformat.writes(with_numbers(nbformat.read(path, 4))))


def with_numbers(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Puts into the text what `glue` kept of this run, in the place of the roles that name it.

    Roles of other notebooks stay as they are: a file by itself does not have their numbers. Figures for dark
    pages are left out: JupyterLab shows the others.
    """
    from attnlib.plots.drawing import DARK  # seconds, as it loads what draws

    kept = glued(notebook)

    def number(role: re.Match[str]) -> str:
        name, form = name_and_format(role[1], kept)
        return written(kept[name], form) if name in kept else role[0]

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = NUMBER.sub(number, cell.source)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(DARK, None)
    return notebook
