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

CLEAR = "%reset -f\n"

Execute = Callable[[nbformat.NotebookNode], None]


@contextmanager
def one_kernel(folder: Path) -> Iterator[Execute]:
    """What executes a notebook in place, outputs included; names of an earlier one are gone.

    Args:
        folder: where the kernel works.

    Raises:
        CellExecutionError: by the call, if a cell fails. The kernel is there for the next notebook.
    """
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(folder), env=dict(os.environ), extra_arguments=["--log-level=ERROR"])

    def execute(notebook: nbformat.NotebookNode) -> None:
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        first.source = CLEAR + first.source
        try:
            NotebookClient(notebook, km=manager, timeout=600, store_widget_state=False).execute()
        finally:
            first.source = first.source.removeprefix(CLEAR)

    try:
        yield execute
    finally:
        manager.shutdown_kernel(now=True)


def chapter_with(chapter: str, parameters: Mapping[str, Any]) -> nbformat.NotebookNode:
    """A chapter with these parameters, as papermill gives them to it; nothing is executed."""
    notebook = load_notebook_node(str(ROOT / f"notebooks/{chapter}.ipynb"))
    return parameterize_notebook(notebook, dict(parameters))
