"""Records of runs: the results of each run, and their provenance.

A record is two files in `<folder>/<notebook>/`: `<run>.parquet`, one row per run and metric with its
interval, and `<run>.json`, its provenance. Tables and claims read the records that came with the book, in
`results/`; missing runs appear as "not run". A reader's own runs are in `my_runs/` (see
`book.chapters.records.places`), and `book.chapters.records.own` shows them.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnlib.files import CheckpointError, write_atomically
from attnlib.places import content
from book.chapters.records.places import RECORDED, results_folder
from book.chapters.records.provenance import caveats, origin
from book.sealing import read_sealed, sealed

log = logging.getLogger(__name__)

SMOKE, QUICK = "smoke", "quick"
"""Folders in `results/` with records for comparison with builds of these profiles; no page shows them."""

_REQUIRED = {"notebook", "run", "parameters", "sha256", "commit", "versions", "device", "recorded"}

_ORIGIN = ("device", "commit", "recorded")

_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]+")

_LONGEST = 120  # characters of a label in a file's name; file systems take 255

_WRITING = 2.0
"""Seconds to wait for another process that has written a record's provenance, but not yet its rows."""

Record = tuple[pd.DataFrame, dict[str, Any]]
"""A record's rows, and its provenance."""


def record(
    rows: pd.DataFrame,
    *,
    notebook: str,
    label: str,
    params: Mapping[str, Any],
    device: str,
    seconds: float = 0.0,
    training: Mapping[str, Any] | None = None,
) -> Path | None:
    """Write a run's rows and provenance; returns their path, or `None` if training was interrupted.

    The same run with the same rows changes only the provenance, and only if a caveat no longer holds.
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
    run = _file_name(label, parameters)
    path = results_folder() / notebook / f"{run}.parquet"
    rows = rows.reset_index(drop=True)
    data = rows.to_parquet()
    provenance: dict[str, Any] = {
        "notebook": notebook,
        "run": run,
        "label": label,
        "parameters": parameters,
        "sha256": hashlib.sha256(data).hexdigest(),
        **origin(),
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
        if len(caveats(sealed(provenance))) >= len(caveats(before[1])):
            return path
        data, provenance["sha256"] = path.read_bytes(), before[1]["sha256"]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"{path.parent} cannot be made a folder of records ({error.strerror}). Mend that, or name "
            "another place in ATTNLIB_RESULTS, and make the same call again."
        ) from error
    # A kill between the two files leaves new provenance with old rows: so it contains the old one, too.
    try:
        write_provenance(path, provenance | ({"before": before[1]} if before else {}))
        write_atomically(path, data)
        if before:
            write_provenance(path, provenance)
    except CheckpointError as error:
        raise CheckpointError(f"{error} Or name another place in ATTNLIB_RESULTS.") from error
    return path


def device_name(device: torch.device) -> str:
    """A readable name of the device: the GPU's product name, "CPU", or else torch's name, as "MPS"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type.upper()


def records(notebook: str, this: Path | None) -> pd.DataFrame:
    """Rows of a chapter's runs that came with the book, and of the run that is under way; see `table_of`.

    The current run replaces one of the same name; a reader's other runs must not change a page's numbers.
    """
    return table_of([*paths_of(notebook), *([this] if this else [])])


def paths_of(notebook: str) -> list[Path]:
    """The paths of the rows of all records of a chapter that came with the book."""
    return _paths(RECORDED / notebook)


def table_of(paths: Iterable[Path]) -> pd.DataFrame:
    """Rows of records as one table; a damaged record is left out, and a warning names it.

    The columns `record` (its name), `device`, `commit` and `recorded` give the source of a row. In `setting`,
    parameters distinguish runs whose settings would be the same. A record's caveats (`provenance.caveats`)
    follow its name and its setting.
    """
    files = tuple((path, *map(_stamp, (path, path.with_suffix(".json")))) for path in paths)
    rows, provenance = _table_of(files)
    marks = {name: f" [{caveats(made)}]".replace(" []", "") for name, made in provenance.items()}
    mark = rows["record"].map(marks) if marks else ""
    return rows.assign(**{name: rows[name] + mark for name in ("record", "setting") if name in rows})


def _stamp(path: Path) -> tuple[int, int]:
    """A cache key that changes with the file; zeros if there is no file."""
    found = path.stat() if path.exists() else None
    return (found.st_mtime_ns, found.st_size) if found else (0, 0)


@lru_cache(maxsize=32)
def _table_of(
    files: tuple[tuple[Path, tuple[int, int], tuple[int, int]], ...],
) -> tuple[pd.DataFrame, dict[str, Mapping[str, Any]]]:
    """The rows without caveats, and every record's provenance; cached, since a page reads them many times."""
    found: dict[str, Record] = {}
    for path, *_ in files:
        try:
            found[path.stem] = read(path)
        except ValueError as error:
            log.warning("left out: %s", error)
    if not found:
        return pd.DataFrame(), {}
    columns = dict.fromkeys(str(name) for rows, _ in found.values() for name in rows)
    tables = [
        completed(rows, columns, made["parameters"]).assign(
            record=name, **{key: made[key] for key in _ORIGIN}
        )
        for name, (rows, made) in found.items()
    ]
    parameters = {name: made["parameters"] for name, (_, made) in found.items()}
    rows = distinguished(pd.concat(tables, ignore_index=True), parameters)
    return rows, {name: made for name, (_, made) in found.items()}


def read_all(folder: Path, notebook: str = "*") -> dict[tuple[str, str], Record]:
    """Every record below a folder such as `results/`, by notebook and run: its rows and its provenance."""
    return {key: read(path) for key, path in files_of(folder, notebook).items()}


def files_of(folder: Path, notebook: str = "*") -> dict[tuple[str, str], Path]:
    """The parquet file of every record that `read_all` reads."""
    places = (folder, folder / SMOKE, folder / QUICK)
    chapters = sorted({path.parent for place in places for path in place.glob(f"{notebook}/*.json")})
    return {(chapter.name, path.stem): path for chapter in chapters for path in _paths(chapter)}


def read(path: Path) -> Record:
    """A record's rows and its provenance."""
    _wait_for_the_other_file(path)
    try:
        provenance = _provenance(path)
        return pd.read_parquet(path), provenance
    except FileNotFoundError as error:
        wrong = f"{error.filename} is missing"
    except OSError as error:
        wrong = f"{error.filename} cannot be read ({error.strerror})"
    except ValueError as error:
        wrong = str(error)
    raise ValueError(
        f"{wrong}. Delete {path.stem}.parquet and .json and run the chapter again, or take both files from "
        "where they came from"
    )


def _wait_for_the_other_file(path: Path) -> None:
    """Wait if there is only new provenance: another process is writing the record; its rows follow."""
    until = time.monotonic() + _WRITING
    while (
        not os.path.exists(path) and time.monotonic() < until and _age(path.with_suffix(".json")) < _WRITING
    ):
        time.sleep(0.02)


def _age(path: Path) -> float:
    """Seconds since a file was written; infinity if the file is missing or inaccessible."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")


def provenance_of(record: str) -> dict[str, Any]:
    """The provenance of a record, by its name in `records`; empty if there is no such record."""
    name = record.partition(" [")[0]
    files = (file for folder in (RECORDED, results_folder()) for file in folder.glob(f"*/{name}.json"))
    return next(map(read_sealed, files), {})


def _provenance(path: Path) -> dict[str, Any]:
    """The provenance of the rows at `path`, verified by checksums and names."""
    file = path.with_suffix(".json")
    provenance = read_sealed(file)
    before = provenance.pop("before", None) or {}
    checksum = hashlib.sha256(content(path)).hexdigest()
    made = next((each for each in (provenance, before) if each.get("sha256") == checksum), None)
    if made is None:
        raise ValueError(f"{path} is not what {file.name} says that it is")
    if missing := _REQUIRED - made.keys():
        raise ValueError(f"{file} is damaged: it does not say {', '.join(sorted(missing))}")
    if (made["notebook"], made["run"]) != (path.parent.name, path.stem):
        raise ValueError(f"{path} is a copy: it is the record of {made['notebook']}/{made['run']}")
    return made


def _paths(folder: Path) -> list[Path]:
    """The paths of the rows of all records in a folder, also of missing rows."""
    names = {path.stem for kind in ("*.parquet", "*.json") for path in folder.glob(kind)}
    return [folder / f"{name}.parquet" for name in sorted(names)]


def _file_name(label: str, parameters: Mapping[str, Any]) -> str:
    """A file name without folders, valid on any file system; its hash is that of the parameters."""
    safe = _UNSAFE.sub("-", label)[:_LONGEST].lstrip(".-") or "run"
    return f"{safe}-{hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:8]}"


def _readable(path: Path) -> Record | None:
    try:
        return read(path)
    except ValueError:
        return None


def write_provenance(path: Path, provenance: Mapping[str, Any]) -> None:
    """Write the provenance of the rows at `path` beside them, with its checksum."""
    data = json.dumps(sealed(provenance), indent=2).encode() + b"\n"
    write_atomically(path.with_suffix(".json"), data)


def completed(rows: pd.DataFrame, columns: Iterable[Any], parameters: Mapping[str, Any]) -> pd.DataFrame:
    """The rows with missing columns filled from parameters of their run, one value in all rows."""
    given = {name: parameters.get(name) for name in columns if name not in rows}
    return rows.assign(**{name: value for name, value in given.items() if isinstance(value, str | int)})


def distinguished(rows: pd.DataFrame, parameters: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of several records, whose column `setting` also names parameters that distinguish runs."""
    if "setting" not in rows:
        return rows
    setting = rows["setting"].astype(object)
    for _, same in rows.groupby([name for name in ("task", "setting") if name in rows], sort=False):
        more = same["record"].map(_differences({name: parameters[name] for name in same["record"].unique()}))
        setting[same.index] += more.map(lambda words: f"; {words}" if words else "")
        if "run" in same:
            several = same.groupby("record")["run"].transform("nunique") > 1
            setting[same.index] += ("; " + same["run"]).where(several, "")
    return rows.assign(setting=setting)


def _differences(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Record -> the parameters that distinguish it: "steps 700; seeds [1]"; "" for a single record."""
    texts = {
        record: {name: json.dumps(value) for name, value in given.items()}
        for record, given in parameters.items()
    }
    names = dict.fromkeys(name for given in texts.values() for name in given)
    other = [name for name in names if len({given.get(name) for given in texts.values()}) > 1]
    return {
        record: "; ".join(f"{name} {given[name]}" for name in other if name in given)
        for record, given in texts.items()
    }
