"""The tails of tables: the mean of a column in groups of rows, with an interval over what is independent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attnlib.checks import check
from attnlib.stats.intervals import SHARE, Estimate, proportion, ratio
from attnlib.stats.significance import NOT_ENOUGH

NUMBERS = (bool, int, float, np.bool_, np.number)
"""What may stand for True or False, if it is 1 or 0."""


def summarise(
    rows: pd.DataFrame,
    by: Sequence[str] = (),
    value: str = "value",
    unit: str | None = None,
    *,
    whole: str | None = None,
    beside: Sequence[str] = (),
    every: bool = False,
    at_least: int = 1,
    confidence: float = 0.95,
    bounds: tuple[float, float] | None = SHARE,
) -> pd.DataFrame:
    r"""The mean of a column, in groups of rows, with an interval over independent units.

    Args:
        rows: one per unit, or finer.
        by: columns to split by. Groups come in the order of their values: of categories as they are, of truth
            values True first, of others as they appear.
        value: the column; rows where it is NaN are left out.
        unit: says what stands or falls together, such as "sample": rows are first averaged within each. By
            default every row is a unit.
        whole: a column $w$: in place of the mean, $\sum_i v_i / \sum_i w_i$ over the units, as for right
            tokens of all tokens.
        beside: columns of which the same number stands beside, without an interval: a level of chance on the
            same rows.
        every: show combinations of values that have no rows, too.
        at_least: units that there should be; where there are fewer, numbers are "not enough data".
        confidence: of the intervals.
        bounds: what the number of a unit can be, by default from 0 to 1; `None`: anything. They count where
            all units are equal: see `of_equals`.

    Returns:
        Columns `by`, `value`, `low`, `high`, `n` (units), `beside`, and with a `unit`, `rows`. The interval
        of truth values is Wilson's, that of numbers is by drawing units again, which of a few says too
        little: of 2 normal ones, an interval of 95 % covers the truth in 50 %, of 5 in 82, of 10 in 90.
    """
    check_columns(rows, by, value, *filter(None, (unit, whole)), *beside)
    names, table = [value, *([whole] if whole else []), *beside], []
    for values, group in group_rows(rows, by, every=every):
        kept = group[group[[value, *([whole] if whole else [])]].notna().all(axis=1)]
        check_groups(kept, *filter(None, [unit]))
        units = kept if unit is None else kept.groupby(unit)[names].mean()
        numbers: dict[str, Any] = dict.fromkeys(["value", "low", "high"], NOT_ENOUGH) | {"n": len(units)}
        means: dict[str, Any] = dict.fromkeys(beside, NOT_ENOUGH)
        if len(units) >= max(1, at_least):
            numbers = _estimate(units[value], units[whole] if whole else None, confidence, bounds)._asdict()
            wholes = units[whole].mean() if whole else 1.0
            means = {name: units[name].to_numpy().mean() / wholes for name in beside}
        table.append(values | numbers | means | ({} if unit is None else {"rows": len(kept)}))
    return pd.DataFrame(
        table, columns=[*by, "value", "low", "high", "n", *beside, *(["rows"] if unit else [])]
    )


def check_columns(rows: pd.DataFrame, by: Sequence[str], *needed: str) -> None:
    """Refuse rows that lack a column, and a `by` that is a text."""
    check(not isinstance(by, str), "by must be a list of columns", by)
    missing = [name for name in (*by, *needed) if name not in rows]
    check(not missing, f"rows must have the columns {missing}", list(rows))


def check_groups(rows: pd.DataFrame, *columns: str) -> None:
    """Refuse rows of which it is missing what they belong to: pandas would leave them out."""
    for name in columns:
        check(not rows[name].isna().any(), f"{name} must be known of every row", rows[name])


def truths(rows: pd.DataFrame, column: str) -> pd.Series:
    """A column of truth values, True and False or 1 and 0; anything else is refused."""
    values = rows[column]
    if values.dtype == bool:
        return values
    for each in values.unique():
        check(isinstance(each, NUMBERS) and each in (0, 1), f"{column} must be True or False", each)
    return values.astype(bool)


def _estimate(
    values: pd.Series, wholes: pd.Series | None, confidence: float, bounds: tuple[float, float] | None
) -> Estimate:
    if wholes is None and values.dtype == bool:
        return proportion(int(values.sum()), len(values), confidence)
    parts = values.to_numpy(float)
    whole = np.ones(len(parts)) if wholes is None else wholes.to_numpy(float)
    return ratio(parts, whole, confidence, bounds=bounds)


def group_rows(
    rows: pd.DataFrame, by: Sequence[str], *, every: bool = False
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The combinations of some columns' values, and their rows; with `every`, also where there are none."""
    if not by:
        yield {}, rows
        return
    check_groups(rows, *by)
    found = dict(iter(rows.groupby(list(by), sort=False, observed=True)))
    for values in itertools.product(*(_levels(rows[name]) for name in by)):
        if every or values in found:
            yield dict(zip(by, values, strict=True)), found.get(values, rows[:0])


def _levels(column: pd.Series) -> list[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(column.cat.categories)
    return [True, False] if column.dtype == bool else list(column.drop_duplicates())
