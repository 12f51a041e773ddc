"""Numbers in prose: the role `` {glue:text}`name:.2f` ``, and the values that cells glued under its name."""

import re
from collections.abc import Collection

import nbformat
from myst_nb.core.variables import format_plain_text

NUMBER = re.compile(r"\{glue:text\}`([^`]+)`")
"""The role; its group is the name, followed by a colon and a format if there is one."""


def name_and_format(role: str, names: Collection[str]) -> tuple[str, str]:
    """The name and the format ("" if there is none) in a role; a name may itself contain colons."""
    name, colon, form = role.rpartition(":")
    return (role, "") if role in names or not colon else (name, form)


def is_word(text: str, form: str) -> bool:
    """Whether a glued value is a word ("never") although the format is one of numbers."""
    try:
        format_plain_text(text, form)
    except ValueError:
        return True
    return False


def written(text: str, form: str) -> str:
    """A number in its format, as the book writes it; a word is returned without its quotation marks."""
    return text.strip("'\"") if is_word(text, form) else format_plain_text(text, form)


def glued(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Every number that a cell glued, as text, by its name."""
    found = {}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        told = output.get("metadata", {}).get("scrapbook")
        if told:
            found[told["name"]] = output["data"].get(f"{told['mime_prefix']}text/plain", "")
    return found
