"""Do two numbers of the same things go together? Spearman's correlation of them, with an interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

from attnlib.stats.intervals import DRAWS, NOTHING, Estimate, constant, interval

FEWEST = 5
"""Of fewer things, drawing again says nothing: there is no interval."""


def rank_correlation(x: ArrayLike, y: ArrayLike, groups: Sequence[object] | None = None) -> Estimate:
    r"""Spearman's rank correlation of things, also within groups of them, with a 95 % bootstrap interval.

    $$\rho = \frac{\sum_i a_i b_i}{\sqrt{\sum_i a_i^2 \sum_i b_i^2}}$$

    with $a_i$ and $b_i$ the ranks of $x_i$ and $y_i$ in the group of thing $i$, less their mean there, over
    the group's size: what groups differ by as a whole does not count. Equal values share their mean rank.

    Args:
        x: a number of each thing.
        y: another.
        groups: of each thing, if they are only compared within groups; one of a single thing says nothing.
            Things are drawn again, with replacement, within their groups.

    Returns:
        rho, its interval (NaN of fewer than `FEWEST` things, and where all draws agree, as of two orders that
        are one), and how many things there are in groups of 2 or more. NaN where a number never changes.
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
    """The correlation in every draw; `parts` are the things drawn of each group, [draw thing]."""
    sums = np.zeros((3, len(parts[0])))
    for part in parts:
        size = part.shape[1]
        a, b = ((stats.rankdata(each[part], axis=1) - (size + 1) / 2) / size for each in (x, y))
        sums += [(a * b).sum(1), (a * a).sum(1), (b * b).sum(1)]
    with np.errstate(invalid="ignore"):  # 0 / 0 of a constant is its NaN
        return sums[0] / np.sqrt(sums[1] * sums[2])
