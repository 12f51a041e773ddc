"""Recorded numbers in words, as the box that opens each chapter says them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from attnlib.records import runs
from attnlib.sealing import read_sealed
from attnlib.stats import with_interval

NOT_RUN = "not run"


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
        unit: of `with_interval`, which says the rest.
        digits: of `with_interval`.
    """
    if number is None:
        return NOT_RUN
    mark = str(number.get("record", "")).partition(" [")[2].removesuffix("]")
    return with_interval(number, unit, digits, beside=[f"n = {int(number['n']):,}", mark])
