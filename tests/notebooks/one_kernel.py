"""Chapters executed one after the other in one kernel: what they import is imported once."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook


def executed(sets: Sequence[tuple[Path, Mapping[str, Any]]], folder: Path) -> Iterator[nbformat.NotebookNode]:
    """Each notebook with its parameters, outputs included.

    Args:
        sets: notebooks, and their parameters.
        folder: where the kernel works.

    Raises:
        CellExecutionError: a cell failed.
    """
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(folder), env=dict(os.environ), extra_arguments=["--log-level=ERROR"])
    try:
        for path, parameters in sets:
            notebook = parameterize_notebook(load_notebook_node(str(path)), dict(parameters))
            first = next(cell for cell in notebook.cells if cell.cell_type == "code")
            first.source = "%reset -f\n" + first.source
            client = NotebookClient(notebook, km=manager, timeout=600, store_widget_state=False)
            made = client.execute()
            first.source = first.source.removeprefix("%reset -f\n")  # what is read of it is a chapter again
            yield made
    finally:
        manager.shutdown_kernel(now=True)
