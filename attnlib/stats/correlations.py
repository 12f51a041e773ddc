"""Spearman's rank correlation of two numbers of the same items, with a bootstrap interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

from attnlib.stats.intervals import DRAWS, NOTHING, Estimate, constant, interval

FEWEST = 5
"""The least number of items for a bootstrap interval."""


def rank_correlation(x: ArrayLike, y: ArrayLike, groups: Sequence[object] | None = None) -> Estimate:
    r"""Spearman's rank correlation, optionally within groups of items, with a 95 % bootstrap interval.

    $$\rho = \frac{\sum_i a_i b_i}{\sqrt{\sum_i a_i^2 \sum_i b_i^2}}$$

    with $a_i$ and $b_i$ the ranks of $x_i$ and $y_i$ in the group of item $i$, less the mean rank, divided by
    the group's size. So differences between groups have no effect. Equal values share their mean rank.

    Args:
        x: a number for each item.
        y: another number for each item.
        groups: the group of each item, to compare items within groups only; a group of one item is ignored.
            The bootstrap resamples items within their groups.

    Returns:
        rho (NaN if x or y is constant in every group), its interval (NaN for fewer than `FEWEST` items, or if
        all resamples have the same rho, as for equal orders), and the number of items in groups of 2 or more.
    """
    first, second = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    labels = np.zeros(len(first)) if groups is None else np.asarray([str(each) for each in groups])
    parts = [np.flatnonzero(labels == label) for label in dict.fromkeys(labels.tolist())]
    parts = [part for part in parts if len(part) > 1]
    n = sum(map(len, parts))
    if not n:
        return NOTHING
    rng = np.random.default_rng(0)
    drawn = [part[rng.integers(0, len(part), (DRAWS, len(part)))] for part in parts]
    (value,) = _correlations([part[None] for part in parts], first, second)
    draws = _correlations(drawn, first, second)
    if n < FEWEST or constant(draws[~np.isnan(draws)]):
        return Estimate(float(value), np.nan, np.nan, n)
    return Estimate(float(value), *interval(draws), n)


def _correlations(
    parts: Sequence[np.ndarray], x: Float[np.ndarray, " thing"], y: Float[np.ndarray, " thing"]
) -> Float[np.ndarray, " draw"]:
    """The correlation in every draw; `parts` has the indices drawn from each group, [draw item]."""
    sums = np.zeros((3, len(parts[0])))
    for part in parts:
        size = part.shape[1]
        a, b = ((stats.rankdata(each[part], axis=1) - (size + 1) / 2) / size for each in (x, y))
        sums += [(a * b).sum(1), (a * a).sum(1), (b * b).sum(1)]
    with np.errstate(invalid="ignore"):  # 0 / 0: NaN for a constant
        return sums[0] / np.sqrt(sums[1] * sums[2])
