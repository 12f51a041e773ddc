"""The folders of records: those that came with the book, and those of a reader's own runs.

It imports no other module of ours: the pipeline runs it alone, since importing the package takes seconds.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).absolute().parents[3]
"""The folder of the whole project."""

RECORDED = ROOT / "results"
"""The records that came with the book."""

OWN = ROOT / "my_runs"
"""The default folder of records, which git ignores."""


def results_folder() -> Path:
    """The folder in which this run records: `$ATTNLIB_RESULTS` if set, else `my_runs/`."""
    return Path(os.environ.get("ATTNLIB_RESULTS") or OWN)


def own_files(notebook: str = "*") -> list[Path]:
    """The files of the reader's own records, of one chapter or all; none if runs record into `results/`."""
    folder = results_folder()
    if folder.resolve() == RECORDED.resolve():
        return []
    return sorted(path for kind in ("parquet", "json") for path in folder.glob(f"{notebook}/*.{kind}"))
