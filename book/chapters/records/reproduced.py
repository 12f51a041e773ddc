"""Comparison of a build's numbers with the recorded ones.

The records in `results/` came with the book; a build runs chapters again and writes records of its own. This
module compares both, number by number. `python -m book.chapters.records.reproduced build/quick/results`
prints a summary of every record, the numbers that changed, and one line for all. It fails if any number
changed by more than rounding.

Every recorded row gets one of `VERDICTS`:

* "bit for bit": value, low, high and n, and other fractions in the row, are the same numbers;
* "to rounding": n is the same, and the other numbers differ by a relative error of at most 1e-12 (1e-15 near
  0), as for sums in another order; on another processor by 1e-5 (1e-8), as for sums in single precision;
* "within the interval": the new value lies between the recorded low and high;
* "within seeds": outside this interval, but the record has the number for three seeds or more, and the new
  value lies in their 95 % prediction interval (Student's) for a further seed;
* "another processor": neither, and the run's models, its own or those of other chapters, were trained on
  another processor, or on one that the record does not name: training diverges if sums are rounded
  differently, and a row that is named after the first of a ranking may no longer exist;
* "differs": none of these;
* "missing": the run was repeated, and has no such row;
* "not run": this build did not repeat the run.

The first three count as reproduced. With `--write`, `results/found_again.csv` notes the records that a build
from a clean tree reproduced to rounding: a row per record, with the commit, the day, the processor and the
numbers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from attnlib.files import write_atomically
from book.chapters.records.runs import RECORDED, Record, completed, read_all

SAME = ("bit for bit", "to rounding")
REPRODUCED = (*SAME, "within the interval")

EXPLAINED = ("within seeds", "another processor")
"""Verdicts on numbers that changed because models were trained again."""

VERDICTS = (*REPRODUCED, *EXPLAINED, "differs", "missing", "not run")
"""The verdicts on a recorded row, the best first."""

FOUND_AGAIN = "found_again.csv"
"""The table, in the folder of records, of the commits at which records were last reproduced."""

_KEY = ["notebook", "run"]

NUMBERS = ["value", "low", "high", "n"]

ROUNDING, ROUNDING_ELSEWHERE = (1e-12, 1e-15), (1e-5, 1e-8)
"""Relative and absolute tolerances for numbers of the same run; the second pair is for another processor."""

WORDS = {"setting", "ranges"}
"""Columns that put parameters into words; the words may change while the run is the same."""


def reproduced(made: Path, recorded: Path = RECORDED) -> pd.DataFrame:
    """Every recorded number beside the build's number.

    Runs are matched by name, which contains a hash of the parameters, or by the parameters that both have.
    """
    found = twins(made, recorded)
    tables = {key: table for key, (table, _) in found.items()}
    if not tables:
        return pd.DataFrame(columns=["notebook", "record", "verdict"])
    return pd.concat(tables, names=["notebook", "record"]).reset_index([0, 1])


def twins(made: Path, recorded: Path = RECORDED) -> dict[tuple[str, str], tuple[pd.DataFrame, Any]]:
    """By notebook and run: the columns of `compare`, and the provenance of the build's own run or `None`."""
    theirs, ours = read_all(recorded), read_all(made)
    found: dict[tuple[str, str], tuple[pd.DataFrame, Any]] = {}
    for key, (rows, provenance) in theirs.items():
        twin = _twin(
            key, provenance, {name: ours[name] for name in ours if name == key or name not in theirs}
        )
        if twin is None:
            found[key] = compare(rows, rows.iloc[:0]).assign(verdict="not run"), None
            continue
        now, origin = ours.pop(twin)
        before = completed(rows, now, provenance["parameters"])
        elsewhere = provenance.get("processor") != origin.get("processor")
        rounding = ROUNDING_ELSEWHERE if elsewhere else ROUNDING
        table = compare(before, completed(now, rows, origin["parameters"]), rounding)
        if elsewhere and (provenance["steps"] or "models" in provenance["parameters"]):
            table["verdict"] = table["verdict"].replace(["differs", "missing"], "another processor")
        found[key] = table, origin
    return found | {key: (compare(rows.iloc[:0], rows), origin) for key, (rows, origin) in ours.items()}


def compare(
    recorded: pd.DataFrame, made: pd.DataFrame, rounding: tuple[float, float] = ROUNDING
) -> pd.DataFrame:
    """Two tables of one run, row by row, whatever their order.

    Rows match if they agree in all columns of both tables except numbers, other fractions, and `WORDS`;
    several matches are paired in their order.
    """
    shared = [str(name) for name in recorded if name in made]
    fractions = [name for name in shared if "f" in recorded[name].dtype.kind + made[name].dtype.kind]
    measured = list(dict.fromkeys([*NUMBERS, *fractions]))
    keys = [name for name in shared if name not in {*measured, *WORDS}]
    old, new = (
        rows[measured].assign(row=[", ".join(map(str, row)) for row in rows[keys].itertuples(index=False)])
        for rows in (recorded, made)
    )
    old, new = (rows.assign(nth=rows.groupby("row").cumcount()) for rows in (old, new))
    old = old.join(_range_of_seeds(recorded, keys))
    both = old.merge(new, on=["row", "nth"], how="outer", suffixes=("", " here"), indicator=True)
    before, here = (both[[name + end for name in measured]].to_numpy(float) for end in ("", " here"))
    same = np.isclose(here, before, rtol=0, atol=0, equal_nan=True)
    of_itself, near_0 = rounding
    close = np.isclose(here, before, rtol=of_itself, atol=near_0, equal_nan=True)
    close[:, measured.index("n")] = same[:, measured.index("n")]
    slack = 1e-12 * both["value"].abs() + 1e-15  # an interval of width 0 contains its own value
    within = both["value here"].between(both["low"] - slack, both["high"] + slack)
    seeds = both["value here"].between(both["least"], both["most"])
    alone = [both["_merge"] == "right_only", both["_merge"] == "left_only"]
    said = ["new", "missing", *REPRODUCED, "within seeds"]
    both["verdict"] = np.select([*alone, same.all(1), close.all(1), within, seeds], said, "differs")
    return both[["row", *NUMBERS, *(f"{name} here" for name in NUMBERS), "verdict"]]


def _range_of_seeds(recorded: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The 95 % prediction interval, from `least` to `most`, of each number for one more seed."""
    kinds = recorded[[name for name in keys if name != "seed"]].astype(str)
    kinds = kinds.replace(r"\bseed \d+", "seed", regex=True)
    values = recorded["value"].groupby([kinds[name] for name in kinds] or np.zeros(len(kinds)))
    n = values.transform("size").where(recorded.get("seed", default=pd.Series(dtype=object)).notna())
    n = n.where(n >= 3)
    reach = scipy.stats.t.ppf(0.975, n - 1) * values.transform("std") * np.sqrt(1 + 1 / n)
    middle = values.transform("mean")
    return pd.DataFrame({"least": middle - reach, "most": middle + reach})


def line(table: pd.DataFrame) -> str:
    """The result of `reproduced` in one line: how many numbers are reproduced, and how closely."""
    if table.empty:
        return "No numbers are recorded"
    counts = table["verdict"].value_counts().reindex([*VERDICTS, "new"], fill_value=0)
    n_recorded, n_same = counts[list(VERDICTS)].sum(), counts[list(REPRODUCED)].sum()
    if n_recorded == counts["not run"]:
        return f"None of the {n_recorded:,} recorded numbers is of a run that this build did"
    said = [f"{n_same:,} of {n_recorded - counts['not run']:,} recorded numbers reproduced"]
    if counts["bit for bit"] < n_same:
        said += [", ".join(f"{counts[verdict]:,} {verdict}" for verdict in REPRODUCED if counts[verdict])]
    moved = (*EXPLAINED, "differs", "missing")
    said += [f"{counts[verdict]:,} {verdict}" for verdict in moved if counts[verdict]]
    if counts["not run"]:
        records = table.loc[table["verdict"] == "not run", ["notebook", "record"]].drop_duplicates()
        left = f"another {counts['not run']:,}, in {len(records)} records"
        said += [f"{left}, come from runs that this build did not repeat"]
    return "; ".join(said)


def summary(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """A summary of each record, by notebook and record: "218 of 218 bit for bit"."""
    summaries = {}
    for row in table[["notebook", "record"]].drop_duplicates().itertuples(index=False):
        rows = table[(table["notebook"] == row.notebook) & (table["record"] == row.record)]
        counts = rows["verdict"].value_counts().reindex([*VERDICTS, "new"]).dropna().astype(int)
        n_new = counts.pop("new") if "new" in counts else 0
        words = [f"{count:,} of {counts.sum():,} {verdict}" for verdict, count in counts.items()]
        summaries[str(row.notebook), str(row.record)] = ", ".join(words + [f"{n_new:,} new"] * bool(n_new))
    return summaries


def found_again(recorded: Path = RECORDED) -> pd.DataFrame:
    """The table `FOUND_AGAIN`: where each record was last reproduced."""
    path = recorded / FOUND_AGAIN
    empty = pd.DataFrame(columns=[*_KEY, "commit", "date", "processor", "numbers"])
    return pd.read_csv(path, keep_default_na=False) if path.exists() else empty


def write_found_again(made: Path, recorded: Path = RECORDED) -> int:
    """Note in `FOUND_AGAIN` the records that a clean build reproduced to rounding; returns their number."""
    theirs, rows = read_all(recorded), []
    for key, (table, origin) in twins(made, recorded).items():
        if key in theirs and origin and origin["clean"] and set(table["verdict"]) <= {*SAME, "new"}:
            evidence = summary(table.assign(notebook=key[0], record=key[1]))[key]
            place = {"commit": origin["commit"], "date": origin["recorded"][:10]}
            place |= {"processor": origin.get("processor", ""), "numbers": evidence}
            rows.append(dict(zip(_KEY, key, strict=True)) | place)
    if rows:
        both = pd.concat([found_again(recorded), pd.DataFrame(rows)])
        text = both.drop_duplicates(_KEY, keep="last").sort_values(_KEY).to_csv(index=False)
        write_atomically(recorded / FOUND_AGAIN, text.encode())
    return len(rows)


def _twin(key: tuple[str, str], provenance: dict[str, Any], ours: dict[tuple[str, str], Record]) -> Any:
    """The key of the build's record of the same run; `None` if there is none."""
    if key in ours:
        return key
    before = provenance["parameters"]
    alike = []
    for other, (_, origin) in ours.items():
        both = before.keys() & origin["parameters"].keys()
        if other[0] == key[0] and both and all(before[name] == origin["parameters"][name] for name in both):
            alike.append(other)
    return alike[0] if len(alike) == 1 else None


def folders_of_records(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The parsed command line, with the folders `made` (a build's records) and `recorded` (the book's)."""
    parser.add_argument("made", type=Path, nargs="?", default=Path("build/quick/results"), help="of a build")
    parser.add_argument("--recorded", type=Path, default=RECORDED, help="the book's records")
    parser.add_argument("--write", action="store_true", help=f"note in {FOUND_AGAIN} what was found again")
    args = parser.parse_args()
    if not args.made.is_dir():
        parser.error(f"{args.made} is no folder; make book leaves one in build/<profile>/results")
    if not any(args.recorded.glob("*/*.parquet")):
        parser.error(
            f"{args.recorded} holds no records: a folder per chapter is meant, as in {RECORDED.name}"
        )
    return args


def main() -> int:
    """Compare a build's records with the book's, and print the results; returns the exit status."""
    about = "Did a build give the numbers that were recorded?"
    args = folders_of_records(argparse.ArgumentParser(description=about))
    try:
        table = reproduced(args.made, args.recorded)
        if args.write:
            n = write_found_again(args.made, args.recorded)
            print(f"{n} records were found again: {FOUND_AGAIN} has them")
    except ValueError as error:  # a damaged record
        sys.exit(str(error))
    if len(table):
        print(*(f"{' '.join(key)}: {words}" for key, words in summary(table).items()), sep="\n")
        moved = table[table["verdict"].isin(VERDICTS[1:-1])].drop(columns="notebook")
        print(moved.to_string(index=False, max_rows=40) if len(moved) else "No number moved.")
    print(line(table))
    return int(table["verdict"].isin(["within the interval", *EXPLAINED, "differs", "missing"]).any())


if __name__ == "__main__":
    sys.exit(main())
