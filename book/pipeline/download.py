"""Executed notebooks for download: roles that only the book renders are replaced by their text."""

import re
from collections.abc import Mapping
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup

from .roles import NUMBER, glued, name_and_format, written

LABEL = re.compile(r"\[(?P<label>(?:Figure|Table) (?P<name>[a-z0-9-]+))\]\(#(?P=name)\)")
"""A reference to a figure or table of a chapter."""

CAPTION = re.compile(r'<b id="([a-z0-9-]+)">((?:Figure|Table) \1)(?=\.</b>)')
"""How a caption begins in JupyterLab (`attnlib.plots.captions`)."""


def write_out(pages: Path) -> None:
    """Rewrites every notebook that pages offer, so that JupyterLab shows the numbers in its text."""
    labels = numbers_of(pages)
    for path in sorted((pages / "_sources").rglob("*.ipynb")):
        path.write_text(nbformat.writes(with_numbers(nbformat.read(path, 4), labels)), encoding="utf-8")


def numbers_of(pages: Path) -> dict[str, str]:
    """The numbered label of every figure and table on its page, such as "Figure 3.2", by name."""
    found = {}
    for path in sorted(pages.glob("notebooks/*.html")):
        for figure in BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").select("figure[id]"):
            if number := figure.select_one(".caption-number"):
                found[str(figure["id"])] = number.get_text().strip()
    return found


def with_numbers(
    notebook: nbformat.NotebookNode, labels: Mapping[str, str] | None = None
) -> nbformat.NotebookNode:
    """Replace roles in a notebook's text by the values that its cells glued; returns the notebook.

    Roles without a glued value stay. Figures for dark pages are removed, as JupyterLab shows light ones.
    Figures and tables get the labels that they have on the pages.
    """
    from attnlib.plots.drawing import DARK  # takes seconds, as it loads matplotlib

    kept = glued(notebook)
    labels = labels or {}

    def number(role: re.Match[str]) -> str:
        name, form = name_and_format(role[1], kept)
        return written(kept[name], form) if name in kept else role[0]

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = NUMBER.sub(number, cell.source)
            cell.source = LABEL.sub(lambda found: labels.get(found["name"], found["label"]), cell.source)
        for output in cell.get("outputs", []):
            shown = output.get("data", {})
            shown.pop(DARK, None)
            if "text/html" in shown:
                shown["text/html"] = CAPTION.sub(
                    lambda found: found[0].replace(found[2], labels.get(found[1], found[2])),
                    "".join(shown["text/html"]),
                )
    return notebook
