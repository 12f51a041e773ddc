"""Tables of numbers with their intervals, as texts that know the numbers they were written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from attnlib.plots.drawing import labelled
from attnlib.plots.style import NUMBERS
from attnlib.stats.intervals import with_interval


def in_cells(
    rows: pd.DataFrame,
    index: Sequence[str],
    columns: str,
    *,
    unit: str = "",
    digits: int | None = None,
    lacking: str = "",
) -> pd.DataFrame:
    """Numbers as a table of texts, "0.47 [0.44, 0.50]", a column for each value of one of theirs.

    Where a number has no interval, because seeds are too few, it says how many they are.

    Args:
        rows: columns `value`, `low`, `high`, `n` and those named below, which tell every row from the others.
        index: the columns that stay, as the table's index; in the order of the rows.
        columns: the column whose values become columns, likewise.
        unit: of `attnlib.stats.with_interval`; it is not said, since a caption says it once.
        digits: of `with_interval`.
        lacking: what stands where there is no row.
    """
    beside = [[f"n = {n}"] if np.isnan(low) else [] for n, low in zip(rows["n"], rows["low"], strict=True)]
    texts = [
        with_interval(row, unit, digits, named=False, beside=more)
        for row, more in zip(rows.itertuples(), beside, strict=True)
    ]
    cells = rows.assign(text=texts).set_index([*index, columns])["text"].unstack().astype(object)
    order = rows.set_index(list(index)).index.unique()
    wide = (
        cells.reindex(index=order, columns=rows[columns].unique()).rename_axis(columns=None).fillna(lacking)
    )
    return knowing(wide, rows[[*index, columns, "value", "low", "high", "n"]])


def with_intervals(tables: Mapping[str, pd.DataFrame], digits: int = 3) -> pd.DataFrame:
    """Tables of numbers side by side, as `in_cells` writes them; an infinite xi is "never".

    Args:
        tables: columns `metric`, `value`, `low`, `high` and `n`, by what the column is to be called.
        digits: behind the point.
    """
    return in_cells(labelled(tables, "of"), ["metric"], "of", digits=digits)


def knowing(texts: pd.DataFrame, numbers: pd.DataFrame) -> pd.DataFrame:
    """A table of texts that knows its numbers: what `plots.table` makes of it carries them, not the texts."""
    texts.attrs[NUMBERS] = numbers.to_dict("list")  # plain, since pandas compares what tables are marked with
    return texts
