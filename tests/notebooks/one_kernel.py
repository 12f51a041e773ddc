"""Chapters executed one after the other in one kernel: what they import is imported once."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from tests.conftest import ROOT

BEGIN = "%reset -f\n%cd -q {folder}\n__import__('os').environ.update({environment})\n"
BEGIN += "__import__('sys').path.append({root!r})\n__import__('tests.legends').legends.watch()\n"

Execute = Callable[[nbformat.NotebookNode, Path], None]


@contextmanager
def one_kernel() -> Iterator[Execute]:
    """What executes a notebook in place, outputs included, in a folder; names of an earlier one are gone.

    Models go to that folder, and records to `results` in it.

    Raises:
        CellExecutionError: by the call, if a cell fails. The kernel is there for the next notebook.
    """
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=dict(os.environ), extra_arguments=["--log-level=ERROR"])

    def execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        environment = {"ATTNLIB_CACHE": str(folder), "ATTNLIB_RESULTS": str(folder / "results")}
        begin = BEGIN.format(folder=folder, environment=environment, root=str(ROOT))
        first.source = begin + first.source
        try:
            patience = {"timeout": 600, "startup_timeout": 300, "iopub_timeout": 60}  # both cores may be busy
            NotebookClient(notebook, km=manager, store_widget_state=False, **patience).execute()
        finally:
            first.source = first.source.removeprefix(begin)

    try:
        yield execute
    finally:
        manager.shutdown_kernel(now=True)


def chapter_with(chapter: str, parameters: Mapping[str, Any]) -> nbformat.NotebookNode:
    """A chapter with these parameters, as papermill gives them to it; nothing is executed."""
    notebook = load_notebook_node(str(ROOT / f"notebooks/{chapter}.ipynb"))
    return parameterize_notebook(notebook, dict(parameters))
