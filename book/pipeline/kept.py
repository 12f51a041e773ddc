"""What an earlier build left: taken as it is if nothing changed it since; made again if something did."""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attnlib.places import CheckpointError, in_words, sha256_of
from attnlib.sealing import is_sealed, read_sealed, sealed

MINUTE = 60
"""Seconds that the clocks of two machines may differ, of which one keeps the files of the other."""


def describing(run: Mapping[str, Any], left: Iterable[Path]) -> str:
    """How a run went, as JSON that also knows the bytes of every file that it left."""
    return json.dumps(sealed({**run, "files": {path.name: sha256_of(path) for path in left}}), indent=1)


def runs_of(build: Path) -> list[dict[str, Any]]:
    """How every run of a build went.

    Raises:
        ValueError: a file is damaged; `discard_damaged` mends that.
    """
    return [read_sealed(path) for path in sorted((build / "runs").glob("*.json"))]


def discard_damaged(build: Path) -> list[str]:
    """Remove all that is left of a chapter where a part of it is damaged; says of each what was wrong.

    Raises:
        CheckpointError: it cannot be removed.
    """
    said = []
    for run in sorted((build / "runs").glob("*.json")):
        notebook, results = build / "notebooks" / f"{run.stem}.ipynb", build / "results" / run.stem
        try:
            # Snakemake leaves a file of its own in a folder, whose name begins with a dot.
            _check(run, [notebook, *(path for path in results.rglob("[!.]*") if path.is_file())])
        except (ValueError, OSError) as error:
            for path in (run, notebook, results):
                folder = os.path.isdir(path) and not path.is_symlink()
                with in_words(path):
                    shutil.rmtree(path) if folder else path.unlink(missing_ok=True)
            # Or Snakemake would see pages that are newer than all else, and nothing to be done.
            shutil.rmtree(build / "html", ignore_errors=True)
            said.append(f"{run.stem} is made again: {error}")
    return said


def say_damaged(build: Path) -> None:
    """Remove it, and print what was wrong.

    Raises:
        SystemExit: it cannot be removed; says why.
    """
    try:
        for line in discard_damaged(build):
            print(line, flush=True)
    except CheckpointError as error:
        sys.exit(str(error))


def _check(run: Path, left: Iterable[Path]) -> None:
    told = read_sealed(run)
    if not is_sealed(told):
        raise ValueError(f"{run} has no checksum")
    if run.stat().st_mtime > time.time() + MINUTE:  # an edit made now would seem older than what it changes
        raise ValueError(f"{run} is of a time to come: the clock was set back since")
    found = {path.name: sha256_of(path) for path in left}
    if wrong := sorted(name for name, _ in found.items() ^ told.get("files", {}).items()):
        raise ValueError(f"{', '.join(dict.fromkeys(wrong))} is not as the run left it")
