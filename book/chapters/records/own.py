"""A reader's own runs beside those that came with the book: `python -m book.chapters.records.own`.

The reader's runs are in a separate folder (`book.chapters.records.places`). Claims and tables of recorded
runs do not use them. The last section of their chapter's page shows them, as of the time the page was built.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from attnlib import plots
from attnlib.stats import with_interval
from book.chapters.records.places import own_files
from book.chapters.records.provenance import caveats
from book.chapters.records.reproduced import NUMBERS, WORDS
from book.chapters.records.runs import Record, paths_of, read, table_of

log = logging.getLogger(__name__)

RUNS, ROWS = 10, 20
"""The most runs (the latest), and numbers of each, that a page shows; the table's file has all."""

_LONGEST = 60  # characters of a parameter's value


def with_own_runs(notebook: str) -> pd.DataFrame:
    """Rows of a chapter's runs that came with the book, and of the reader's own; see `runs.table_of`.

    The reader's own run replaces a run of the same name.
    """
    return table_of([*paths_of(notebook), *_own_paths(notebook)])


def your_runs(notebook: str) -> list[plots.Table]:
    """A reader's own runs of a chapter: a table of runs, and one of their numbers beside recorded ones.

    Each run is compared with the recorded run that shares the most numbers with it; ties go to the run with
    the fewest different parameters, then to the latest.
    """
    own = sorted(
        _records(_own_paths(notebook)).items(), key=lambda each: each[1][1]["recorded"], reverse=True
    )
    if not own:
        return []
    recorded = _records(paths_of(notebook))
    listed, numbers, shown = [], [], []
    for name, (rows, made) in own:
        beside = _nearest((rows, made), recorded)
        both = _compared(rows, recorded[beside][0] if beside else rows.iloc[:0])
        given = recorded[beside][1]["parameters"] if beside else {}
        listed.append(
            {
                "run": f"{name} [{caveats(made)}]".removesuffix(" []"),
                "made": f"{made['recorded'][:10]}, {made['device']}",
                "beside": beside or "none: no recorded run has such numbers",
                "parameters (of the recorded run)": _differences(made["parameters"], given) if beside else "",
            }
        )
        numbers.append(both.assign(run=name, beside=beside))
        shown.append(_in_words(both.dropna(subset="value recorded").head(ROWS)).assign(run=name))
    about = (
        "Your runs of this chapter, the latest first, each with the recorded run that it is compared with."
    )
    name = f"{notebook.replace('_', '-')}-your"
    in_words = pd.concat(shown[:RUNS], ignore_index=True)[["run", "number", "yours", "recorded"]]
    return [
        plots.table(pd.DataFrame(listed)).captioned(f"{name}-runs", about),
        plots.table(plots.knowing(in_words, pd.concat(numbers, ignore_index=True))).captioned(
            f"{name}-numbers",
            "Numbers of your runs beside the same ones of the recorded run, with 95 % intervals: of the "
            f"latest {RUNS} runs, the first {ROWS} that both have. The file has all.",
        ),
    ]


def _own_paths(notebook: str) -> list[Path]:
    return list(dict.fromkeys(path.with_suffix(".parquet") for path in own_files(notebook)))


def _records(paths: Iterable[Path]) -> dict[str, Record]:
    found = {}
    for path in paths:
        try:
            found[path.stem] = read(path)
        except ValueError as error:
            log.warning("left out: %s", error)
    return found


def _nearest(own: Record, recorded: Mapping[str, Record]) -> str | None:
    """The name of the recorded run that a run is compared with; `None` if no run shares a number with it."""
    rows, made = own

    def rank(name: str) -> tuple[int, int, str]:
        theirs, about = recorded[name]
        shared = int(_compared(rows, theirs)["value recorded"].notna().sum())
        return shared, -len(_different(made["parameters"], about["parameters"])), about["recorded"]

    best = max(recorded, key=rank, default=None)
    return best if best is not None and rank(best)[0] else None


def _compared(rows: pd.DataFrame, recorded: pd.DataFrame) -> pd.DataFrame:
    """Every row of a run with its keys, its numbers, and those of the recorded run (columns " recorded").

    Keys are the columns of words and integers, and columns of whole floats if these distinguish more rows.
    """
    shared = [name for name in rows if name in recorded and name not in {*NUMBERS, *WORDS}]
    floats = [name for name in shared if "f" in rows[name].dtype.kind + recorded[name].dtype.kind]
    keys: list[Any] = [name for name in shared if name not in floats]
    for name in floats:
        ambiguous = rows.duplicated(keys, keep=False) & rows[name].notna()
        whole = (rows[name][ambiguous] % 1 == 0).all()
        if whole and rows.duplicated([*keys, name]).sum() < rows.duplicated(keys).sum():
            keys.append(name)
    ours, theirs = (each[NUMBERS].join(each[keys].map(_text)) for each in (rows, recorded))
    theirs = theirs[~theirs.duplicated(keys, keep=False)]
    both = ours.merge(theirs, on=keys, how="left", suffixes=("", " recorded"))
    beside = [f"{name} recorded" for name in NUMBERS]
    both[beside] = both[beside].mask(both.duplicated(keys, keep=False))  # ambiguous
    return both[[*keys, *NUMBERS, *beside]]


def _text(value: Any) -> str:
    return "" if pd.isna(value) else f"{value:g}" if isinstance(value, float) else str(value)


def _in_words(both: pd.DataFrame) -> pd.DataFrame:
    """Numbers with their intervals, and for each the fewest keys that distinguish the rows."""
    numbers = {*NUMBERS, *(f"{name} recorded" for name in NUMBERS)}
    keys, shown = [str(name) for name in both if name not in numbers], ["metric"]
    for name in keys:
        if len(both[[*shown, name]].drop_duplicates()) > len(both[shown].drop_duplicates()):
            shown.append(name)
    shown.sort(key=keys.index)
    cells = []
    for row in both.to_dict("records"):
        words = filter(None, (_word(name, row[name]) for name in shown))
        theirs = {name: row[f"{name} recorded"] for name in NUMBERS}
        cells.append([", ".join(words), with_interval(row), with_interval(theirs)])
    return pd.DataFrame(cells, columns=["number", "yours", "recorded"])


def _word(name: str, value: str) -> str:
    """A value by itself where it is a word; else "seed 0", "supervised"; "" where there is none."""
    if value in ("True", "False", ""):
        return name if value == "True" else ""
    return f"{name} {value}" if value.lstrip("-").isdigit() else value


def _different(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name in dict.fromkeys([*ours, *theirs])
        if name not in ours or name not in theirs or ours[name] != theirs[name]
    ]


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The parameters that differ: "steps 100 (2500), seeds [0] ([0, 1, 2])"."""

    def said(given: Mapping[str, Any], name: str) -> str:
        return json.dumps(given[name], ensure_ascii=False)[:_LONGEST] if name in given else "not said"

    return ", ".join(f"{name} {said(ours, name)} ({said(theirs, name)})" for name in _different(ours, theirs))


def main() -> None:
    """Print the tables of one chapter, or of all."""
    parser = argparse.ArgumentParser(description="Your own runs, beside those that came with the book.")
    parser.add_argument("chapter", nargs="?", default="*", help="the name of its notebook; all if left out")
    chapters = sorted({path.parent.name for path in own_files(parser.parse_args().chapter)})
    for chapter in chapters:
        print(f"\n{chapter}")
        for table in your_runs(chapter):
            print(table.data.to_string(index=False))
    if not chapters:
        print("There are none: a chapter that is run by papermill or in JupyterLab records into my_runs/.")


if __name__ == "__main__":
    main()
