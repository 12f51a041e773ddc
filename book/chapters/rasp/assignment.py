"""Which of some things goes with which of some others, so that they agree best in all."""

from __future__ import annotations

import pandas as pd
from scipy.optimize import linear_sum_assignment


def best_pairs(
    rows: pd.DataFrame, left: str = "program", right: str = "head", value: str = "agreement"
) -> pd.DataFrame:
    """The one-to-one assignment with the largest sum of mean values (Kuhn 1955, *The Hungarian method*).

    Choose it on other rows than those it is then judged by: the best of many is too good on its own rows.

    Args:
        rows: any number for every pair; NaN does not count.
        left: column of the things to assign.
        right: column of the things assigned to them. Where there are fewer, some of the left get none.
        value: column of how well they agree.

    Returns:
        Columns `left`, `right` and `value`, the mean of the pair's rows: a row per pair, in the left's order.

    Raises:
        ValueError: a pair has no value.
    """
    table = rows.pivot_table(index=left, columns=right, values=value, aggfunc="mean", dropna=False)
    if table.isna().any(axis=None) or table.empty:
        raise ValueError(f"every pair of {left} and {right} should have a {value}; got\n{table}")
    places = linear_sum_assignment(table.to_numpy(), maximize=True)
    found = [(table.index[i], table.columns[j], table.iloc[i, j]) for i, j in zip(*places, strict=True)]
    return pd.DataFrame(found, columns=[left, right, value])
