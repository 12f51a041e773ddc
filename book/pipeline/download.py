"""Executed notebooks as a reader downloads them: what only the book renders is written out."""

import re
from pathlib import Path

import nbformat

NUMBER = re.compile(r"\{glue:text\}`([^`]+)`")


def write_out(folder: Path) -> None:
    """Rewrites every notebook below a folder, so that JupyterLab shows its text with the numbers in it."""
    for path in sorted(folder.rglob("*.ipynb")):
        path.write_text(nbformat.writes(with_numbers(nbformat.read(path, 4))))


def with_numbers(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Puts into the text what `glue` kept of this run, in the place of the roles that name it.

    Roles of other notebooks stay as they are: a file by itself does not have their numbers.
    """
    kept = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            told = output.get("metadata", {}).get("scrapbook")
            if told and (value := output["data"].get(f"{told['mime_prefix']}text/plain")) is not None:
                kept[told["name"]] = value

    def written(role: re.Match[str]) -> str:
        key, colon, form = role[1].rpartition(":") if role[1] not in kept else (role[1], "", "")
        if key not in kept:
            return role[0]
        return format(float(kept[key]), form) if colon else kept[key].strip("'\"")

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = NUMBER.sub(written, cell.source)
    return notebook
