"""Measured times on the status page. They differ between builds, so no other page contains them.

The output of a chapter's cell tagged `times` moves there, too; in its place the chapter has a link.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
from nbformat.v4 import new_markdown_cell

TAG = "times"
NAME = re.compile(r'<b id="[a-z0-9-]+">[^<]*</b> ')
"""The name before a caption, which is removed: on the status page figures and tables have no number."""

LINK = (
    "*Times measured in this build are on the [status page](../book/status.md#times-measured-by-chapters).*"
)

COLUMNS = {
    "notebook": "chapter",
    "profile": "profile",
    "wall_time_s": "wall time (s)",
    "memory_gb": "memory (GB)",
    "device": "device",
    "system": "system",
    "finished": "date",
}


def set_apart(notebook: nbformat.NotebookNode) -> str:
    """Replace the outputs of cells tagged `times` in a notebook by a link; returns the outputs as HTML."""
    cells, shown = [], []
    for cell in notebook.cells:
        cells.append(cell)
        if TAG in cell.metadata.get("tags", []) and cell.get("outputs"):
            shown += [_html(output) for output in cell.outputs]
            cell.outputs = []
            cells.append(new_markdown_cell(LINK, id=f"{cell.id}-{TAG}"))
    notebook.cells = cells
    return "\n".join(shown)


def copy_without_times(executed: Path, target: Path) -> str:
    """Copy an executed chapter without its measured times; returns these as HTML."""
    notebook = nbformat.read(executed, as_version=4)
    shown = set_apart(notebook)
    nbformat.write(notebook, target)
    return shown


def run_times(runs: Iterable[Mapping[str, Any]]) -> str:
    """An HTML table with a row per chapter: how long it took to execute, and on which machine."""
    rows = pd.DataFrame(
        [{name: escape(str(run[column])) for column, name in COLUMNS.items()} for run in runs]
    )
    rows["chapter"] = rows["chapter"].map(_link)
    table = rows.to_html(index=False, border=0, classes="table", justify="unset", escape=False)
    # The theme wraps its own tables like this: a wide table scrolls inside a narrow page.
    return f'<div class="pst-scrollable-table-container" tabindex="0">\n{table}\n</div>'


def chapter_times(shown: Mapping[str, str]) -> str:
    """The times that chapters measured, as HTML, under the chapters' names."""
    parts = (f"<h3>{_link(name)}</h3>\n{html}" for name, html in shown.items() if html)
    return '<div class="cell_output">\n{}\n</div>'.format("\n".join(parts))


def beside(page: Path, name: str, html: str) -> str:
    """Write HTML into a file beside a page of the stage; returns the MyST that includes the file."""
    page.with_name(name).write_text(html, encoding="utf-8")
    return f"```{{raw}} html\n:file: {name}\n```"


def _link(chapter: str) -> str:
    return f'<a href="../notebooks/{chapter}.html">{chapter.replace("_", " ")}</a>'


def _html(output: nbformat.NotebookNode) -> str:
    data = output.get("data", {})
    return (
        NAME.sub("", data.get("text/html", ""))
        or f"<pre>{escape(output.get('text') or data.get('text/plain', ''))}</pre>"
    )
