"""The first cell of every notebook for Google Colab, or none.

Colab opens a notebook by itself, without the package beside it. Where `_config.yml` names the public
repository (`repository: url:`), every notebook begins with a cell that fetches it there, and does nothing
elsewhere; where it names none, there is no such cell. `make sync` sees to it.
"""

from pathlib import Path
from string import Template

import jupytext
import nbformat
import yaml
from nbformat.v4 import new_code_cell

from .execute import write_whole

TAG = "colab"
CELL = Template("""\
import sys

if "google.colab" in sys.modules:  # nothing of the book is there yet
    get_ipython().system("git clone --quiet --depth 1 --branch $branch $url $folder")
    get_ipython().system("pip install --quiet -e '$folder[book,lm]'")
    sys.path.insert(0, "$folder")""")
FOLDER = "where-attention-looks"


def with_first_cell(notebook: nbformat.NotebookNode, url: str, branch: str) -> nbformat.NotebookNode:
    """The notebook with the cell behind its first text, if there is an address, and else without one."""
    notebook.cells = [cell for cell in notebook.cells if TAG not in cell.metadata.get("tags", [])]
    if url:
        source = CELL.substitute(url=url.rstrip("/"), branch=branch, folder=FOLDER)
        cell = new_code_cell(source, metadata={"tags": [TAG, "remove-cell"]})
        del cell["id"]  # the text twin has no place for it
        notebook.cells.insert(1, cell)
    return notebook


def see_to_texts() -> None:
    """Brings the texts of all chapters in line with the setting."""
    repository = yaml.safe_load(Path("_config.yml").read_text(encoding="utf-8"))["repository"]
    for path in sorted(Path("notebooks/text").glob("*.md")):
        before = path.read_text(encoding="utf-8")
        notebook = with_first_cell(jupytext.read(path), repository["url"], repository["branch"])
        after = jupytext.writes(notebook, fmt="md:myst")
        if after != before:
            write_whole(path, after)
