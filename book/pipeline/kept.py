"""Check the files of an earlier build: unchanged ones are reused, damaged ones are removed and made again."""

import json
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from attnlib.places import CheckpointError, in_words, sha256_of
from book.sealing import is_sealed, read_sealed, sealed

MINUTE = 60
"""Seconds by which the clock of a file server may differ from this machine's."""


def describing(run: Mapping[str, Any], left: Iterable[Path]) -> str:
    """The description of a run as JSON, with a checksum of every file that the run left."""
    return json.dumps(sealed({**run, "files": {path.name: sha256_of(path) for path in left}}), indent=1)


def runs_of(build: Path) -> list[dict[str, Any]]:
    """The descriptions of all runs of a build."""
    return [read_sealed(path) for path in sorted((build / "runs").glob("*.json"))]


def discard_damaged(build: Path) -> list[str]:
    """Remove all files of each chapter that has a damaged one; returns a line per chapter on the damage."""
    said = []
    for run in sorted((build / "runs").glob("*.json")):
        _, notebook, results = _left_of(build, run.stem)
        try:
            # Files whose names begin with a dot are left out: Snakemake puts one of its own into the folder.
            _check(run, [notebook, *(path for path in results.rglob("[!.]*") if path.is_file())])
        except (ValueError, OSError) as error:
            _remove(build, run.stem)
            # Otherwise Snakemake would see pages that are newer than all other files, and do nothing.
            (build / "reproduced.txt").unlink(missing_ok=True)
            said.append(f"{run.stem} is made again: {error}")
    return said


def discard_others(build: Path, chapters: Collection[str]) -> None:
    """Remove the files of chapters that are no longer in the book, which would otherwise be counted."""
    for run in sorted((build / "runs").glob("*.json")):
        if run.stem not in chapters:
            _remove(build, run.stem)


def _left_of(build: Path, chapter: str) -> tuple[Path, Path, Path]:
    """The paths of a chapter's run description, its notebook, and the folder of its records."""
    return build / f"runs/{chapter}.json", build / f"notebooks/{chapter}.ipynb", build / "results" / chapter


def _remove(build: Path, chapter: str) -> None:
    for path in _left_of(build, chapter):
        folder = os.path.isdir(path) and not path.is_symlink()
        with in_words(path):
            shutil.rmtree(path) if folder else path.unlink(missing_ok=True)


def say_damaged(build: Path) -> None:
    """Remove the files of damaged chapters, and print what was wrong."""
    try:
        for line in discard_damaged(build):
            print(line, flush=True)
    except CheckpointError as error:
        sys.exit(str(error))


def _check(run: Path, left: Iterable[Path]) -> None:
    told = read_sealed(run)
    if not is_sealed(told):
        raise ValueError(f"{run} has no checksum")
    if run.stat().st_mtime > time.time() + MINUTE:  # edits made now would seem older than the run
        raise ValueError(f"{run} is of a time to come: the clock was set back since")
    found = {path.name: sha256_of(path) for path in left}
    if wrong := sorted(name for name, _ in found.items() ^ told.get("files", {}).items()):
        raise ValueError(f"{', '.join(dict.fromkeys(wrong))} is not as the run left it")
