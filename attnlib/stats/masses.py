"""Mean reference mass in groups of rows, with intervals, beside the chance level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attnlib.checks import check, check_one_of
from attnlib.stats.summaries import check_columns, check_groups, summarise, truths

ROLLOUT, MEAN = "rollout", "mean attention"
"""The columns of reference masses."""

UNIFORM = {ROLLOUT: "uniform rollout", MEAN: "uniform attention"}
"""For each column of masses, the column with its chance level: the mass of uniform causal attention."""

_COLUMNS = ["value", "low", "high", "uniform", "above", "above_low", "above_high", "n", "rows"]


def mass_table(
    rows: pd.DataFrame, by: Sequence[str] = (), measures: Sequence[str] | None = None
) -> pd.DataFrame:
    """Mean reference mass in groups of rows; rows are first averaged within each sample.

    Args:
        rows: of `evaluate_rows`, with further columns to split by if wanted (`rows.assign(split="OOD")`).
            Rows without a reference key (`referenced` is false) are left out.
        by: columns to split by, such as `["correct"]` or `["task", "split"]`. All combinations of their
            values (both truth values; all categories) get a row, also those without data.
        measures: columns of masses; by default all that `rows` has.

    Returns:
        Columns `by`, `measure`, `value`, `low`, `high` (bootstrap over samples), `uniform` (what uniform
        causal attention scores on the same rows), `above`, `above_low`, `above_high` (the difference from
        `uniform`, within samples), `n` (samples) and `rows`. With fewer than 2 samples, numbers are
        "not enough data".
    """
    if measures is None:
        measures = [str(name) for name in rows if name in UNIFORM]
    for each in measures:
        check_one_of(UNIFORM, measure=each)
    check(measures, f"rows must have one of the columns {[*UNIFORM]}", list(rows))
    check_columns(rows, by, *measures, *(UNIFORM[each] for each in measures))
    tables = []
    for measure in measures:
        uniform = UNIFORM[measure]
        found = summarise(rows, by, measure, "sample", beside=[uniform], every=True, at_least=2)
        above = rows[["sample", *by]].assign(above=rows[measure] - rows[uniform])
        higher = summarise(above, by, "above", "sample", every=True, at_least=2, bounds=(-1.0, 1.0))
        numbers = {"above": higher["value"], "above_low": higher["low"], "above_high": higher["high"]}
        tables.append(found.rename(columns={uniform: "uniform"}).assign(measure=measure, **numbers))
    table = pd.concat(tables)[[*by, "measure", *_COLUMNS]]
    return table.sort_index(kind="stable").reset_index(drop=True)  # group by group


def sample_rows(
    rows: pd.DataFrame, value: str = "rollout", *, as_published: bool = False
) -> list[np.ndarray]:
    """The values of every sample's rows, in the form that `compare` takes.

    Args:
        rows: of `evaluate_rows`; rows without a value are left out.
        value: a column of masses.
        as_published: evaluated rows without a reference key count as 0, as in the original code.
    """
    if as_published:
        rows = rows[truths(rows, "evaluated")].fillna({value: 0.0})
    kept = rows[rows[value].notna()]
    check_groups(kept, "sample")
    return [values.to_numpy(float) for _, values in kept.groupby("sample")[value]]
