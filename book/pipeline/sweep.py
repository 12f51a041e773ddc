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

Each run is a job of the Snakefile's rule `sweep` and leaves its executed notebook and its record under
`build/sweeps/<file>/`; finished runs are not repeated. With `record`, runs write their records to `results/`,
and runs that have one there are not repeated either.
"""

import argparse
import hashlib
import itertools
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
import yaml
from pydantic import BaseModel, Field, ValidationError

from attnlib.places import CheckpointError, make_folder, write_atomically
from book.sealing import read_sealed

from .__main__ import build_lock, command_line, is_dry, make
from .profiles import ProfileError, checked, read_profile, read_yaml

ELSEWHERE = {"--profile", "--workflow-profile", "--executor", "-e"}
"""Snakemake's options that may execute runs on other machines."""


class Entry(BaseModel, extra="forbid"):
    """What a sweep's file sets for one run, or for all."""

    profile: str | None = None
    parameters: dict[str, Any] = {}

    def given(self, chapter: str, path: Path) -> dict[str, Any]:
        """The parameters of the profile, if one is named, overridden by those given under `parameters`."""
        notebook = Path(f"notebooks/{chapter}.ipynb")
        profile = Path(f"notebooks/profiles/{chapter}/{self.profile}.yaml")
        shared = {} if self.profile is None else read_profile(profile, notebook)
        return shared | checked(self.parameters, notebook, path)


class RunEntry(Entry):
    """One run as a sweep's file describes it."""

    of: str
    minutes: float = 0


class SweepFile(Entry):
    """The content of a sweep's file."""

    chapter: str
    lists: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    runs: list[RunEntry] = []
    record: bool = False


class Planned(NamedTuple):
    """One run of a sweep.

    Attributes:
        parameters: the parameters that the file sets for the run, by name.
        shown: the columns of the table that distinguish this run from the others.
        minutes: how long the run takes on one core; 0 if the file does not say.
    """

    parameters: dict[str, Any]
    shown: dict[str, Any]
    minutes: float = 0


class Sweep(NamedTuple):
    """The content of a sweep's file: runs of a chapter, by name, and whether records go to `results/`."""

    chapter: str
    runs: dict[str, Planned]
    record: bool = False


def planned(path: Path) -> Sweep:
    """The sweep that a file describes; raises `ProfileError` if the file is not valid."""
    try:
        told = SweepFile.model_validate(read_yaml(path))
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ProfileError(f"{path} is no description of a sweep: {'; '.join(wrong)}") from None
    chapters = sorted(file.stem for file in Path("notebooks").glob("*.ipynb"))
    if told.chapter not in chapters:
        raise ProfileError(f"{path}: chapter must be one of {', '.join(chapters)}; got {told.chapter!r}")
    if bool(told.runs) == bool(told.lists):
        raise ProfileError(f"{path} must have either lists or runs")
    shared = told.given(told.chapter, path)
    lists = checked(told.lists, Path(f"notebooks/{told.chapter}.ipynb"), path)
    runs = [Planned(shared | run.given(told.chapter, path), {"of": run.of}, run.minutes) for run in told.runs]
    for values in itertools.product(*lists.values()) if lists else ():
        shown = dict(zip(lists, values, strict=True))
        runs.append(Planned(shared | shown, shown))
    named = dict[str, Planned]()
    for run in runs:
        if (name := name_of(told.chapter, run.parameters)) in named:
            both = f"{named[name].shown} and {run.shown}"
            raise ProfileError(f"{path}: two runs must not have equal parameters; got {both}")
        named[name] = run
    return Sweep(told.chapter, named, told.record)


def name_of(chapter: str, parameters: Mapping[str, Any]) -> str:
    """A run's name: the same for the same parameters of a chapter."""
    told = json.dumps([chapter, parameters], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:10]


def refuse_impossible(chapter: str, runs: Iterable[Planned], here: bool) -> None:
    """Raise `ProfileError` if a chapter's class, where it has one, refuses the parameters of a run.

    If `here`, it also refuses what this machine cannot do.
    """
    from book.chapters.demands import of_another_machine, unsaid  # seconds, as they load torch
    from book.chapters.refusals import ParameterError
    from book.chapters.storing import all_chapters, defaults_of

    if (kind := all_chapters().get(chapter)) is None:
        return
    with unsaid() if here else of_another_machine():
        for run in runs:
            try:
                kind.checked({**defaults_of(chapter), **run.parameters})
            except ParameterError as error:
                shown = ", ".join(f"{name}: {value}" for name, value in run.shown.items())
                raise ProfileError(f"the run with {shown}: {error}") from None


def recorded(sweep: Sweep) -> dict[str, Path]:
    """The record in `results/` by run, for the runs that have one.

    A parameter that the notebook did not have yet when the record was made counts as its default value.
    """
    from book.chapters.demands import of_another_machine  # seconds, as they load torch
    from book.chapters.refusals import ParameterError
    from book.chapters.storing import all_chapters, defaults_of

    kind, own = all_chapters()[sweep.chapter], defaults_of(sweep.chapter)

    def whole(given: Mapping[str, Any]) -> dict[str, Any] | None:
        with suppress(ParameterError):  # parameters that are not accepted match no run
            return kind.checked({**own, **given}).recorded_parameters
        return None

    found = dict[str, Path]()
    with of_another_machine():  # whether a record belongs to a run does not depend on this machine
        asked = {name: whole(run.parameters) for name, run in sweep.runs.items()}
        for path in sorted(Path("results", sweep.chapter).glob("*.parquet")):
            told = read_sealed(path.with_suffix(".json"))["parameters"]
            kept = whole({key: value for key, value in told.items() if key in own})
            if kept is not None:
                found |= {name: path for name, each in asked.items() if each == kept}
    return found


def lay_out(build: Path, sweep: Sweep) -> None:
    """Write every run's parameters where the Snakefile finds them."""
    folder = build / "parameters" / sweep.chapter
    make_folder(folder)
    for name, run in sweep.runs.items():
        write_atomically(folder / f"{name}.yaml", yaml.safe_dump(run.parameters, sort_keys=False).encode())


def table(sweep: Sweep, records: Mapping[str, Iterable[Path]]) -> pd.DataFrame:
    """The rows of the records of every run, after columns that distinguish the runs."""
    from book.chapters.records.runs import read  # seconds, and only needed once the runs are done

    tables = list[pd.DataFrame]()
    for name, paths in records.items():
        shown = sweep.runs[name].shown
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in shown.items()}
        for rows in (read(path)[0].drop(columns=[*shown], errors="ignore") for path in paths):
            tables.append(pd.concat([pd.DataFrame(texts, index=rows.index), rows], axis=1))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def said_before(sweep: Sweep, left: Iterable[str]) -> str:
    """A line on what is about to be run."""
    runs = [sweep.runs[name] for name in left]
    minutes = sum(run.minutes for run in runs)
    known = f", about {minutes:.0f} minutes of one core" if minutes else ""
    kept = f", {len(sweep.runs) - len(runs)} recorded already" if len(sweep.runs) > len(runs) else ""
    return f"{len(sweep.runs)} runs of {sweep.chapter}{kept}; {len(runs)} to be done{known}"


def main() -> int:
    """Make the missing runs of a sweep; returns the exit status. An error with files prints one line."""
    parser = command_line("Run a chapter with every combination of some parameters.")
    parser.add_argument("file", type=Path, help="says which: see book/pipeline/sweep.py")
    args, extra = parser.parse_known_args()
    try:
        sweep = planned(args.file)
        with build_lock():
            return do_what_is_left(sweep, Path("build/sweeps", args.file.stem), args, extra)
    except (OSError, ValueError, CheckpointError) as error:  # a ProfileError is a ValueError
        print(error, file=sys.stderr)
        return 1


def do_what_is_left(sweep: Sweep, build: Path, args: argparse.Namespace, extra: list[str]) -> int:
    """Make the runs that are missing, then write the table of all runs; returns the exit status."""
    before = recorded(sweep) if sweep.record else {}
    left = [name for name in sweep.runs if name not in before]
    here = ELSEWHERE.isdisjoint(word.split("=")[0] for word in extra)
    refuse_impossible(sweep.chapter, [sweep.runs[name] for name in left], here)
    print(said_before(sweep, left), flush=True)
    lay_out(build, sweep)
    notebooks = {name: build / f"notebooks/{name}.ipynb" for name in left}
    if sweep.record and not is_dry(extra):
        for notebook in notebooks.values():  # of a run whose record was removed since
            notebook.unlink(missing_ok=True)
    quiet = ["--quiet", "rules", "host"]  # Snakemake then prints only how many runs are done
    own = "results=results" if sweep.record else ""
    status = make(map(str, notebooks.values()), args, [*quiet, *extra], own) if left else 0
    if is_dry(extra):
        return status
    done = [name for name in sweep.runs if name in before or notebooks[name].exists()]
    if sweep.record:
        records = {name: [path] for name, path in recorded(sweep).items()}
    else:
        records = {name: sorted((build / "results" / name).glob("*/*.parquet")) for name in done}
    found = table(sweep, records)
    write_atomically(build / "table.csv", found.to_csv(index=False).encode())
    print(f"{len(done)} of {len(sweep.runs)} runs done; {len(found)} rows in {build}/table.csv")
    for name in (name for name in sweep.runs if name not in done):
        log = build / f"logs/{name}.txt"
        seen = f"; see {log}" if log.exists() else ""
        but = ", though its record was written" if name in records else ""
        print(f"not done{but}: {name}, with {build}/parameters/{sweep.chapter}/{name}.yaml{seen}")
    return status


if __name__ == "__main__":
    sys.exit(main())
