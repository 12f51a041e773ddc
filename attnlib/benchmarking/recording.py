"""Record the scores of the methods `COMPARED` on the programs of the population.

    python -m attnlib.benchmarking.recording --seeds 0:2000 build/benchmark

A file for each hundred seeds is written into the folder as soon as it is complete, so that a killed run can
be resumed. With `--learned 1`, methods are scored on transformers that are trained on the programs in place
of compiled ones (`attnlib.benchmarking.learned`); `--positions` is their position encoding. With `--plain`,
methods are scored on compiled transformers without a disguise.

With `--gather FILE`, the rows of all files of the folder are written to one file, and beside it a `.json`
file with the seeds, the commit, the versions and the date. With `--publish`, the rows become the recorded
scores that come with the package (`attnlib.benchmarking.scoring.PUBLISHED`).
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import torch

from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.compiling import Disguise
from attnlib.benchmarking.learned import Positions, asked_of_learned
from attnlib.benchmarking.population import POPULATION, draw
from attnlib.benchmarking.questions import TRUTHS
from attnlib.benchmarking.scoring import (
    COMPARED,
    FEATURES,
    PUBLISHED,
    asked,
    features_of,
    rows_of,
    versions,
)
from attnlib.files import write_atomically

CHUNK, LEARNED_CHUNK = 100, 10
"""Seeds per file, for compiled and for trained transformers; training takes a minute per program."""


def seeds_of(text: str) -> range:
    """The seeds that a text on the command line names: "1000:1200" is `range(1000, 1200)`."""
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise ValueError(f"seeds must be FIRST:LAST, whole numbers with FIRST below LAST; got {text!r}")
    return range(int(first), int(last))


def in_chunks(seeds: range, folder: Path, rows: Callable[[range], pd.DataFrame], chunk: int = CHUNK) -> None:
    """Write the rows of `seeds` into `folder`, a file for each `chunk` of them, unless the file exists."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(seeds.start, seeds.stop, chunk):
        part = range(start, min(start + chunk, seeds.stop))
        path = folder / f"{part.start:05d}-{part.stop - 1:05d}.parquet"
        if not path.exists():
            found = rows(part)
            write_atomically(path, found.to_parquet(index=False))
            print(f"{path.name}: {found['seed'].nunique()} programs", file=sys.stderr, flush=True)


def gathered(folder: Path) -> pd.DataFrame:
    """The rows of all files of a folder, in the order of seeds."""
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))], ignore_index=True)


def small(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `rows_of` with compact data types, for a small file."""
    kinds = {"method": [*COMPARED], "truth": [*TRUTHS], "sign": ["as given", "absolute"]}
    rows = rows.astype({name: pd.CategoricalDtype(values) for name, values in kinds.items()})
    return rows.astype({"seed": "int32", "value": "float32", "n": "int8"})


def origin(rows: pd.DataFrame, asked_for: argparse.Namespace) -> dict[str, Any]:
    """The origin of recorded rows: population, weights, seeds, commit, versions and date."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
        )
        commit = found.stdout.strip() or None
    except OSError:  # no git
        commit = None
    return {
        "population": POPULATION,
        "weights": f"trained, size {asked_for.learned}, {asked_for.positions} positions"
        if asked_for.learned
        else "compiled, without disguise"
        if asked_for.plain
        else "compiled",
        "seeds": sorted({int(seed) for seed in rows["seed"]}),
        "commit": commit,
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def main() -> int:
    """Record scores, and gather or publish them as the arguments say; returns the exit status."""
    parser = argparse.ArgumentParser(description="Record the scores of all methods on programs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=seeds_of, default=range(2000), help="FIRST:LAST")
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument(
        "--learned", type=int, metavar="SIZE", help="train transformers of this relative size"
    )
    parser.add_argument("--positions", choices=get_args(Positions), default="learned", help="of --learned")
    weights.add_argument("--plain", action="store_true", help="compile the programs without a disguise")
    parser.add_argument("--gather", type=Path, metavar="FILE", help="write the rows of all files as one")
    parser.add_argument("--publish", action="store_true", help="make them the scores of the package")
    args = parser.parse_args()
    torch.set_num_threads(1)
    made: Any = partial(asked, disguise=Disguise()) if args.plain else asked
    if args.learned:
        made = partial(asked_of_learned, size=args.learned, positions=args.positions)
    rows = partial(rows_of, methods={name: METHODS[name] for name in COMPARED}, made=made)
    in_chunks(args.seeds, args.folder, rows, LEARNED_CHUNK if args.learned else CHUNK)
    for path in [args.gather] * bool(args.gather) + [PUBLISHED] * args.publish:
        found = small(gathered(args.folder))
        write_atomically(path, found.to_parquet(index=False, compression="zstd"))
        write_atomically(
            path.with_suffix(".json"), json.dumps(origin(found, args), indent=1).encode() + b"\n"
        )
        print(path)
    if args.publish:
        seeds = sorted(set(pd.read_parquet(PUBLISHED)["seed"].tolist()))
        told = pd.DataFrame([features_of(draw(seed)) for seed in seeds])
        write_atomically(FEATURES, told.to_parquet(index=False, compression="zstd"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
