"""Adds a record of a reader's own run to the records of the book.

`python -m book.chapters.records.keep my_runs/rasp_languages/sort-3172a868.parquet` checks the record and
copies its two files to `results/rasp_languages/`, for git.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from attnlib.files import CheckpointError, write_atomically
from book.chapters.records.places import RECORDED
from book.chapters.records.provenance import caveats
from book.chapters.records.runs import QUICK, SMOKE, read


def keep(path: Path, recorded: Path = RECORDED) -> Path:
    """Copy a record, rows and provenance, to the records of the book."""
    rows = path.with_suffix(".parquet")
    _, made = read(rows)
    if against := caveats(made):
        raise ValueError(
            f"{rows} is marked [{against}], and every table would say so. Commit the code, and run the "
            "chapter again with the same parameters"
        )
    kept = recorded / made["notebook"] / rows.name
    if kept.exists():
        raise ValueError(f"{kept} is recorded already. To replace it, remove that file and its .json first")
    kept.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".json", ".parquet"):
        write_atomically(kept.with_suffix(suffix), rows.with_suffix(suffix).read_bytes())
    return kept


def main() -> int:
    """Copy the records that the command line names, and print where; returns the exit status."""
    parser = argparse.ArgumentParser(description="Keep runs of your own among the records of the book.")
    parser.add_argument(
        "--profile",
        choices=(SMOKE, QUICK),
        help="the records are of a build with this profile, for later builds to be compared with",
    )
    parser.add_argument(
        "records", type=Path, nargs="+", help="a file of each: my_runs/<chapter>/<run>.parquet"
    )
    try:
        given = parser.parse_args()
        for path in given.records:
            print(f"{keep(path, RECORDED / (given.profile or ''))}, and its .json: commit both")
    except (ValueError, CheckpointError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
