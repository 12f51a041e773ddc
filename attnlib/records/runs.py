"""Records of runs: what each found, and what made it.

A record is two files in `results/<notebook>/`: `<run>.parquet`, one row per run and metric with its interval,
and `<run>.json`, its provenance. A table of a chapter reads records; what was not run shows as not run.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlib.files import write_atomically
from attnlib.training.cache import code_hash

PACKAGE = Path(__file__).parents[1]
RECORDED = PACKAGE.parent / "results"
"""The records that came with the book."""

Record = tuple[pd.DataFrame, dict[str, Any]]
"""A record's rows, and its provenance."""

_VERSIONS = ("attnlib", "torch", "transformers", "numpy", "scipy", "pandas")


def results_folder() -> Path:
    """Where this run records: `$ATTNLIB_RESULTS` if set, else beside the records that came with the book."""
    fallback = RECORDED if RECORDED.is_dir() else Path("results")
    return Path(os.environ.get("ATTNLIB_RESULTS") or fallback)


def record(
    rows: pd.DataFrame, *, notebook: str, label: str, params: Mapping[str, Any], seconds: float, device: str
) -> Path:
    """Write a run's rows and provenance; the same run again, with the same rows, changes nothing.

    Args:
        rows: one per run and metric; at least the columns `metric`, `value`, `low`, `high` and `n`.
        notebook: the chapter.
        label: what the run is called for people; a hash of the parameters is added.
        params: the chapter's parameters, as JSON can hold them.
        seconds: wall time of the run; what came from the cache is not in it.
        device: what it ran on.

    Returns:
        The parquet file.

    Raises:
        ValueError: if a column is missing, or a value is not finite: not to be mistaken for a result.
        CheckpointError: if the files cannot be written; neither is left half-written.
    """
    missing = {"metric", "value", "low", "high", "n"} - set(rows.columns)
    if missing or rows.empty:
        raise ValueError(
            f"a record needs rows with metric, value, low, high and n; missing {sorted(missing)}"
        )
    if not rows["value"].map(lambda value: abs(value) < float("inf")).all():
        raise ValueError(f"every recorded value should be finite; got {rows['value'].tolist()}")
    parameters = dict(params)
    run = f"{label}-{hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:8]}"
    path = results_folder() / notebook / f"{run}.parquet"
    rows = rows.reset_index(drop=True)
    if path.exists() and pd.read_parquet(path).equals(rows):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    data = rows.to_parquet()
    provenance = {
        "notebook": notebook,
        "run": run,
        "parameters": parameters,
        "sha256": hashlib.sha256(data).hexdigest(),
        "commit": _commit(),
        "code": code_hash()[:16],
        "versions": {name: importlib.metadata.version(name) for name in _VERSIONS}
        | {"python": platform.python_version()},
        "device": device,
        "seconds": round(seconds, 1),
        "recorded": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    write_atomically(path, data)
    write_atomically(path.with_suffix(".json"), json.dumps(provenance, indent=2).encode() + b"\n")
    return path


def device_name(device: torch.device) -> str:
    """The device for people: the GPU's own name, or "CPU"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def _commit() -> str | None:
    """The commit of the source, with a + if it was changed since; `None` outside a git checkout."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(PACKAGE.parent), *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "attnlib", "notebooks")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def records(notebook: str) -> pd.DataFrame:
    """Rows of all recorded runs of a chapter: those that came with the book, and those made here.

    A run made here stands in place of one of the same name that came with the book. Columns `run`,
    `device`, `commit` and `recorded` say where a row is from. A damaged record is an error, never left out.

    Raises:
        ValueError: if a record does not match its provenance.
    """
    files: dict[str, Path] = {}
    for folder in (RECORDED, results_folder()):
        files |= {path.stem: path for path in sorted((folder / notebook).glob("*.parquet"))}
    tables = []
    for path in files.values():
        rows, provenance = read(path)
        tables.append(
            rows.assign(**{name: provenance[name] for name in ("run", "device", "commit", "recorded")})
        )
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def read_all(folder: Path) -> dict[tuple[str, str], Record]:
    """Every record below a folder such as `results/`, by notebook and run: its rows and its provenance.

    A folder in it without any provenance holds something else than a chapter's records.

    Raises:
        ValueError: if a record is damaged; see `read`.
    """
    chapters = sorted({path.parent for path in folder.glob("*/*.json")})
    files = [path for chapter in chapters for path in sorted(chapter.glob("*.parquet"))]
    return {(path.parent.name, path.stem): read(path) for path in files}


def read(path: Path) -> Record:
    """A record's rows and its provenance.

    Args:
        path: the parquet file.

    Raises:
        ValueError: if there is no provenance beside it, or either file is damaged; the message names it.
    """
    try:
        provenance = json.loads(path.with_suffix(".json").read_text())
        checksum = provenance["sha256"]
    except FileNotFoundError:
        raise ValueError(f"{path} has no provenance beside it; delete it and run the chapter again") from None
    except (ValueError, KeyError, TypeError):
        damaged = f"{path.with_suffix('.json')} is damaged"
        raise ValueError(f"{damaged}; delete it and {path.name}, and run the chapter again") from None
    if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
        raise ValueError(f"{path} is not what its provenance says; delete both and run the chapter again")
    return pd.read_parquet(path), provenance
