"""Summaries as the code of Spiegel et al. 2025, *Attend or Perish*, makes them, to be shown beside ours.

Rows count as independent throughout, and intervals may leave [0, 1]. The other published figures are options:
`reference_mass(..., as_published=True)`, `compare(..., as_published=True)`, and likewise `compare_rows` and
`sample_rows`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from attnlib.stats.significance import rows_of


class RowSummary(NamedTuple):
    r"""Mean of rows, with the interval $\bar m \pm 1.96 \sqrt{s^2 / n}$; `None` where rows are too few.

    Attributes:
        mean: over the rows of all samples together.
        variance: of the rows, dividing by n - 1.
        low: lower end of the interval.
        high: upper end.
        n: rows.
    """

    mean: float | None
    variance: float | None
    low: float | None
    high: float | None
    n: int


class Consistency(NamedTuple):
    """How much samples differ; `None` where there is none.

    Attributes:
        sample_means: of the samples that have rows.
        mean: of those.
        deviation: their standard deviation, dividing by n - 1; 0 for fewer than two.
        lowest: of the means.
        highest: of the means.
    """

    sample_means: list[float]
    mean: float | None
    deviation: float
    lowest: float | None
    highest: float | None


class ErrorPositions(NamedTuple):
    """Where errors are, without intervals; `None` where there is none.

    Attributes:
        accuracy: right tokens of all, in percent.
        mean: position of wrong tokens in their answers, from 0.
        variance: of those positions, dividing by n.
    """

    accuracy: float | None
    mean: float | None
    variance: float | None


def published_summary(run: Any) -> RowSummary:
    """Mean and interval of all rows of a run, as if rows were independent.

    Args:
        run: as in `compare`.

    Raises:
        ValueError: it is not of that form.
    """
    rows = np.concatenate([np.empty(0), *rows_of(run, "run")])
    n = len(rows)
    if n < 2:
        return RowSummary(float(rows[0]) if n else None, None, None, None, n)
    mean, variance = float(rows.mean()), float(rows.var(ddof=1))
    reach = 1.96 * np.sqrt(variance / n)
    return RowSummary(mean, variance, float(mean - reach), float(mean + reach), n)


def sample_consistency(run: Any) -> Consistency:
    """Means of the samples of a run, and how far apart they are.

    Args:
        run: as in `compare`.

    Raises:
        ValueError: it is not of that form.
    """
    means = [float(rows.mean()) for rows in rows_of(run, "run") if len(rows)]
    if not means:
        return Consistency([], None, 0.0, None, None)
    deviation = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
    return Consistency(means, float(np.mean(means)), deviation, min(means), max(means))


def published_error_positions(rows: pd.DataFrame) -> ErrorPositions:
    """Accuracy per token, and mean and variance of the place of errors.

    Args:
        rows: of `evaluate_rows` or `generate_answers`.
    """
    if rows.empty:
        return ErrorPositions(None, None, None)
    right = rows["correct"].astype(bool)
    accuracy, places = 100 * float(right.mean()), rows.loc[~right, "position"].to_numpy(float)
    if not len(places):
        return ErrorPositions(accuracy, None, None)
    return ErrorPositions(accuracy, float(places.mean()), float(places.var()))
