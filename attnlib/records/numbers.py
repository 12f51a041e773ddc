"""Recorded numbers in words, as the box that opens each chapter says them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from attnlib.records import runs
from attnlib.sealing import read_sealed

NOT_RUN = "not run"

IN_HUNDREDTHS = ("%", "points")
"""Units of shares that are shown times 100."""


def came_with_the_book(notebook: str, **parameters: Any) -> pd.DataFrame:
    """`records` of a chapter, less those of a reader's own runs: what the page says first is the same in all.

    Args:
        notebook: the chapter.
        **parameters: only of runs with these parameters, whatever the others were; by default, of all.
    """
    rows = runs.records(notebook)
    if rows.empty:
        return rows
    files = {path.stem: path.with_suffix(".json") for path in (runs.RECORDED / notebook).glob("*.parquet")}
    names = rows["record"].str.partition(" [")[0]
    rows = rows[names.isin(files)]
    if not parameters:
        return rows
    told = {name: read_sealed(file)["parameters"] for name, file in files.items() if name in set(names)}
    asked = [name for name, made in told.items() if parameters.items() <= made.items()]
    return rows[names[rows.index].isin(asked)]


def learned_best(rows: pd.DataFrame, kinds: Sequence[str], metric: str) -> pd.DataFrame:
    """Of models of one kind that were trained in several ways, those of the way that learned best.

    Args:
        rows: of `records`.
        kinds: columns in which models of one kind are equal.
        metric: whose mean over the models of a record says how much was learned; the highest is the best.

    Returns:
        The rows without those of other ways. Models without the metric, and those of one way, all stay.
    """
    if rows.empty:
        return rows
    learned = rows[rows["metric"].eq(metric)].groupby([*kinds, "record"])["value"].mean()
    less = learned[learned < learned.groupby(level=list(kinds)).transform("max")]
    return rows[~pd.MultiIndex.from_frame(rows[[*kinds, "record"]]).isin(less.index)]


def one_number(rows: pd.DataFrame, **where: Any) -> pd.Series | None:
    """The one row of a table that has these values in these columns.

    A run of a reader's own may have the same place as one that came with the book: of several rows the one
    with the most units `n` is taken, and of these the latest.

    Args:
        rows: of `records`, or a table made of them; columns `value`, `low`, `high`, `n` and those named.
        **where: what is asked, by column.

    Returns:
        The row; `None` if there is none.
    """
    if rows.empty or not set(where) <= set(rows.columns):
        return None
    found = rows[rows[list(where)].eq(pd.Series(where)).all(axis=1)]
    order = [name for name in ("n", "recorded") if name in found]
    return None if found.empty else found.sort_values(order, kind="stable").iloc[-1]


def in_words(number: Any, unit: str = "", digits: int | None = None) -> str:
    """A number with its 95 % interval and what it is a number of: "43 % [40, 47; n = 1,000]".

    Args:
        number: a row with `value`, `low`, `high` and `n`, as of `one_number`; `None` is "not run". If its
            `record` is marked (see `records`), the mark stands in the brackets, too.
        unit: what stands behind the value; shares in "%" or "points" are shown times 100, and the interval of
            a share in "%" ends at 0 and 100, as shares do.
        digits: behind the point; by default 0 of hundredths, else 2.
    """
    if number is None:
        return NOT_RUN
    scale, places = (100, 0) if unit in IN_HUNDREDTHS else (1, 2)
    places = places if digits is None else digits
    ends = [float(number[name]) for name in ("value", "low", "high")]
    if unit == "%":
        ends = [min(max(each, 0.0), 1.0) if each == each else each for each in ends]
    value, low, high = (
        "never" if abs(each) == float("inf") else f"{round(scale * each, places) + 0.0:.{places}f}"
        for each in ends
    )
    alone = number["n"] == 1 and number["low"] == number["high"]  # a mean over one is as wide as nothing
    interval = "no interval" if alone or number["low"] != number["low"] else f"{low}, {high}"
    mark = str(number.get("record", "")).partition(" [")[2].removesuffix("]")
    beside = "; ".join(filter(None, [interval, f"n = {int(number['n']):,}", mark]))
    return f"{value} {unit}".strip() + f" [{beside}]"
