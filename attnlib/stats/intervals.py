"""Intervals that say how much a number could have been another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int64
from numpy.typing import ArrayLike
from scipy import stats

DRAWS = 2000
"""How often independent things are drawn again."""

_CELLS = 2_000_000  # of a block of draws: all at once need not fit in memory


class Estimate(NamedTuple):
    """A number, its interval, and how many independent things it comes from."""

    value: float
    low: float
    high: float
    n: int


def proportion(
    successes: int, n: int, confidence: float = 0.95, method: Literal["wilson", "exact"] = "wilson"
) -> Estimate:
    """A share of independent yes-or-no outcomes, with an interval that holds near 0 and 1 too.

    Args:
        successes: how many were "yes".
        n: outcomes.
        confidence: of the interval.
        method: Wilson's interval, which covers the truth this often on average; or Clopper and Pearson's
            "exact" one, which never does so less often, and is wider: for few outcomes.

    Raises:
        ValueError: if there are no outcomes, or more successes than outcomes.
    """
    test = stats.binomtest(successes, n)
    low, high = test.proportion_ci(confidence, method=method)
    return Estimate(successes / n, float(low), float(high), n)


def ratio(parts: ArrayLike, wholes: ArrayLike, confidence: float = 0.95, seed: int = 0) -> Estimate:
    r"""A ratio of sums $\sum_i p_i / \sum_i w_i$ over independent samples, with a bootstrap interval.

    Use it for an accuracy per token: the tokens of one sequence stand or fall together, so the sequences are
    drawn again, not the tokens.

    Args:
        parts: p, for instance right tokens of each sequence.
        wholes: w, for instance tokens of each sequence.
        confidence: of the interval.
        seed: of the resamples.

    Raises:
        ValueError: if the arrays differ in length, or are empty.
    """
    p, w = np.asarray(parts, dtype=float), np.asarray(wholes, dtype=float)
    if p.shape != w.shape or p.ndim != 1 or not len(p):
        raise ValueError(
            f"parts and wholes should be two lists of one length above 0; got {p.shape}, {w.shape}"
        )
    draws = np.concatenate([(times @ p) / (times @ w) for times in redrawn(len(p), seed)])
    return Estimate(float(p.sum() / w.sum()), *interval(draws, confidence), len(p))


def redrawn(n: int, seed: int = 0) -> Iterator[Int64[np.ndarray, "draw n"]]:
    """The bootstrap: how often each of n things is in each of the draws of n, a block of draws at a time.

    The same seed draws the same, whatever it is drawn for.
    """
    rng, chances, size = np.random.default_rng(seed), np.full(n, 1 / n), max(1, _CELLS // n)
    for start in range(0, DRAWS, size):
        yield rng.multinomial(n, chances, size=min(size, DRAWS - start))


def interval(draws: Float[np.ndarray, " draw"], confidence: float = 0.95) -> tuple[float, float]:
    """The middle share of the draws; draws without a value do not count, infinite ones do."""
    there, tail = draws[~np.isnan(draws)], 50 * (1 - confidence)
    # between two draws, unless one may be infinite: the mean of a number and infinity is of no use
    how: Literal["linear", "inverted_cdf"] = "linear" if np.isfinite(there).all() else "inverted_cdf"
    low, high = np.percentile(there, [tail, 100 - tail], method=how)
    return float(low), float(high)
