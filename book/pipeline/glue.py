"""Numbers inside a chapter's prose that a run with other parameters does not have.

A sentence about keywords, say, is of a corpus whose keywords are known. Its numbers read `ABSENT` where the
chapter was run on another one, so that every parameter set that a chapter accepts can be rendered, too.
"""

import re

import nbformat
from myst_nb.core.variables import format_plain_text

ABSENT = "(not in this run)"

_ROLE = re.compile(r"\{glue:text\}`([^`]+)`")


def fill_absent(notebook: nbformat.NotebookNode) -> list[str]:
    """Put words in place of what myst-nb could not; returns the names of the numbers that are absent.

    A number that came out as a word ("never") is shown as that word, whatever its format.
    """
    glued = _glued(notebook)
    absent = []

    def filled(role: re.Match[str]) -> str:
        name, colon, form = role[1].rpartition(":")
        name, form = (name, form) if colon else (form, "s")
        if name not in glued:
            absent.append(name)
            return ABSENT
        try:
            format_plain_text(glued[name], form)
        except ValueError:
            return glued[name].strip("'\"")
        return role[0]

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _ROLE.sub(filled, cell.source)
    return list(dict.fromkeys(absent))


def _glued(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Every number that a cell glued, as text."""
    found = {}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        told = output.get("metadata", {}).get("scrapbook")
        if told:
            found[told["name"]] = output["data"].get(f"{told['mime_prefix']}text/plain", "")
    return found
