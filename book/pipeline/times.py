"""Times, in which no two builds are alike: they stand on the status page, so that no other page differs.

What a chapter's cell tagged `times` shows goes there, too; in its place the chapter has a link.
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
"""Of a figure or table: on the status page it has neither its name nor a number."""

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
    """Take what cells tagged `times` show out of a notebook, with a link in its place; returns it as HTML."""
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
    """Copy an executed chapter; returns what it timed, as HTML."""
    notebook = nbformat.read(executed, as_version=4)
    shown = set_apart(notebook)
    nbformat.write(notebook, target)
    return shown


def run_times(runs: Iterable[Mapping[str, Any]]) -> str:
    """A row per chapter: how long it took to execute, and where; as HTML."""
    rows = pd.DataFrame(
        [{name: escape(str(run[column])) for column, name in COLUMNS.items()} for run in runs]
    )
    rows["chapter"] = rows["chapter"].map(_link)
    table = rows.to_html(index=False, border=0, classes="table", justify="unset", escape=False)
    # As the theme has its own tables: a wide one scrolls inside a narrow page.
    return f'<div class="pst-scrollable-table-container" tabindex="0">\n{table}\n</div>'


def chapter_times(shown: Mapping[str, str]) -> str:
    """What the chapters timed, as HTML under their names."""
    parts = (f"<h3>{_link(name)}</h3>\n{html}" for name, html in shown.items() if html)
    return '<div class="cell_output">\n{}\n</div>'.format("\n".join(parts))


def beside(page: Path, name: str, html: str) -> str:
    """Write HTML beside a page of the stage; returns the MyST that shows it, the same in every build."""
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
