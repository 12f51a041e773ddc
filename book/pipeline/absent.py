"""Replace numbers and figures that a chapter's prose mentions and a run with other parameters lacks.

For example, a number about keywords exists only for a corpus whose keywords are known. If the chapter was run
on another corpus, words replace the number, so that a run with any accepted parameters can be rendered.
"""

import re

import nbformat

from .roles import NUMBER, glued, is_word, name_and_format, written

ABSENT = "(not in this run)"
NOT_YET = "\N{EN DASH}"
"""The replacement in an unfinished run, whose cells have not all been executed."""

NAN = "nan"
"""How Python writes a number that is missing."""

_FIGURE = re.compile(r"\{(?:numref|ref)\}`(?:[^`<]*<)?([\w-]+)>?`")


def fill_absent(notebook: nbformat.NotebookNode, words: str = ABSENT) -> list[str]:
    """Replace roles of missing or NaN numbers, and links to missing figures, by words; returns their names.

    If a glued value is a word ("never"), the role is replaced by that word. A role without a format whose
    name contains a colon is replaced by its value: MyST-NB would read what follows the colon as a format.
    """
    numbers, drawn = glued(notebook), _drawn(notebook)
    absent: dict[str, None] = {}

    def number(role: re.Match[str]) -> str:
        name, form = name_and_format(role[1], numbers)
        if numbers.get(name, NAN) == NAN:
            absent[name] = None
            return words
        unread = not form and ":" in name
        return written(numbers[name], form) if unread or is_word(numbers[name], form) else role[0]

    def figure(role: re.Match[str]) -> str:
        if drawn.get(role[1], True):
            return role[0]
        absent[role[1]] = None
        return words

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _FIGURE.sub(figure, NUMBER.sub(number, cell.source))
    return list(absent)


def _drawn(notebook: nbformat.NotebookNode) -> dict[str, bool]:
    """By the name of a figure, whether the cell that draws it shows anything."""
    found = {}
    for cell in notebook.cells:
        name = cell.metadata.get("mystnb", {}).get("figure", {}).get("name")
        if name:
            found[name] = any("data" in output for output in cell.get("outputs", []))
    return found
