"""The bootstrap, for many means of the same rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

from attnlib.stats.intervals import Estimate

DRAWS = 2000
"""How often rows are drawn again."""


class Statistic(NamedTuple):
    """A number, what it is when rows are drawn again, and how many rows it is from."""

    value: float
    draws: Float[np.ndarray, " draw"]
    n: int

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """The number with its percentile interval."""
        return Estimate(self.value, *interval(self.draws, confidence), self.n)


class Means(NamedTuple):
    """Means over rows, and what they are when the rows are drawn again.

    Attributes:
        value: the mean of each column.
        draws: the same, of every resample; all columns of a draw have the same rows.
        n: rows that have a value.
    """

    value: Float[np.ndarray, " column"]
    draws: Float[np.ndarray, "draw column"]
    n: Integer[np.ndarray, " column"]

    def column(self, number: int) -> Statistic:
        """One of them."""
        return Statistic(float(self.value[number]), self.draws[:, number], int(self.n[number]))


def resampled_means(
    values: Float[np.ndarray, "row column"],
    groups: Integer[np.ndarray, " row"] | None = None,
    seed: int = 0,
) -> Means:
    r"""Means of columns that share their rows, with the bootstrap over rows.

    $$\bar v = \frac{\sum_r v_r}{\#\{r : v_r \text{ is a number}\}}$$

    Args:
        values: NaN where a row has no value in a column: it is left out of that column's mean.
        groups: what each row belongs to; groups are drawn again whole. By default each row is its own.
        seed: of the resamples: the same seed draws the same rows, whatever the columns.

    Raises:
        ValueError: a column has no value at all.
    """
    there = ~np.isnan(values)
    n = there.sum(0)
    if not len(values) or not n.all():
        raise ValueError(
            f"every mean needs a row with a value; none is left in {int((n == 0).sum())} of {len(n)} columns "
            f"of {len(values)} rows. Correlations have no value where a score is constant or NaN, or a row "
            "has fewer than two tokens"
        )
    sums = np.where(there, values, 0.0).astype(np.float64)
    counts = there.astype(np.float64)
    if groups is not None:
        _, number = np.unique(groups, return_inverse=True)
        sums, counts = (_by_group(each, number) for each in (sums, counts))
    rng = np.random.default_rng(seed)
    draws = np.empty((DRAWS, values.shape[1]))
    size = max(1, 4_000_000 // len(sums))
    for start in range(0, DRAWS, size):  # a block of draws at a time: all at once need not fit in memory
        block = draws[start : start + size]
        times = _times(rng, len(block), len(sums))
        with np.errstate(invalid="ignore"):  # a draw may miss every row that has a value
            block[:] = (times @ sums) / (times @ counts)
    return Means(sums.sum(0) / counts.sum(0), draws, n)


def interval(draws: Float[np.ndarray, " draw"], confidence: float = 0.95) -> tuple[float, float]:
    """The middle share of the draws; draws without a value do not count, infinite ones do."""
    tail = 50 * (1 - confidence)
    # of whole draws, not between two of them, because the mean of a number and infinity is of no use
    low, high = np.percentile(draws[~np.isnan(draws)], [tail, 100 - tail], method="inverted_cdf")
    return float(low), float(high)


def across(estimates: Sequence[Float[np.ndarray, " draw"]], seed: int = 0) -> Float[np.ndarray, "draw drawn"]:
    """Draws of several runs mixed: for every draw, as many runs as there are, drawn again with their rows."""
    runs = np.stack(estimates, axis=1)
    n_draws, n = runs.shape
    chosen = np.random.default_rng([seed, n]).integers(n, size=(n_draws, n))
    return np.take_along_axis(runs, chosen, axis=1)


def _times(rng: np.random.Generator, draws: int, n: int) -> Float[np.ndarray, "draw group"]:
    """How often each group is in each draw of n groups."""
    drawn = rng.integers(n, size=(draws, n)) + n * np.arange(draws)[:, None]
    return np.bincount(drawn.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float64)


def _by_group(values: Float[np.ndarray, "row column"], number: np.ndarray) -> np.ndarray:
    summed = np.zeros((number.max() + 1, values.shape[1]))
    np.add.at(summed, number, values)
    return summed
