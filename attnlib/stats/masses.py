"""Reference mass of groups of rows, with intervals, beside the level of chance."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from attnlib.stats.intervals import ratio
from attnlib.stats.significance import NOT_ENOUGH

ROLLOUT, MEAN, BY_LAYER = "rollout", "mean attention", "attention by layer"
"""What attention on the reference is scored by: the columns of masses (one per layer for the last)."""

UNIFORM = {ROLLOUT: "uniform rollout", MEAN: "uniform attention", BY_LAYER: "uniform attention"}
"""The column of each that says what a model would score that attends to everything before it equally."""

_COLUMNS = ["value", "low", "high", "uniform", "above", "above_low", "above_high", "n", "rows"]


def uniform_of(measure: str) -> str:
    """The column with the null level of a column of masses."""
    return UNIFORM[ROLLOUT] if measure == ROLLOUT else UNIFORM[MEAN]


def mass_table(
    rows: pd.DataFrame, by: Sequence[str] = (), measures: Sequence[str] | None = None
) -> pd.DataFrame:
    """Mean reference mass of groups, in samples: rows first averaged within each sample.

    Args:
        rows: of `evaluate_rows`, with further columns to split by if wanted (`rows.assign(split="OOD")`).
            Rows without a reference key (`referenced` is false) are left out.
        by: columns to split by, such as `["correct"]` or `["task", "split"]`. All combinations of their
            values get a row, truth values always both, categories all; those without data say so.
        measures: columns of masses; by default all that `rows` has.

    Returns:
        Columns `by`, `measure`, `value`, `low`, `high` (bootstrap over samples), `uniform` (what uniform
        causal attention scores on the same rows), `above`, `above_low`, `above_high` (the difference from
        that, within samples), `n` (samples) and `rows`. With fewer than 2 samples, numbers are replaced by
        "not enough data".

    Raises:
        ValueError: a column is missing.
    """
    if measures is None:
        measures = [
            name for name in map(str, rows) if name in (ROLLOUT, MEAN) or name.startswith("attention L")
        ]
    missing = [name for name in measures if name not in rows or uniform_of(name) not in rows]
    if missing or not measures:
        raise ValueError(
            f"rows should have columns of masses and their uniform level; missing {missing}, got "
            f"{list(rows.columns)}"
        )
    table = []
    for names, group in group_rows(rows, by):
        for measure in measures:
            kept = group.loc[group[measure].notna(), ["sample", measure, uniform_of(measure)]]
            means = kept.groupby("sample").mean().to_numpy(float)
            numbers = _numbers(means, len(kept))
            table.append(names | {"measure": measure} | dict(zip(_COLUMNS, numbers, strict=True)))
    return pd.DataFrame(table, columns=[*by, "measure", *_COLUMNS])


def _numbers(means: Float[np.ndarray, "sample 2"], rows: int) -> list[Any]:
    if len(means) < 2:
        return [NOT_ENOUGH] * 7 + [len(means), rows]
    mass, uniform = means.T
    found, above = (ratio(values, np.ones(len(values))) for values in (mass, mass - uniform))
    return [*found[:3], float(uniform.mean()), *above[:3], len(means), rows]


def group_rows(rows: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """All combinations of the values of some columns, and their rows, also where there are none.

    Raises:
        ValueError: a column is missing.
    """
    missing = [name for name in by if name not in rows]
    if isinstance(by, str) or missing:
        raise ValueError(f"by should be a list of columns out of {list(rows.columns)}; got {by!r}")
    for values in itertools.product(*(_levels(rows[name]) for name in by)):
        chosen = np.logical_and.reduce(
            [np.ones(len(rows), dtype=bool)]
            + [(rows[n] == v).to_numpy(bool) for n, v in zip(by, values, strict=True)]
        )
        yield dict(zip(by, values, strict=True)), rows[chosen]


def _levels(column: pd.Series) -> list[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(column.cat.categories)
    return [True, False] if column.dtype == bool else list(column.drop_duplicates())


def sample_rows(
    rows: pd.DataFrame, value: str = "rollout", *, as_published: bool = False
) -> list[np.ndarray]:
    """A run for `compare`: the values of every sample's rows.

    Args:
        rows: of `evaluate_rows`; rows without a value are left out.
        value: a column of masses.
        as_published: evaluated rows without a reference key count as 0, as in the original code.
    """
    if as_published:
        rows = rows[rows["evaluated"].astype(bool)].fillna({value: 0.0})
    kept = rows[rows[value].notna()]
    return [values.to_numpy(float) for _, values in kept.groupby("sample")[value]]
