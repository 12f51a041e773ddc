r"""Whether a score ranks the right tokens first: hit at k and average precision, with exact chance levels.

An item has $n$ candidates, $R$ of which are right (its truth), and a score per candidate. Sorted from the
largest score, with $R_p$ the right ones among the first $p$,

    hit at k             1 if R_k > 0, else 0
    average precision    (1 / R) sum over right tokens, at places p, of R_p / p

**Ties** are broken at random: a measure is its mean over all orders of equal scores, in closed form, so that
a constant score is at chance level. Scores are first rounded to multiples of `ROUNDING` of the largest, so
that rounding errors break few ties.

**NaN** means no score: such tokens are sorted last, and right tokens among them are never found.

References:
    McSherry and Najork 2008, *Computing information retrieval performance measures efficiently in the
    presence of tied scores*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int

from attnlib.checks import check, check_count
from attnlib.stats.intervals import ROUNDING
from attnlib.stats.ragged import numpy_of

Scores = Float[np.ndarray, "item token"]
Mask = Bool[np.ndarray, "item token"]
Numbers = Float[np.ndarray, " item"]


class _Sorted(NamedTuple):
    """Tokens sorted from the largest score to the smallest; tokens without a score come last.

    Attributes:
        start: number of tokens with a larger score; `right_before` of them are right.
        size: number of tokens with the same score; `right_within` of them are right.
    """

    start: Int[np.ndarray, "item token"]
    size: Int[np.ndarray, "item token"]
    right_before: Int[np.ndarray, "item token"]
    right_within: Int[np.ndarray, "item token"]


def hit_at_k(scores: Scores, truth: Mask, candidates: Mask, k: int) -> Numbers:
    r"""The probability that a right token is among the first `k`, over all orders of equal scores.

    With $a$ candidates above the score at place $k$ and $g$ of that score, $m$ of them right:

    $$1 \;\text{if a right one is above, else}\; 1 - \binom{g - m}{k - a} \Big/ \binom{g}{k - a}$$

    NaN where no token is right. If there are fewer than `k` candidates, all of them count.
    """
    check_count(k=k)
    found = _sorted(scores, truth, candidates)
    rows, last = np.arange(len(scores)), np.minimum(k, candidates.sum(1)) - 1
    start, size, before, within = (each[rows, np.maximum(last, 0)] for each in found)
    missed = _drawn_without(size, within, last + 1 - start)
    return _where_defined(np.where(before > 0, 1.0, 1 - missed), truth)


def average_precision(scores: Scores, truth: Mask, candidates: Mask) -> Numbers:
    """The mean average precision over all orders of equal scores; NaN where no token is right.

    Let $g$ tokens, $m$ of them right, have the same score, and $s$ tokens, $b$ of them right, a larger one.
    The token at place $s + i$ is right with probability $m / g$. If it is, the expected number of right ones
    up to it is $b + 1 + (i - 1) (m - 1) / (g - 1)$.
    """
    found = _sorted(scores, truth, candidates)
    place = np.arange(1, scores.shape[1] + 1)
    behind = place - found.start - 1
    up_to = found.right_before + 1 + behind * (found.right_within - 1) / np.maximum(found.size - 1, 1)
    parts = found.right_within / found.size * up_to / place
    return _where_defined(parts.sum(1) / np.maximum(truth.sum(1), 1), truth)


def hit_at_k_by_chance(truth: Mask, candidates: Mask, k: int) -> Numbers:
    r"""`hit_at_k` of a random order: $1 - \binom{n - R}{k} / \binom{n}{k}$."""
    check_count(k=k)
    n, right = candidates.sum(1), truth.sum(1)
    return _where_defined(1 - _drawn_without(n, right, np.minimum(k, n)), truth)


def average_precision_by_chance(truth: Mask, candidates: Mask) -> Numbers:
    r"""The mean of `average_precision` over all orders.

    $$\frac{1}{n} \Big( H_n + \frac{R - 1}{n - 1} (n - H_n) \Big), \qquad H_n = \sum_{i \le n} 1 / i$$
    """
    n, right = candidates.sum(1), truth.sum(1)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1.0, candidates.shape[1] + 1))])[n]
    more = (right - 1) / np.maximum(n - 1, 1) * (n - harmonic)
    return _where_defined((harmonic + more) / np.maximum(n, 1), truth)


def comparable(scores: Scores, candidates: Mask) -> Scores:
    """Scores of candidates as whole multiples of `ROUNDING` of the largest, against rounding errors."""
    values = np.where(candidates, numpy_of(scores), np.nan).astype(np.float64)
    largest = np.where(np.isfinite(values), np.abs(values), 0.0).max(1, keepdims=True, initial=0.0)
    return np.round(values / np.where(largest > 0, largest * ROUNDING, 1.0))


def _sorted(scores: Scores, truth: Mask, candidates: Mask) -> _Sorted:
    check(not (outside := truth & ~candidates).any(), "truth must be candidates only", int(outside.sum()))
    values = comparable(scores, candidates)
    order = np.argsort(-values, axis=1, kind="stable")  # NaN last
    values, right = (np.take_along_axis(each, order, 1) for each in (values, truth & ~np.isnan(values)))
    place, n = np.arange(values.shape[1]), values.shape[1]
    new = np.ones(values.shape, dtype=bool)
    new[:, 1:] = values[:, 1:] != values[:, :-1]
    start = np.maximum.accumulate(np.where(new, place, 0), axis=1)
    following = np.concatenate([np.where(new, place, n)[:, 1:], np.full((len(new), 1), n)], axis=1)
    end = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
    so_far = np.concatenate([np.zeros((len(right), 1), dtype=np.int64), right.cumsum(1)], axis=1)
    before, up_to = (np.take_along_axis(so_far, each, 1) for each in (start, end))
    return _Sorted(start, end - start, before, up_to - before)


def _drawn_without(n: np.ndarray, right: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The probability that none of `right` tokens is among `drawn` tokens drawn from `n`."""
    with np.errstate(invalid="ignore"):
        a, b, c, d = (scipy.special.gammaln(m + 1) for m in (n - right, n - right - drawn, n, n - drawn))
        log = a - b - c + d
        return np.where(n - right >= drawn, np.exp(log), 0.0)


def _where_defined(numbers: np.ndarray, truth: Mask) -> Numbers:
    return np.where(truth.any(1), numbers, np.nan)
