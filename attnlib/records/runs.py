"""Records of runs: what each found, and what made it.

A record is two files in `results/<notebook>/`: `<run>.parquet`, one row per run and metric with its interval,
and `<run>.json`, its provenance. A table of a chapter reads records; what was not run shows as not run.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd
import torch

from attnlib.files import write_atomically
from attnlib.records.provenance import PACKAGE, caveats, origin
from attnlib.records.settings import completed, told_apart

log = logging.getLogger(__name__)

RECORDED = PACKAGE.parent / "results"
"""The records that came with the book."""

Record = tuple[pd.DataFrame, dict[str, Any]]
"""A record's rows, and its provenance."""


@runtime_checkable
class Training(Protocol):
    """What a record says of a model's training; `training.History` does."""

    @property
    def steps(self) -> int:
        """Updates that were really made."""
        ...

    @property
    def seconds(self) -> float:
        """How long they took, also if they were made earlier and the model was kept."""
        ...

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        ...


def results_folder() -> Path:
    """Where this run records: `$ATTNLIB_RESULTS` if set, else beside the records that came with the book."""
    fallback = RECORDED if RECORDED.is_dir() else Path("results")
    return Path(os.environ.get("ATTNLIB_RESULTS") or fallback)


def record(
    rows: pd.DataFrame,
    *,
    notebook: str,
    label: str,
    params: Mapping[str, Any],
    device: str,
    seconds: float = 0.0,
    training: Mapping[str, Training] | None = None,
) -> Path | None:
    """Write a run's rows and provenance.

    The same run again, with the same rows, changes nothing; unless there is something to be said against the
    record (see `caveats`) that can no longer be said: then only its provenance is made new.

    Args:
        rows: one per run and metric; at least the columns `metric`, `value`, `low`, `high` and `n`.
        notebook: the chapter.
        label: what the run is called for people; a hash of the parameters is added.
        params: the chapter's parameters, as JSON can hold them.
        seconds: wall time, for a chapter that trains nothing.
        device: what it ran on.
        training: of each model, what was really done, kept models included; the record's `steps` and
            `seconds` are the sums.

    Returns:
        The parquet file; `None` if a training was interrupted: nothing is recorded then, as one line says.

    Raises:
        ValueError: if a column is missing, or a value is not finite: not to be mistaken for a result.
        CheckpointError: if the files cannot be written; the record is as it was.
    """
    missing = {"metric", "value", "low", "high", "n"} - set(rows.columns)
    if missing or rows.empty:
        raise ValueError(
            f"a record needs rows with metric, value, low, high and n; missing {sorted(missing)}"
        )
    if not rows["value"].map(lambda value: abs(value) < float("inf")).all():
        raise ValueError(f"every recorded value should be finite; got {rows['value'].tolist()}")
    done = dict(training or {})
    if short := [f"{name} after {each.steps} steps" for name, each in done.items() if each.interrupted]:
        log.warning("not recorded: training was interrupted (%s); run the chapter again", ", ".join(short))
        return None
    parameters = dict(params)
    run = f"{label}-{hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:8]}"
    path = results_folder() / notebook / f"{run}.parquet"
    rows = rows.reset_index(drop=True)
    data = rows.to_parquet()
    provenance = {
        "notebook": notebook,
        "run": run,
        "parameters": parameters,
        "sha256": hashlib.sha256(data).hexdigest(),
        **origin(notebook),
        "device": device,
        "steps": sum(each.steps for each in done.values()) if done else None,
        "seconds": round(sum(each.seconds for each in done.values()) if done else seconds, 1),
        "training": {
            name: {"steps": each.steps, "seconds": round(each.seconds, 1)} for name, each in done.items()
        },
        "recorded": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    before = _readable(path)
    if before and before[0].equals(rows):
        if len(caveats(provenance)) >= len(caveats(before[1])):
            return path
        data, provenance["sha256"] = path.read_bytes(), before[1]["sha256"]
    path.parent.mkdir(parents=True, exist_ok=True)
    # A kill between the two files leaves new provenance with old rows: till then it holds the old one, too.
    _write(path, provenance | ({"before": before[1]} if before else {}))
    write_atomically(path, data)
    if before:
        _write(path, provenance)
    return path


def device_name(device: torch.device) -> str:
    """The device for people: the GPU's own name, or "CPU"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def records(notebook: str) -> pd.DataFrame:
    """Rows of all recorded runs of a chapter: those that came with the book, and those made here.

    A run made here stands in place of one of the same name that came with the book. Columns `record` (its
    name), `device`, `commit` and `recorded` say where a row is from; in `setting`, runs whose settings read
    the same are told apart. What is to be said against a record (`provenance.caveats`: it is from other code
    than today's, say) stands behind its name and its setting. A damaged record is an error, never left out.

    Raises:
        ValueError: if a record does not match its provenance.
    """
    files: dict[str, Path] = {}
    for folder in (RECORDED, results_folder()):
        files |= {path.stem: path for path in sorted((folder / notebook).glob("*.parquet"))}
    found = {name: read(path) for name, path in files.items()}
    if not found:
        return pd.DataFrame()
    columns = dict.fromkeys(str(name) for rows, _ in found.values() for name in rows)
    tables = [
        completed(rows, columns, made["parameters"]).assign(
            record=name, **{key: made[key] for key in ("device", "commit", "recorded")}
        )
        for name, (rows, made) in found.items()
    ]
    rows = told_apart(
        pd.concat(tables, ignore_index=True), {name: made["parameters"] for name, (_, made) in found.items()}
    )
    mark = (
        rows["record"]
        .map({name: f" [{caveats(made)}]" for name, (_, made) in found.items()})
        .replace(" []", "")
    )
    return rows.assign(**{name: rows[name] + mark for name in ("record", "setting") if name in rows})


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
    file = path.with_suffix(".json")
    try:
        told = json.loads(file.read_text())
        by_checksum = {told["sha256"]: told} | {
            old["sha256"]: old for old in [told.pop("before", None)] if old
        }
    except FileNotFoundError:
        raise ValueError(f"{path} has no provenance beside it; delete it and run the chapter again") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{file} is damaged; delete it and {path.name}, and run the chapter again") from None
    provenance = by_checksum.get(hashlib.sha256(path.read_bytes()).hexdigest())
    if provenance is None:
        raise ValueError(f"{path} is not what its provenance says; delete both and run the chapter again")
    return pd.read_parquet(path), provenance


def _readable(path: Path) -> Record | None:
    try:
        return read(path)
    except (ValueError, OSError):
        return None


def _write(path: Path, provenance: Mapping[str, Any]) -> None:
    write_atomically(path.with_suffix(".json"), json.dumps(provenance, indent=2).encode() + b"\n")
