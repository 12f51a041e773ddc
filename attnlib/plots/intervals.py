"""Tables of texts such as "0.47 [0.44, 0.50]", with the numbers that the texts were written from."""

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
    """Numbers as a table of texts, "0.47 [0.44, 0.50]", with a column for each value of `columns`.

    Where a number has no interval, because there are too few seeds, the text says how many there are.

    Args:
        rows: a table with columns `value`, `low`, `high`, `n` and those named below, whose values together
            identify a row.
        index: the columns that become the index, in the order of the rows.
        columns: the column whose values become columns, in the order of the rows.
        unit: as in `attnlib.stats.with_interval`; it is not written, since a caption names it once.
        digits: as in `with_interval`.
        lacking: the text of a cell for which there is no row.
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
        tables: tables with columns `metric`, `value`, `low`, `high` and `n`, by the name of their column.
        digits: digits after the decimal point.
    """
    return in_cells(labelled(tables, "of"), ["metric"], "of", digits=digits)


def knowing(texts: pd.DataFrame, numbers: pd.DataFrame) -> pd.DataFrame:
    """The table of texts, marked with its numbers, which `plots.table` exports in place of the texts."""
    texts.attrs[NUMBERS] = numbers.to_dict("list")  # a dict, since pandas compares `attrs` by ==
    return texts
