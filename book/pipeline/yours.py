"""The last section of a chapter's page: the reader's own runs of it, if there are any.

The section is added when pages are rendered, not when a chapter is executed, so own runs change nothing else.
"""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from book.chapters.records.own import your_runs

WORDS = """## Your runs

These runs of this chapter are your own (in `my_runs/`, or where `ATTNLIB_RESULTS` points). No claim of the
book is judged by them, and nothing above is about them."""

CODE = """from book.chapters.records.own import your_runs

for table in your_runs({chapter!r}):
    display(table)"""


def add_own_runs(notebook: Path) -> None:
    """Adds the section to a chapter that is about to be rendered."""
    if not (tables := your_runs(notebook.stem)):
        return
    shown = [new_output("display_data", data=table._repr_mimebundle_()) for table in tables]
    code = CODE.format(chapter=notebook.stem)
    cells = [
        new_markdown_cell(WORDS, id="your-runs"),
        new_code_cell(code, outputs=shown, id="your-runs-tables", metadata={"tags": ["hide-input"]}),
    ]
    chapter = nbformat.read(notebook, as_version=4)
    chapter.cells += cells
    nbformat.write(chapter, notebook)
