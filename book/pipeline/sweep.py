"""`python -m book.pipeline.sweep FILE`: one chapter with every combination of some parameters, and one table.

The file says which chapter, what all runs share, and the lists::

    chapter: rasp_languages
    profile: quick                  # optional: smoke, quick or paper, or another file beside these
    parameters: {steps: 500}        # optional: what all runs have in common
    lists:                          # every combination is a run
      language: [sort, reverse]
      seeds: [[0], [1], [2]]

Each run is a job of the Snakefile and leaves its executed notebook and its record under
`build/sweeps/<file>/`; what is there already is not run again.
"""

import argparse
import hashlib
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from .__main__ import take_lock
from .execute import write_whole
from .kept import discard_damaged
from .profiles import ProfileError, checked, read_profile, read_yaml

SAID = {"chapter", "profile", "parameters", "lists"}


def planned(path: Path) -> tuple[str, list[str], dict[str, dict[str, Any]]]:
    """What a file asks for: the chapter, the parameters with lists, and those of every run by its name.

    Raises:
        ProfileError: the file says something else, or names what is not there.
    """
    told = read_yaml(path)
    if unknown := told.keys() - SAID:
        raise ProfileError(
            f"{path} should say {', '.join(sorted(SAID))}; it says {', '.join(sorted(unknown))}"
        )
    chapters = sorted(file.stem for file in Path("notebooks").glob("*.ipynb"))
    chapter, lists, common = (told.get(name) for name in ("chapter", "lists", "parameters"))
    if chapter not in chapters:
        raise ProfileError(f"{path}: chapter should be one of {', '.join(chapters)}; got {chapter!r}")
    notebook = Path(f"notebooks/{chapter}.ipynb")
    if (
        not isinstance(lists, dict)
        or not lists
        or not all(isinstance(each, list) and each for each in lists.values())
    ):
        raise ProfileError(f"{path}: lists should name parameters, each with a list of values; got {lists!r}")
    if not isinstance(common or {}, dict):
        raise ProfileError(f"{path}: parameters should map names to values; got {common!r}")
    shared = dict(common or {})
    if "profile" in told:
        profile = Path(f"notebooks/profiles/{chapter}/{told['profile']}.yaml")
        shared = read_profile(profile, notebook) | shared
    checked(shared | lists, notebook, path)
    runs = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
    return chapter, list(lists), {name_of(shared | run): shared | run for run in runs}


def name_of(parameters: Mapping[str, Any]) -> str:
    """A run's name: the same for the same parameters."""
    return hashlib.sha256(json.dumps(parameters, sort_keys=True, default=str).encode()).hexdigest()[:10]


def lay_out(build: Path, chapter: str, runs: Mapping[str, Mapping[str, Any]]) -> None:
    """Write every run's parameters where the Snakefile finds them."""
    for name, parameters in runs.items():
        file = build / "parameters" / chapter / f"{name}.yaml"
        text = yaml.safe_dump(dict(parameters), sort_keys=False)
        if not file.exists() or file.read_text() != text:  # a newer file would be a reason to run again
            write_whole(file, text)


def table(
    build: Path, chapter: str, listed: Sequence[str], runs: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """The rows of every run's record, with the parameters that have lists in front.

    Raises:
        ValueError: a record is damaged.
    """
    from book.chapters.records.runs import read_all  # seconds, and only needed once the runs are done

    tables = []
    for name, parameters in runs.items():
        for rows, _ in read_all(build / "results" / name, chapter).values():
            texts = {key: json.dumps(parameters[key]).strip('"') for key in listed}
            words = pd.DataFrame(texts, index=rows.index)
            tables.append(pd.concat([words, rows.drop(columns=listed, errors="ignore")], axis=1))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def main() -> int:
    """Do what is left of a sweep, then write the table of what there is; returns the exit status."""
    parser = argparse.ArgumentParser(description="Run a chapter with every combination of some parameters.")
    parser.add_argument("file", type=Path, help="says which: see book/pipeline/sweep.py")
    parser.add_argument("--cores", type=int, default=2, help="runs side by side")
    args, extra = parser.parse_known_args()

    build = Path("build/sweeps", args.file.stem)
    try:
        chapter, listed, runs = planned(args.file)
    except ProfileError as error:
        print(error, file=sys.stderr)
        return 2
    lock = take_lock(Path("build/.lock"))
    for line in discard_damaged(build):
        print(line, flush=True)
    lay_out(build, chapter, runs)
    targets = [f"{build}/runs/{name}.json" for name in runs]
    options = ["--cores", str(args.cores), "--rerun-incomplete", "--nolock", "--keep-going"]
    quiet = ["--quiet", "rules", "host"]  # what is left is how many runs of how many are done
    signal.signal(signal.SIGINT, lambda *_: None)  # as in `make book`: Snakemake stops its jobs in order
    status = subprocess.run(
        [sys.executable, "-m", "snakemake", *targets, *options, *quiet, *extra],
        pass_fds=(lock.fileno(),),
        check=False,
    ).returncode
    done = [name for name in runs if (build / f"runs/{name}.json").exists()]
    found = table(build, chapter, listed, runs)
    write_whole(build / "table.csv", found.to_csv(index=False))
    print(f"{len(done)} of {len(runs)} runs done; {len(found)} rows in {build}/table.csv")
    for name in runs:
        if name not in done:
            print(f"not done: {name}, with parameters/{chapter}/{name}.yaml; see logs/{name}.txt")
    return status


if __name__ == "__main__":
    sys.exit(main())
