"""What a chapter's prose speaks of and a run with other parameters does not have: numbers, and figures.

A sentence about keywords, say, is of a corpus whose keywords are known. Where the chapter was run on another
one, words stand in its place, so that every parameter set that a chapter accepts can be rendered, too.
"""

import re

import nbformat

from .roles import NUMBER, glued, is_word, name_and_format, written

ABSENT = "(not in this run)"
NOT_YET = "\N{EN DASH}"
"""The same where a run has not come to the cell."""

NAN = "nan"
"""What Python writes of a number that there is none of."""

_FIGURE = re.compile(r"\{(?:numref|ref)\}`(?:[^`<]*<)?([\w-]+)>?`")


def fill_absent(notebook: nbformat.NotebookNode, words: str = ABSENT) -> list[str]:
    """Put words in place of numbers that are not there, or NaN, and of links to figures that are not.

    A number that came out as a word ("never") is shown as it is. So is a word whose name has a colon, behind
    which MyST-NB would look for a format.
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
    """Of each cell that has the name of a figure, whether it shows anything."""
    found = {}
    for cell in notebook.cells:
        name = cell.metadata.get("mystnb", {}).get("figure", {}).get("name")
        if name:
            found[name] = any("data" in output for output in cell.get("outputs", []))
    return found
