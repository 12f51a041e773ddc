"""Chapters with what a reader types behind `papermill`, in the one kernel, outside of the repository."""

from pathlib import Path
from unittest.mock import patch

import pandas as pd
import papermill.cli

from attnlib.plots.drawing import CSV
from tests.conftest import ROOT
from tests.notebooks.one_kernel import Execute, chapter_with


class Ran:
    """A chapter at a profile with further words, executed; its models and records are in a folder."""

    def __init__(self, execute: Execute, folder: Path, chapter: str, *words: str, profile: str = "smoke"):
        given = ("-f", str(ROOT / f"notebooks/profiles/{chapter}/{profile}.yaml"), *words)
        _, parameters = papermill_gives((str(ROOT / f"notebooks/{chapter}.ipynb"), "out.ipynb", *given))
        self.notebook = chapter_with(chapter, parameters)
        self.records = folder / "results" / chapter
        execute(self.notebook, folder)

    def rows(self) -> pd.DataFrame:
        """Those of its only record."""
        (file,) = self.records.glob("*.parquet")
        return pd.read_parquet(file)

    def outputs(self) -> str:
        """All that the run shows, as one text, but for the files of numbers that outputs carry."""
        outputs = [output for cell in self.notebook.cells for output in cell.get("outputs", [])]
        return str([{**output, "data": {**output.get("data", {}), CSV: ""}} for output in outputs])


def papermill_gives(words):
    """The notebook and the parameters that papermill takes from a command; nothing is run."""
    with patch("papermill.cli.execute_notebook") as executed:
        papermill.cli.papermill.main(list(words), "papermill", standalone_mode=False)
    return executed.call_args.kwargs["input_path"], executed.call_args.kwargs["parameters"]
