"""Runs a chapter as a reader would: papermill, from a folder that is not the repository's."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import nbformat
import papermill.cli

from attnlib.plots.drawing import CSV

ROOT = Path(__file__).parents[2]


def at_smoke(chapter, folder, *words):
    """Run a chapter at its smoke profile with further words; models and records go to the folder."""
    notebook, profile = ROOT / f"notebooks/{chapter}.ipynb", ROOT / f"notebooks/profiles/{chapter}/smoke.yaml"
    command = [sys.executable, "-m", "papermill", str(notebook), "out.ipynb", "-f", str(profile), *words]
    environment = os.environ | {"ATTNLIB_CACHE": str(folder), "ATTNLIB_RESULTS": str(folder / "results")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def papermill_gives(words):
    """The notebook and the parameters that papermill takes from a command; nothing is run."""
    with patch("papermill.cli.execute_notebook") as executed:
        papermill.cli.papermill.main(list(words), "papermill", standalone_mode=False)
    return executed.call_args.kwargs["input_path"], executed.call_args.kwargs["parameters"]


def outputs_of(folder):
    """All that the run shows, as one text; the numbers that outputs carry beside it are files for readers."""
    cells = nbformat.read(folder / "out.ipynb", 4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    for output in outputs:
        output.get("data", {}).pop(CSV, None)
    return str(outputs)
