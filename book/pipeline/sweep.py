"""`python -m book.pipeline.sweep FILE`: many runs of one chapter, and one table.

The file names the chapter, the parameters that all runs share, and lists of values::

    chapter: rasp_languages
    profile: quick                  # optional: smoke, quick or paper, or another file beside these
    parameters: {steps: 500}        # optional: what all runs have in common
    lists:                          # every combination is a run
      language: [sort, reverse]
      seeds: [[0], [1], [2]]

In place of lists it can name its runs one by one. Each has a description (`of`), and may have the minutes of
one core that it takes, its own profile and its own parameters::

    record: true                    # optional: keep the results among the records of the book
    runs:
      - of: dyck6, three seeds
        minutes: 6
        parameters: {language: dyck6_ptf, seeds: [0, 1, 2]}

Each run is a job of the Snakefile and leaves its executed notebook and its record under
`build/sweeps/<file>/`; finished runs are not repeated. With `record`, runs that have a record in `results/`
are not repeated either, and new records are copied there as their runs end.
"""

import argparse
import hashlib
import itertools
import json
import math
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from attnlib.files import CheckpointError, write_atomically
from book.sealing import read_sealed

from .__main__ import cores, end_in_order, is_dry, making, take_lock
from .execute import write_whole
from .kept import say_damaged
from .profiles import ProfileError, checked, read_profile, read_yaml

KEEPING = 5.0
"""Seconds between two checks for runs that have ended."""

MOST_RUNS = 10_000
"""The most runs of one sweep: at a minute each, they take a week."""

ELSEWHERE = {"--profile", "--workflow-profile", "--executor", "-e"}
"""Snakemake's options that may execute runs on other machines."""

SAID = {"chapter", "profile", "parameters", "lists", "runs", "record"}
SAID_OF_A_RUN = {"of", "minutes", "profile", "parameters"}


@dataclass(frozen=True)
class Planned:
    """One run of a sweep.

    Attributes:
        parameters: the parameters that the file sets for the run, by name.
        shown: the columns of the table that distinguish this run from the others.
        minutes: how long the run takes on one core; 0 if the file does not say.
    """

    parameters: dict[str, Any]
    shown: dict[str, Any]
    minutes: float = 0


@dataclass(frozen=True)
class Sweep:
    """The content of a sweep's file: runs of a chapter, by name, and whether records go to `results/`."""

    chapter: str
    runs: dict[str, Planned]
    record: bool = False


def planned(path: Path) -> Sweep:
    """The sweep that a file describes; raises `ProfileError` if the file is not valid."""
    told = read_yaml(path)
    if unknown := told.keys() - SAID:
        raise ProfileError(
            f"{path} should say {', '.join(sorted(SAID))}; it says {', '.join(sorted(unknown))}"
        )
    chapters = sorted(file.stem for file in Path("notebooks").glob("*.ipynb"))
    chapter, lists, record = told.get("chapter"), told.get("lists"), told.get("record", False)
    if chapter not in chapters:
        raise ProfileError(f"{path}: chapter should be one of {', '.join(chapters)}; got {chapter!r}")
    if not isinstance(record, bool):
        raise ProfileError(f"{path}: record should be true or false; got {record!r}")
    if "runs" in told and "lists" in told:
        raise ProfileError(f"{path} should say either lists or runs; it says both")
    shared = _parameters_of(told, chapter, path)
    if "runs" in told:
        runs = [_one_run(run, shared, chapter, path) for run in _checked_runs(told["runs"], path)]
        return Sweep(chapter, {name_of(chapter, run.parameters): run for run in runs}, record)
    if (
        not isinstance(lists, dict)
        or not lists
        or not all(isinstance(each, list) and each for each in lists.values())
    ):
        raise ProfileError(f"{path}: lists should name parameters, each with a list of values; got {lists!r}")
    checked(lists, Path(f"notebooks/{chapter}.ipynb"), path)
    if (n := math.prod(map(len, lists.values()))) > MOST_RUNS:
        sizes = " x ".join(f"{len(each)} of {name}" for name, each in lists.items())
        raise ProfileError(f"{path}: lists should make at most {MOST_RUNS:,} runs; got {n:,} ({sizes})")
    combined = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
    every = [Planned(shared | run, run) for run in combined]
    return Sweep(chapter, {name_of(chapter, run.parameters): run for run in every}, record)


def _parameters_of(told: Mapping[str, Any], chapter: str, path: Path) -> dict[str, Any]:
    """The parameters of the profile, if one is named, overridden by those given under `parameters`."""
    given, notebook = told.get("parameters") or {}, Path(f"notebooks/{chapter}.ipynb")
    if not isinstance(given, dict):
        raise ProfileError(f"{path}: parameters should map names to values; got {given!r}")
    profile = Path(f"notebooks/profiles/{chapter}/{told.get('profile')}.yaml")
    return (read_profile(profile, notebook) if "profile" in told else {}) | checked(given, notebook, path)


def _checked_runs(runs: Any, path: Path) -> list[dict[str, Any]]:
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        raise ProfileError(f"{path}: runs should be a list, each with {', '.join(sorted(SAID_OF_A_RUN))}")
    for run in runs:
        if (unknown := run.keys() - SAID_OF_A_RUN) or not isinstance(run.get("of"), str):
            said = ", ".join(sorted(unknown)) or f"of: {run.get('of')!r}"
            raise ProfileError(
                f"{path}: a run should say what it is `of`, and may say {', '.join(sorted(SAID_OF_A_RUN))}; "
                f"one says {said}"
            )
        if not isinstance(run.get("minutes", 0), int | float):
            raise ProfileError(f"{path}: minutes should be a number; got {run['minutes']!r}")
    return runs


def _one_run(run: Mapping[str, Any], shared: Mapping[str, Any], chapter: str, path: Path) -> Planned:
    own = dict(shared) | _parameters_of(run, chapter, path)
    return Planned(own, {"of": run["of"]}, run.get("minutes", 0))


def name_of(chapter: str, parameters: Mapping[str, Any]) -> str:
    """A run's name: the same for the same parameters of a chapter."""
    told = json.dumps([chapter, parameters], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:10]


def refuse_impossible(chapter: str, runs: Iterable[Planned], here: bool = False) -> None:
    """Raise `ProfileError` if the chapter's class, where it has one, refuses the parameters of a run."""
    from book.chapters.demands import of_another_machine, unsaid  # seconds, as they load torch
    from book.chapters.refusals import ParameterError
    from book.chapters.storing import all_chapters, defaults_of

    if (kind := all_chapters().get(chapter)) is None:
        return
    own, refused = defaults_of(chapter), dict[str, list[str]]()
    with unsaid() if here else of_another_machine():
        for run in runs:
            try:
                kind.checked({**own, **run.parameters})
            except ParameterError as error:
                told = ", ".join(f"{name}: {value}" for name, value in run.shown.items())
                refused.setdefault(str(error), []).append(told)
    if refused:
        raise ProfileError("\n".join(f"{_first_of(runs)}: {why}" for why, runs in refused.items()))


def _first_of(runs: Sequence[str]) -> str:
    more = f" (and {len(runs) - 1} more)" if len(runs) > 1 else ""
    return f"the run with {runs[0]}{more}"


def recorded(sweep: Sweep) -> dict[str, str]:
    """The name of the record in `results/` by run, for the runs that have one.

    A parameter that the notebook did not have yet when the record was made counts as its default value.
    """
    from book.chapters.demands import of_another_machine  # seconds, as they load torch
    from book.chapters.refusals import ParameterError
    from book.chapters.storing import all_chapters, defaults_of

    kind, own = all_chapters()[sweep.chapter], defaults_of(sweep.chapter)

    def whole(given: dict[str, Any]) -> dict[str, Any]:
        return kind.checked({**own, **given}).recorded_parameters

    found = dict[str, str]()
    with of_another_machine():  # whether a record belongs to a run does not depend on this machine
        asked = {name: whole(run.parameters) for name, run in sweep.runs.items()}
        for path in sorted(Path("results", sweep.chapter).glob("*.parquet")):
            told = read_sealed(path.with_suffix(".json"))["parameters"]
            with suppress(ParameterError):  # parameters that are no longer accepted match no run
                kept = whole({key: value for key, value in told.items() if key in own})
                found |= {name: path.stem for name, each in asked.items() if each == kept}
    return found


def keep_records(build: Path, chapter: str, runs: Iterable[str]) -> None:
    """Copy the records of `runs` from a build to `results/`: provenance and rows, unchanged.

    Do not pass runs that `results/` has already: their records may have been amended or stamped since.
    """
    folder = Path("results", chapter)
    for run in runs:
        folder.mkdir(parents=True, exist_ok=True)
        for rows in sorted((build / "results" / run / chapter).glob("*.parquet")):
            for path in (rows.with_suffix(".json"), rows):
                write_atomically(folder / path.name, path.read_bytes())


def is_done(build: Path, run: str, since: float = 0.0) -> bool:
    """Whether a run has ended, at or after the time `since` (seconds since the epoch)."""
    end = build / f"runs/{run}.json"
    return end.exists() and end.stat().st_mtime >= since


def has_recorded(build: Path, chapter: str, run: str, since: float) -> bool:
    """Whether a run wrote its record at or after the time `since`, even if the run failed afterwards."""
    from book.chapters.records.runs import read  # seconds, and only where something was written

    for rows in (build / "results" / run / chapter).glob("*.parquet"):
        with suppress(FileNotFoundError, ValueError):
            if rows.stat().st_mtime >= since:
                read(rows)
                return True
    return False


def run_and_keep(
    command: list[str], build: Path, chapter: str, runs: Collection[str], held: Collection[int] = ()
) -> int:
    """Run Snakemake, and copy every record to `results/` as it is written, so that no failure loses any."""
    started, kept = time.time() - 1, set[str]()  # some file systems count time in seconds
    with subprocess.Popen(command, pass_fds=tuple(held)) as process:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(KEEPING)
            new = {
                run
                for run in set(runs) - kept
                if is_done(build, run, started) or has_recorded(build, chapter, run, started)
            }
            with suppress(OSError, CheckpointError):  # a full disk, say: tried again, and reported at the end
                keep_records(build, chapter, new)
                kept |= new
    return process.returncode


def lay_out(build: Path, sweep: Sweep) -> None:
    """Write every run's parameters where the Snakefile finds them."""
    for name, run in sweep.runs.items():
        file = build / "parameters" / sweep.chapter / f"{name}.yaml"
        text = yaml.safe_dump(run.parameters, sort_keys=False)
        if (
            not file.exists() or file.read_text(encoding="utf-8") != text
        ):  # a newer file would make Snakemake run it again
            write_whole(file, text)


def table(build: Path, sweep: Sweep, before: Mapping[str, str], made: Collection[str]) -> pd.DataFrame:
    """The rows of every run's record, after columns that distinguish the runs."""
    from book.chapters.records.runs import read, read_all  # seconds, and only needed once the runs are done

    tables = []
    for name, run in sweep.runs.items():
        if name in before:
            records = [read(Path("results", sweep.chapter, f"{before[name]}.parquet"))]
        elif name in made:
            records = [*read_all(build / "results" / name, sweep.chapter).values()]
        else:
            continue
        for rows, _ in records:
            texts = {
                key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for key, value in run.shown.items()
            }
            words = pd.DataFrame(texts, index=rows.index)
            tables.append(pd.concat([words, rows.drop(columns=[*run.shown], errors="ignore")], axis=1))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def said_before(sweep: Sweep, before: Mapping[str, str], left: Collection[str]) -> str:
    """A line on what is about to be run."""
    minutes = sum(sweep.runs[name].minutes for name in left)
    known = f", about {minutes:.0f} minutes of one core" if minutes else ""
    kept = f", {len(before)} recorded already" if before else ""
    return f"{len(sweep.runs)} runs of {sweep.chapter}{kept}; {len(left)} to be done{known}"


def main() -> int:
    """Make the missing runs of a sweep; returns the exit status. An error with files prints one line."""
    try:
        return do_what_is_left()
    except (OSError, ValueError, CheckpointError) as error:
        print(error, file=sys.stderr)  # runs that ended are in `build`: the next call keeps them
        return 1


def do_what_is_left() -> int:
    """Make the runs that are missing, then write the table of all runs; returns the exit status."""
    parser = argparse.ArgumentParser(description="Run a chapter with every combination of some parameters.")
    parser.add_argument("file", type=Path, help="says which: see book/pipeline/sweep.py")
    parser.add_argument("--cores", type=cores, default=2, help="runs side by side")
    args, extra = parser.parse_known_args()

    build = Path("build/sweeps", args.file.stem)
    try:
        sweep = planned(args.file)
        refuse_impossible(sweep.chapter, sweep.runs.values())
    except ProfileError as error:
        print(error, file=sys.stderr)
        return 2
    lock = take_lock(Path("build/.lock"))
    if not is_dry(extra):
        say_damaged(build)
    try:
        before = recorded(sweep) if sweep.record else {}
        left = [name for name in sweep.runs if name not in before]
        if ELSEWHERE.isdisjoint(word.split("=")[0] for word in extra):
            refuse_impossible(sweep.chapter, [sweep.runs[name] for name in left], here=True)
    except ValueError as error:  # a ProfileError is one
        print(error, file=sys.stderr)
        return 2
    print(said_before(sweep, before, left), flush=True)
    lay_out(build, sweep)
    targets = [f"{build}/runs/{name}.json" for name in left]
    quiet = ["--quiet", "rules", "host"]  # Snakemake then prints only how many runs are done
    end_in_order()
    command = making(targets, args.cores, *quiet, *extra)
    recording = left if sweep.record and not is_dry(extra) else []
    started = time.time() - 1
    status = run_and_keep(command, build, sweep.chapter, recording, [lock.fileno()]) if left else 0
    if is_dry(extra):
        return status
    done = [name for name in sweep.runs if name in before or is_done(build, name)]
    made = {name for name in left if name in done or has_recorded(build, sweep.chapter, name, started)}
    keep_records(build, sweep.chapter, made.intersection(recording))  # also runs that ended before this call
    found = table(build, sweep, before, made)
    write_whole(build / "table.csv", found.to_csv(index=False))
    print(f"{len(done)} of {len(sweep.runs)} runs done; {len(found)} rows in {build}/table.csv")
    for name in sweep.runs:
        if name not in done:
            log = build / f"logs/{name}.txt"
            seen = f"; see {log}" if log.exists() else ""
            but = ", though its record was written and is kept" if name in made else ""
            print(f"not done{but}: {name}, with {build}/parameters/{sweep.chapter}/{name}.yaml{seen}")
    return status


if __name__ == "__main__":
    sys.exit(main())
