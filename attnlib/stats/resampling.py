"""The bootstrap, for many means of the same rows at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

from attnlib.checks import check
from attnlib.stats.intervals import Estimate, constant, interval, of_equals, redrawn


class Statistic(NamedTuple):
    """A number, its values in bootstrap resamples of rows, and the number of rows."""

    value: float
    draws: Float[np.ndarray, " draw"]
    n: int

    def estimate(
        self,
        confidence: float = 0.95,
        bounds: tuple[float, float] | None = None,
        units: int | None = None,
    ) -> Estimate:
        """The number with its percentile interval; with `bounds`, `of_equals` where all draws are equal.

        `units` is the number of groups of rows, if groups were resampled; by default rows were.
        """
        if bounds and constant(self.draws[~np.isnan(self.draws)]):  # a draw may miss all rows with a value
            return of_equals(self.value, units or self.n, confidence, bounds)._replace(n=self.n)
        return Estimate(self.value, *interval(self.draws, confidence), self.n)


class Means(NamedTuple):
    """Means over the `n` rows that have a value, and over resamples of rows that all columns share."""

    value: Float[np.ndarray, " column"]
    draws: Float[np.ndarray, "draw column"]
    n: Integer[np.ndarray, " column"]

    def column(self, number: int) -> Statistic:
        """The statistic of one column."""
        return Statistic(float(self.value[number]), self.draws[:, number], int(self.n[number]))


def resampled_means(
    values: Float[np.ndarray, "row column"],
    groups: Integer[np.ndarray, " row"] | None = None,
    seed: int = 0,
) -> Means:
    """Means of the numbers of columns that are not NaN, bootstrapped over rows or whole `groups` of rows."""
    there = ~np.isnan(values)
    n = there.sum(0)
    check(len(values) and n.all(), "every mean must have a row with a value (constant scores have none)", n)
    sums = np.where(there, values, 0.0).astype(np.float64)
    counts = there.astype(np.float64)
    if groups is not None:
        _, number = np.unique(groups, return_inverse=True)
        sums, counts = (_by_group(each, number) for each in (sums, counts))
    with np.errstate(invalid="ignore"):  # a draw may miss every row that has a value
        draws = [(times @ sums) / (times @ counts) for times in redrawn(len(sums), seed)]
    return Means(sums.sum(0) / counts.sum(0), np.concatenate(draws), n)


def _by_group(values: Float[np.ndarray, "row column"], number: np.ndarray) -> np.ndarray:
    summed = np.zeros((number.max() + 1, values.shape[1]))
    np.add.at(summed, number, values)
    return summed
