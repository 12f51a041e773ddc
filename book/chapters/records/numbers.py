"""Recorded numbers in words, as the box that opens each chapter says them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from attnlib.stats import with_interval
from book.chapters.records import runs
from book.sealing import read_sealed

NOT_RUN = "not run"

_WAY = r"(from scratch|fine-tuned|as it is)"


class Words(str):
    """A number in words that names where it was recorded; glued, its output's metadata says so, too.

    Attributes:
        source: `record`, `run`, `metric` and `value` of the row, those it has; `{}`: of no single row.
    """

    source: dict[str, Any]

    def __new__(cls, words: str, source: dict[str, Any]) -> Words:
        """The words, and what they are of."""
        made = super().__new__(cls, words)
        made.source = source
        return made

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """What a notebook keeps of it: the text that any other text would leave, and its source beside it."""
        return {"text/plain": repr(str(self))}, {"source": self.source}


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
    with the most units `n` is taken, and of these the latest. But they are of one way to make a model: which
    is not to be left to chance.

    Args:
        rows: of `records`, or a table made of them; columns `value`, `low`, `high`, `n` and those named.
        **where: what is asked, by column.

    Returns:
        The row; `None` if there is none.

    Raises:
        ValueError: the rows that fit are of models that were made in different ways (from scratch,
            fine-tuned, as they are), by their `setting`, so that it is not said which is meant.
    """
    if rows.empty or not set(where) <= set(rows.columns):
        return None
    found = rows[rows[list(where)].eq(pd.Series(where)).all(axis=1)]
    ways = found["setting"].str.extract(_WAY)[0].unique() if "setting" in found else ()
    if len(ways) > 1:
        raise ValueError(f"rows of models {' and '.join(map(str, ways))} have {where}: say which is meant")
    order = [name for name in ("n", "recorded") if name in found]
    return None if found.empty else found.sort_values(order, kind="stable").iloc[-1]


def counted(units: pd.Series) -> str:
    """How many units numbers are over, for a caption: "3", or "1 to 3"; of no numbers, "0"."""
    least, most = (int(end) for end in (units.min(), units.max())) if len(units) else (0, 0)
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def in_words(number: Any, unit: str = "", digits: int | None = None) -> Words:
    """A number with its 95 % interval and what it is a number of: "43 % [40, 47; n = 1,000]".

    Args:
        number: a row with `value`, `low`, `high` and `n`, as of `one_number`; `None` is "not run". If its
            `record` is marked (see `records`), the mark stands in the brackets, too.
        unit: of `with_interval`, which says the rest.
        digits: of `with_interval`.

    Returns:
        The words, which know the recorded row that they are of.
    """
    if number is None:
        return Words(NOT_RUN, {})
    record, _, mark = str(number.get("record", "")).partition(" [")
    words = with_interval(number, unit, digits, beside=[f"n = {int(number['n']):,}", mark.removesuffix("]")])
    own = {name: number[name] for name in ("run", "metric") if name in number}
    return Words(words, {"record": record, **own, "value": float(number["value"])} if record else {})
