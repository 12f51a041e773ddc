"""Records of runs, the cache of trained models, and the papers' figures to compare with.

A record is two files in `results/<notebook>/`: `<run>.parquet`, one row per run and metric with its interval,
and `<run>.json`, its provenance. A table of a chapter reads records; what was not run shows as not run.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import platformdirs
import torch

from attnlib.checkpoints import write_atomically
from attnlib.params import Params

PACKAGE = Path(__file__).parent
RECORDED = PACKAGE.parent / "results"
"""The records that came with the book."""

_TRAINING_CODE = (
    "generators",
    "models",
    "checkpoints.py",
    "objectives.py",
    "plan.py",
    "training.py",
    "scheduled_sampling.py",
)
_VERSIONS = ("attnlib", "torch", "transformers", "numpy", "scipy", "pandas")


def results_folder() -> Path:
    """Where this run records: `$ATTNLIB_RESULTS` if set, else beside the records that came with the book."""
    fallback = RECORDED if RECORDED.is_dir() else Path("results")
    return Path(os.environ.get("ATTNLIB_RESULTS") or fallback)


def cache_folder(notebook: str, parts: Mapping[str, Any]) -> Path:
    """The folder of the model that these settings, and today's code, would train; see `training.fit`.

    Its name is a hash of `parts` and of the source of attnlib's generators, models and training: other
    settings or other code, another folder. It is under `$ATTNLIB_CACHE`, or where this system keeps caches.

    Args:
        notebook: the chapter.
        parts: everything that decides the trained model, as JSON can hold it.
    """
    base = Path(os.environ.get("ATTNLIB_CACHE") or platformdirs.user_cache_path("attnlib"))
    text = json.dumps({"parts": dict(parts), "code": _code_hash()}, sort_keys=True, default=str)
    return base / notebook / hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _code_hash() -> str:
    digest = hashlib.sha256()
    for place in _TRAINING_CODE:
        files = sorted((PACKAGE / place).rglob("*.py")) if (PACKAGE / place).is_dir() else [PACKAGE / place]
        for file in files:
            digest.update(str(file.relative_to(PACKAGE)).encode() + file.read_bytes())
    return digest.hexdigest()


def record(
    rows: pd.DataFrame, *, notebook: str, label: str, params: Params, seconds: float, device: str
) -> Path:
    """Write a run's rows and provenance; the same run again, with the same rows, changes nothing.

    Args:
        rows: one per run and metric; at least the columns `metric`, `value`, `low`, `high` and `n`.
        notebook: the chapter.
        label: what the run is called for people; a hash of the parameters is added.
        params: the chapter's parameters.
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
    parameters = params.model_dump(mode="json")
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
        "code": _code_hash()[:16],
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
        provenance_file = path.with_suffix(".json")
        if not provenance_file.exists():
            raise ValueError(f"{path} has no provenance beside it; delete it and run the chapter again")
        provenance = json.loads(provenance_file.read_text())
        if hashlib.sha256(path.read_bytes()).hexdigest() != provenance["sha256"]:
            raise ValueError(f"{path} is not what its provenance says; delete both and run the chapter again")
        origin = {name: provenance[name] for name in ("run", "device", "commit", "recorded")}
        tables.append(pd.read_parquet(path).assign(**origin))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


@functools.cache
def paper_figures() -> pd.DataFrame:
    """Figures of the papers: study, table, task, setting, value, and how sure we are of each.

    `certainty` is "read" (in the paper's text, its authors' repository, or their figure), or "unverified":
    quoted from memory, and never to be shown without that word.
    """
    return pd.read_csv(PACKAGE / "paper_figures.csv", comment="#")


def paper_vs_here(here: pd.DataFrame, table: str) -> pd.DataFrame:
    """A paper's table with our numbers beside it.

    Args:
        here: columns `task`, `setting`, `value`, `low`, `high` and `n`, the numbers as shares in [0, 1].
        table: which of `paper_figures()`.

    Returns:
        A row for every task of the paper and every setting we ran it in: the paper's figure in percent,
        marked if unverified, and ours with its interval; "not run" where there is none.

    Raises:
        ValueError: if there is no such table.
    """
    paper = paper_figures().query("table == @table")
    if paper.empty:
        raise ValueError(f"table should be one of {list(paper_figures()['table'].unique())}; got {table!r}")
    unverified = paper["certainty"].ne("read").map({True: " (unverified)", False: ""})
    both = paper.assign(paper=paper["value"].map("{:g}".format) + unverified)[["task", "setting", "paper"]]
    both = both.rename(columns={"setting": "paper's setting"})
    columns = [100 * here["value"], 100 * here["low"], 100 * here["high"], here["n"].astype(int)]
    texts = map("{:.2f} [{:.2f}, {:.2f}], n = {:,}".format, *columns)
    ours = here[["task"]].assign(here=list(texts))
    ours["our setting"] = here["setting"]
    ours = ours[["task", "our setting", "here"]]
    ours = ours.astype(str)
    return both.merge(ours, on="task", how="left").fillna({"our setting": "", "here": "not run"})


def paper_grid(
    here: pd.DataFrame, table: str, metrics: Sequence[str], tasks: Sequence[str] = ()
) -> pd.DataFrame:
    """A paper's table as it was printed, a column per metric, with a row of ours under each of its rows.

    Args:
        here: columns `task`, `setting`, `metric`, `value`, `low` and `high`, as shares in [0, 1]. A run that
            has no row for a `xi` but has others never got there: such rows cannot be recorded.
        table: which of `paper_figures()`; its tasks are called "task: metric".
        metrics: the columns.
        tasks: further ones that the paper has, of which no figure was found.

    Returns:
        A row for every task of the paper, then those only we ran, each in percent: the paper's figures,
        marked if unverified ("not found" where there is none), and ours with their intervals; "not run" where
        there are none. The column `setting` says how either was come by.

    Raises:
        ValueError: if there is no such table.
    """
    paper = paper_figures().query("table == @table")
    if paper.empty:
        raise ValueError(f"table should be one of {list(paper_figures()['table'].unique())}; got {table!r}")
    theirs = {}
    for row in paper.itertuples():
        task, _, metric = str(row.task).partition(": ")
        cell = "never" if row.value == float("inf") else f"{row.value:g}"
        theirs[task, metric] = cell + " (unverified)" * (row.certainty != "read")
    settings = dict(zip(paper["task"].str.partition(": ")[0], paper["setting"], strict=True))
    settings |= {task: "" for task in tasks if task not in settings}
    rows = []
    for task in dict.fromkeys([*settings, *here["task"]]):
        if task in settings:
            cells = {metric: theirs.get((task, metric), "not found") for metric in metrics}
            rows.append({"task": task, "by": "paper", **cells, "setting": settings[task] or "not found"})
        runs = here[here["task"] == task]
        for setting, run in runs.groupby("setting", sort=False):
            ours = {row.metric: _percent(row) for row in run.itertuples()}
            cells = {name: ours.get(name, "never" if name.startswith("xi(") else "") for name in metrics}
            rows.append({"task": task, "by": "here", **cells, "setting": setting})
        if runs.empty:
            cells = dict.fromkeys(metrics, "not run")
            rows.append({"task": task, "by": "here", **cells, "setting": "not run"})
    return pd.DataFrame(rows)


def _percent(row: Any) -> str:
    low, high = ("never" if abs(end) == float("inf") else f"{100 * end:.1f}" for end in (row.low, row.high))
    return f"{100 * row.value:.1f} [{low}, {high}]"
