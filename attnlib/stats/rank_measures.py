"""Rank agreement of two scores of the same tokens: one number per row.

Every function takes the two scores as a pair of vectors, as two lists of vectors, as two padded rectangles
with a mask, or as `Ragged` rows, which may come for several checkpoints at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy
from jaxtyping import Bool, Float, Integer
from numpy.typing import ArrayLike

from attnlib.checks import check, check_one_of
from attnlib.stats.ragged import Ragged, by_width

Rows = Ragged | ArrayLike | Sequence[ArrayLike]

PAIRWISE = 512
"""For rows up to this length, Kendall's tau compares all pairs of tokens at once; scipy does longer rows."""

_CELLS = 2_000_000  # numbers in a block's work arrays, which should stay in the processor's cache


def top_match(
    alpha: Rows, beta: Rows, fraction: float | int = 0.05, mask: ArrayLike | None = None
) -> int | Float[np.ndarray, "*checkpoint row"]:
    r"""Whether the token with the largest alpha is among the top 5 % of beta.

    $$m = \left[\, \#\{i : \beta_i > \beta_{i^*}\} < \lceil f n \rceil \,\right], \qquad
    i^* = \arg\max_i \alpha_i$$

    with $n$ the row's length and $f$ the fraction. Not symmetric. Of equal alphas the first counts, so that
    uniform attention picks the row's first token. Ties in beta favour a match; a constant beta and a row of
    one token always match. $\lceil f n \rceil$ is computed from the exact product: 7 % of 100 is 7, although
    0.07 * 100 is a little more in floating point.

    Args:
        alpha: the score whose largest token is looked up.
        beta: the score it is looked up in.
        fraction: f, above 0 and at most 1.
        mask: where two padded rectangles are not padding.

    Returns:
        0 or 1 for one pair of vectors; otherwise a number for every row: 0.0, 1.0, or NaN where the row has
        no token or holds a NaN.

    Source:
        Snell et al. 2021, *Approximating How Single Head Attention Learns*, section 3. Their float product
        differs for 7 % of most multiples of 100 tokens, and nowhere for 5 %.

    Example:
        >>> top_match([0.1, 0.8, 0.1], [-1.0, 2.0, 0.5])
        1
    """
    x, y, single = rows_of(alpha, beta, mask)
    matches = match_rows(x, y, fraction)
    if not single:
        return matches
    check(not np.isnan(matches[0]), "a pair must have at least one token, and no NaN", (alpha, beta))
    return int(matches[0])


def kendall_tau(
    alpha: Rows, beta: Rows, mask: ArrayLike | None = None
) -> float | Float[np.ndarray, "*checkpoint row"]:
    r"""Kendall's rank correlation, tau-b.

    $$\tau_b = \frac{C - D}{\sqrt{(N - T_\alpha)(N - T_\beta)}}$$

    with $C$ and $D$ the concordant and discordant pairs of tokens, $N$ all pairs, and $T$ those that are tied
    in one score.

    Args:
        alpha: one score.
        beta: the other.
        mask: where two padded rectangles are not padding.

    Returns:
        A number for one pair of vectors, else one per row: NaN where a score is constant, the row has fewer
        than two tokens, or holds a NaN.
    """
    x, y, single = rows_of(alpha, beta, mask)
    taus = kendall_rows(x, y)
    return float(taus[0]) if single else taus


def spearman(
    alpha: Rows, beta: Rows, mask: ArrayLike | None = None
) -> float | Float[np.ndarray, "*checkpoint row"]:
    """Spearman's rank correlation: Pearson's of the ranks, equal values sharing their average rank.

    Arguments, NaN and errors as in `kendall_tau`.
    """
    x, y, single = rows_of(alpha, beta, mask)
    correlations = spearman_rows(x, y)
    return float(correlations[0]) if single else correlations


def per_row(
    x: Ragged, y: Ragged, measure: str = "top match", fraction: float | int = 0.05
) -> Float[np.ndarray, "*checkpoint row"]:
    """The measure of this name ("top match", "kendall" or "spearman"), for every row."""
    measures: dict[str, Callable[[Ragged, Ragged], np.ndarray]] = {
        "top match": lambda x, y: match_rows(x, y, fraction),
        "kendall": kendall_rows,
        "spearman": spearman_rows,
    }
    check_one_of(measures, measure=measure)
    return measures[measure](x, y)


def match_rows(x: Ragged, y: Ragged, fraction: float | int = 0.05) -> Float[np.ndarray, "*checkpoint row"]:
    """`top_match` of ragged rows; either may come for one checkpoint and the other for several."""
    k = places(x.lengths, fraction)
    full = x.lengths > 0
    matches = np.full((*np.broadcast_shapes(x.values.shape[:-1], y.values.shape[:-1]), len(x)), np.nan)
    if not full.any():
        return matches
    starts, lengths = x.starts[full], x.lengths[full]
    dims = max(x.values.ndim, y.values.ndim)
    xs, ys = (each.values.reshape((1,) * (dims - each.values.ndim) + each.values.shape) for each in (x, y))
    first = first_largest(Ragged(xs, lengths))
    broken = (x.nan_rows | y.nan_rows)[..., full]
    value = np.take_along_axis(ys, np.minimum(first, xs.shape[-1] - 1), axis=-1)
    above = np.add.reduceat(ys > np.repeat(value, lengths, axis=-1), starts, axis=-1, dtype=np.int32)
    matches[..., full] = np.where(broken, np.nan, above < k[full])
    return matches


def match_edges(y: Ragged, fraction: float | int = 0.05) -> Float[np.ndarray, "*checkpoint row"]:
    """The smallest value of each row that is still a top match: its k-th largest. NaN as in `top_match`."""
    edges = np.full((*y.values.shape[:-1], len(y)), np.nan)
    for rows, ordered, place in _ordered(y, fraction):
        edges[..., rows] = np.take_along_axis(ordered, place, axis=-1)[..., 0]
    edges[y.nan_rows] = np.nan
    return edges


def match_chance_rows(y: Ragged, fraction: float | int = 0.05) -> Float[np.ndarray, "*checkpoint row"]:
    """The probability of a top match with a shuffled y: the share of y's values that would match.

    Without ties that is k / n; ties at the edge add to it. NaN as in `top_match`.
    """
    chances = np.full((*y.values.shape[:-1], len(y)), np.nan)
    for rows, ordered, place in _ordered(y, fraction):
        edge = np.take_along_axis(ordered, place, axis=-1)
        lengths = y.lengths[rows]
        matching = np.broadcast_to(lengths - place[..., 0], ordered.shape[:-1]).copy()  # k
        below = np.take_along_axis(ordered, np.maximum(place - 1, 0), axis=-1)
        tied = ((below == edge) & (place > 0))[..., 0]
        matching[tied] = (ordered[tied] >= edge[tied]).sum(-1)
        chances[..., rows] = matching / lengths
    chances[y.nan_rows] = np.nan
    return chances


def first_largest(score: Ragged) -> Integer[np.ndarray, "*checkpoint row"]:
    """The index in `values` of each row's largest value, the first of equals; no row may be empty."""
    largest = np.repeat(np.maximum.reduceat(score.values, score.starts, axis=-1), score.lengths, axis=-1)
    n = score.values.shape[-1]
    return np.minimum.reduceat(np.where(score.values == largest, np.arange(n), n), score.starts, axis=-1)


def _ordered(y: Ragged, fraction: float | int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Blocks of rows: row indices, sorted values (NaN last), and the place of the k-th largest value."""
    k = places(y.lengths, fraction)
    for rows, width in by_width(y.lengths, _CELLS, multiple=8):
        ordered = np.sort(y.padded(rows, width), axis=-1)
        place = (y.lengths[rows] - k[rows])[:, None]
        yield rows, ordered, np.broadcast_to(place, (*ordered.shape[:-1], 1))


def places(lengths: Integer[np.ndarray, " row"], fraction: float | int) -> Integer[np.ndarray, " row"]:
    """The number of tokens in the top fraction of each row, rounded up; 0 only for an empty row."""
    check(0 < fraction <= 1, "fraction must be above 0 and at most 1 (0.05 is the top 5 %)", fraction)
    return np.maximum(np.ceil(np.round(fraction * lengths, 9)).astype(np.int64), lengths > 0)


def kendall_rows(x: Ragged, y: Ragged) -> Float[np.ndarray, "*checkpoint row"]:
    """`kendall_tau` of ragged rows; x comes for one checkpoint, y for one or several."""
    x, y = _one_against_many(x, y)
    taus = np.full((*y.values.shape[:-1], len(x)), np.nan)
    short = np.minimum(x.lengths, PAIRWISE + 1)
    for rows, width in by_width(short, _CELLS, power=2, multiple=8):
        if width <= PAIRWISE:
            taus[..., rows] = _pairwise_tau(x.padded(rows, width), y.padded(rows, width))
    for row in np.flatnonzero(x.lengths > PAIRWISE).tolist():
        part = slice(x.starts[row], x.starts[row] + x.lengths[row])
        for checkpoint in np.ndindex(y.values.shape[:-1]):
            found = scipy.stats.kendalltau(x.values[part], y.values[(*checkpoint, part)], method="asymptotic")
            taus[(*checkpoint, row)] = found.statistic
    taus[..., x.nan_rows] = np.nan
    taus[y.nan_rows] = np.nan
    return taus


def spearman_rows(x: Ragged, y: Ragged) -> Float[np.ndarray, "*checkpoint row"]:
    """`spearman` of ragged rows; x comes for one checkpoint, y for one or several."""
    x, y = _one_against_many(x, y)
    correlations = np.full((*y.values.shape[:-1], len(x)), np.nan)
    for rows, width in by_width(x.lengths, _CELLS):
        a, b = (scipy.stats.rankdata(each.padded(rows, width), axis=-1) for each in (x, y))
        a, b = (each - (width + 1) / 2 for each in (a, b))
        with np.errstate(invalid="ignore"):  # 0 / 0: NaN for a constant row
            correlations[..., rows] = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    correlations[..., x.nan_rows] = np.nan
    correlations[y.nan_rows] = np.nan
    return correlations


def _pairwise_tau(
    x: Float[np.ndarray, "row width"], y: Float[np.ndarray, "*checkpoint row width"]
) -> Float[np.ndarray, "*checkpoint row"]:
    """Tau-b by comparing all pairs; the width is a multiple of 8, with NaN (never larger) as padding."""
    above = _above(x)
    untied, n = _count(above), (~np.isnan(x)).sum(-1)
    taus = np.empty(y.shape[:-1])
    for checkpoint in np.ndindex(y.shape[:-2]):
        ys = y[checkpoint]
        concordant = _count(_above(ys) & above)
        excess, untied_y = 2 * concordant - untied, n * (n - 1) // 2
        ordered = np.sort(ys, axis=-1)
        tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(-1))
        if len(tied):  # a pair that is not concordant need not be discordant
            excess[tied] = concordant[tied] - _count(_above(-ys[tied]) & above[tied])
            untied_y[tied] = _count(_above(ys[tied]))
        with np.errstate(invalid="ignore"):  # 0 / 0: NaN for a constant row
            taus[checkpoint] = excess / np.sqrt(untied) / np.sqrt(untied_y)
    return np.clip(taus, -1, 1)


def _above(values: Float[np.ndarray, "row width"]) -> Bool[np.ndarray, "row width width"]:
    """For each pair of tokens, whether the first one's value is larger than the second one's."""
    return values[:, :, None] > values[:, None, :]


def _count(cells: Bool[np.ndarray, "row width width"]) -> Integer[np.ndarray, " row"]:
    """The number of True cells in each row, counted eight at a time."""
    words = cells.reshape(len(cells), -1).view(np.uint64)
    return np.bitwise_count(words).sum(-1, dtype=np.int64)


def rows_of(alpha: Rows, beta: Rows, mask: ArrayLike | None = None) -> tuple[Ragged, Ragged, bool]:
    """Two scores of the same tokens as ragged rows, and whether they were a single pair of vectors."""
    if mask is not None:
        return Ragged.from_padded(alpha, mask), Ragged.from_padded(beta, mask), False  # type: ignore[arg-type]
    single = not isinstance(alpha, Ragged) and (not len(alpha) or np.ndim(next(iter(alpha))) == 0)  # type: ignore[arg-type]
    x, y = (
        each if isinstance(each, Ragged) else Ragged.from_rows([each] if single else each)  # type: ignore[list-item, arg-type]
        for each in (alpha, beta)
    )
    fits = np.array_equal(x.lengths, y.lengths)
    check(fits, "scores must have rows of the same lengths", (x.lengths[:5], y.lengths[:5]))
    return x, y, single


def _one_against_many(x: Ragged, y: Ragged) -> tuple[Ragged, Ragged]:
    """The two scores, the one of several checkpoints second: rank correlations are symmetric."""
    checkpoints = [len(each.values) if each.values.ndim > 1 else 1 for each in (x, y)]
    check(min(checkpoints) == 1, "one of two scores must be of one checkpoint, .at(checkpoint)", checkpoints)
    return (y, x) if x.values.ndim > 1 else (x, y)
