r"""How far two scores of the same tokens agree, over rows and over training.

The agreement $A(x, y)$ is the mean over rows of a rank correlation, or of the top-5 % match: whether the
token with the largest x is among the top 5 % of y. $\hat A$ is the agreement with a shuffled y. $\xi$ is the
accuracy of models when their attention first agrees better with that of another seed than x does with y.

Source: Snell et al. 2021, *Approximating How Single Head Attention Learns*, section 3.
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Float, Integer
from numpy.typing import ArrayLike

from attnlib.checks import check, check_at_least
from attnlib.stats.intervals import SHARE, Estimate, check_confidence
from attnlib.stats.ragged import Ragged, numpy_of
from attnlib.stats.rank_measures import Rows, match_chance_rows, match_edges, per_row, rows_of
from attnlib.stats.resampling import resampled_means


def agreement(
    x: Rows,
    y: Rows,
    measure: str = "top match",
    fraction: float | int = 0.05,
    *,
    mask: ArrayLike | None = None,
    groups: Integer[np.ndarray, " row"] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    r"""The mean over rows of a measure of agreement, with the bootstrap over rows.

    $$A(x, y) = \frac{1}{|R|} \sum_{r \in R} m(x_r, y_r)$$

    with $R$ the rows that have a value and $m$ the measure: that of `top_match`, or a rank correlation.

    Args:
        x: one score per token, in rows, of one checkpoint; its largest token is looked up in y.
        y: the other score of the same tokens.
        measure: "top match", "kendall" or "spearman".
        fraction: see `top_match`.
        mask: for two padded rectangles, True where they are not padding.
        groups: the group of each row (such as the sentence of target tokens), resampled as a whole.
        confidence: confidence level of the interval.
        seed: seed of the resamples.

    Returns:
        The mean over the n rows that have a value. Rows without a value (no token; a NaN; for correlations
        also a constant score or a single token) are left out.

    Example:
        >>> agreement([[0.1, 0.9], [0.5, 0.4, 0.1]], [[0.0, 2.0], [-1.0, 1.0, 0.0]]).value
        0.5
    """
    rows = per_row(*rows_of(x, y, mask)[:2], measure, fraction)
    check(rows.ndim == 1, "scores must be of one checkpoint, .at(checkpoint)", rows.shape)
    check(groups is None or len(groups) == len(rows), f"groups must be {len(rows)}, one per row", groups)
    bounds = SHARE if measure == "top match" else (-1.0, 1.0)
    units = None if groups is None else len(np.unique(np.asarray(groups)[~np.isnan(rows)]))
    return resampled_means(rows[:, None], groups, seed).column(0).estimate(confidence, bounds, units)


def chance_agreement(
    x: Rows,
    y: Rows,
    measure: str = "top match",
    fraction: float | int = 0.05,
    *,
    mask: ArrayLike | None = None,
    shuffles: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    r"""The agreement by chance, $\hat A(x, y)$: the mean over shuffles of every row's y.

    Returns:
        The mean over n shuffles, with a normal interval from the standard error over shuffles. Its
        expectation is `expected_chance`.
    """
    means = shuffled_agreements(*rows_of(x, y, mask)[:2], measure, fraction, shuffles=shuffles, seed=seed)
    return over_shuffles(means, confidence)


def expected_chance(y: Ragged, measure: str, fraction: float | int = 0.05) -> np.ndarray:
    """The exact chance agreement of every row: `match_chance_rows`, or 0 for rank correlations."""
    if measure == "top match":
        return match_chance_rows(y, fraction)
    return np.zeros((*y.values.shape[:-1], len(y)))


def shuffled_agreements(
    x: Ragged,
    y: Ragged,
    measure: str = "top match",
    fraction: float | int = 0.05,
    *,
    shuffles: int,
    seed: int = 0,
) -> Float[np.ndarray, " shuffle"]:
    """The mean agreement over rows, for every shuffle of y.

    A top match depends on one number of the shuffled y, the one at the place where x is largest. All numbers
    of the row are equally probable there, so only that one is drawn; for rank correlations y is shuffled.
    """
    there = ~np.isnan(per_row(x, y, measure, fraction))
    check(there.any(), "a row must have a value", there)
    x, y = x.take(there), y.take(there)
    rng, row = np.random.default_rng(seed), np.repeat(np.arange(len(y)), y.lengths)
    if measure == "top match":
        drawn = y.starts + rng.integers(y.lengths, size=(shuffles, len(y)))
        return (y.values[drawn] >= match_edges(y, fraction)).mean(1)
    orders = (np.lexsort((rng.random(len(row)), row)) for _ in range(shuffles))
    return np.array([per_row(x, Ragged(y.values[order], y.lengths), measure).mean() for order in orders])


def over_shuffles(means: Float[np.ndarray, " shuffle"], confidence: float = 0.95) -> Estimate:
    """The mean over two or more shuffles, with the normal interval from its standard error."""
    check_at_least(2, shuffles=len(means))
    check_confidence(confidence)
    value, error = float(means.mean()), float(means.std(ddof=1)) / np.sqrt(len(means))
    low, high = scipy.stats.norm.interval(confidence, value, error) if error else (value, value)
    return Estimate(value, float(low), float(high), len(means))


def xi(agreements: ArrayLike, accuracies: ArrayLike, threshold: float | int) -> float | None:
    r"""The accuracy when attention first agrees better with that of another seed than x does with y.

    $$\xi = \mathrm{acc}(t_0), \qquad t_0 = \min\{t : A(\alpha, \alpha'_t) > A(x, y)\}$$

    with $\alpha$ the attention of one seed at its best checkpoint and $\alpha'_t$ that of other seeds at
    checkpoint $t$; agreement and accuracy are averages over these seeds.

    Args:
        agreements: $A(\alpha, \alpha'_t)$, `[checkpoint]`, or `[run checkpoint]` to be averaged.
        accuracies: the accuracies of the same runs at the same checkpoints.
        threshold: $A(x, y)$.

    Returns:
        The accuracy at the first checkpoint whose agreement is above the threshold, not equal to it; `None`
        if there is none: the seeds never agree better.
    """
    curve, accuracy = (np.atleast_2d(numpy_of(each).astype(float)) for each in (agreements, accuracies))
    fits = curve.shape == accuracy.shape and curve.size and not np.isnan(curve + accuracy).any()
    check(fits, "agreements and accuracies must be numbers of the same checkpoints", (agreements, accuracies))
    found = xi_of_draws(curve.mean(0, keepdims=True), accuracy.mean(0, keepdims=True), np.array([threshold]))
    return None if np.isinf(found[0]) else float(found[0])


def xi_of_draws(
    curves: Float[np.ndarray, "draw checkpoint"],
    accuracies: Float[np.ndarray, "draw checkpoint"],
    thresholds: Float[np.ndarray, " draw"] | Integer[np.ndarray, " draw"],
) -> Float[np.ndarray, " draw"]:
    """`xi` for every resample; infinite, beyond any accuracy, where the seeds never agree better."""
    passed = curves > thresholds[:, None] + 1e-12  # equal up to rounding is not better
    first = passed.argmax(1)
    return np.where(passed.any(1), np.take_along_axis(accuracies, first[:, None], axis=1)[:, 0], np.inf)
