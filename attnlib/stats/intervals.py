"""Intervals that say how much a number could have been another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


class Estimate(NamedTuple):
    """A number, its interval, and how many independent things it comes from."""

    value: float
    low: float
    high: float
    n: int


def proportion(successes: int, n: int, confidence: float = 0.95) -> Estimate:
    """A share of independent yes-or-no outcomes, with Wilson's interval, which holds near 0 and 1 too.

    Raises:
        ValueError: if there are no outcomes, or more successes than outcomes.
    """
    test = stats.binomtest(successes, n)
    low, high = test.proportion_ci(confidence, method="wilson")
    return Estimate(successes / n, float(low), float(high), n)


def ratio(parts: ArrayLike, wholes: ArrayLike, confidence: float = 0.95, seed: int = 0) -> Estimate:
    r"""A ratio of sums $\sum_i p_i / \sum_i w_i$ over independent samples, with a bootstrap interval.

    Use it for an accuracy per token: the tokens of one sequence stand or fall together, so the sequences are
    drawn again, not the tokens.

    Args:
        parts: p, for instance right tokens of each sequence.
        wholes: w, for instance tokens of each sequence.
        confidence: of the interval.
        seed: of the 2,000 resamples.

    Raises:
        ValueError: if the arrays differ in length, or are empty.
    """
    p, w = np.asarray(parts, dtype=float), np.asarray(wholes, dtype=float)
    if p.shape != w.shape or p.ndim != 1 or not len(p):
        raise ValueError(
            f"parts and wholes should be two lists of one length above 0; got {p.shape}, {w.shape}"
        )
    draws = np.random.default_rng(seed).multinomial(len(p), np.full(len(p), 1 / len(p)), size=2000)
    tail = 50 * (1 - confidence)
    low, high = np.percentile((draws @ p) / (draws @ w), [tail, 100 - tail])
    return Estimate(float(p.sum() / w.sum()), float(low), float(high), len(p))
