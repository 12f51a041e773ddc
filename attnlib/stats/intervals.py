"""Confidence intervals of shares, ratios and bootstrap draws, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Float, Int64
from numpy.typing import ArrayLike

from attnlib.checks import check
from attnlib.stats.ragged import numpy_of

DRAWS = 2000
"""The number of bootstrap resamples."""

IN_HUNDREDTHS = ("%", "points")
"""Units of shares that are shown times 100."""

SHARE = (0.0, 1.0)
"""The least and the most that a share can be."""

ROUNDING = 1e-6
"""Numbers that differ by at most this share of the largest are equal, up to float32 rounding."""

_CELLS = 2_000_000  # numbers in a block of draws: all draws at once may not fit in memory


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is not between 0 and 1, such as one in percent."""
    fits = isinstance(confidence, int | float | np.number) and 0 < confidence < 1
    check(fits, "confidence must be between 0 and 1, such as 0.95", confidence)


class Estimate(NamedTuple):
    """A number, its confidence interval, and the number of independent units that it comes from."""

    value: float
    low: float
    high: float
    n: int


NOTHING = Estimate(np.nan, np.nan, np.nan, 0)
"""The estimate from no data."""


def proportion(
    successes: int, n: int, confidence: float = 0.95, method: Literal["wilson", "exact"] = "wilson"
) -> Estimate:
    """A share of independent yes-or-no outcomes, with an interval that holds near 0 and 1 too.

    Args:
        successes: number of outcomes that were "yes".
        n: number of outcomes.
        confidence: confidence level of the interval.
        method: "wilson", whose coverage equals the confidence on average; or "exact" (Clopper and Pearson),
            whose coverage is never below the confidence. "exact" is wider; use it for few outcomes.
    """
    check_confidence(confidence)
    check(0 <= successes <= n and n, "successes must be from 0 to n, and n at least 1", (successes, n))
    test = scipy.stats.binomtest(successes, n)
    low, high = test.proportion_ci(confidence, method=method)
    return Estimate(successes / n, float(low), float(high), n)


def of_equals(
    value: float, n: int, confidence: float = 0.95, bounds: tuple[float, float] = SHARE
) -> Estimate:
    r"""The mean of n equal numbers, with an interval that allows for other numbers in the population.

    Resamples of n equal numbers $c$ have no spread, and an interval of no width would say that the whole
    population is equal, too. But a share $q$ of the population may differ, where $q$ is the upper end of
    Wilson's interval of 0 in n, and these numbers may lie anywhere from $a$ to $b$:

    $$[(1 - q)\,c + q\,a,\; (1 - q)\,c + q\,b], \qquad q = \frac{z^2}{n + z^2}$$

    If all numbers are 1, or all are 0, this is Wilson's interval of n in n, or of 0 in n.

    Args:
        value: $c$.
        n: how many numbers there are.
        confidence: confidence level of the interval; $z$ is its normal quantile.
        bounds: $a$ and $b$.
    """
    q = proportion(0, n, confidence).high
    low, high = (value + q * (bound - value) for bound in bounds)  # so that it ends at a bound exactly
    return Estimate(value, low, high, n)


def ratio(
    parts: ArrayLike,
    wholes: ArrayLike,
    confidence: float = 0.95,
    seed: int = 0,
    bounds: tuple[float, float] | None = SHARE,
) -> Estimate:
    r"""A ratio of sums $\sum_i p_i / \sum_i w_i$ over independent samples, with a bootstrap interval.

    Use it for an accuracy per token: the tokens of one sequence are not independent, so the bootstrap
    resamples sequences, not tokens.

    Args:
        parts: p, for instance right tokens of each sequence.
        wholes: w, for instance tokens of each sequence.
        confidence: confidence level of the interval.
        seed: seed of the resamples.
        bounds: the least and largest possible ratio of a sample; `None`: not known. If the ratio is the same
            in all samples, and within the bounds, the interval is that of `of_equals`.
    """
    p, w = numpy_of(parts).astype(float), numpy_of(wholes).astype(float)
    fits = p.shape == w.shape and p.ndim == 1 and len(p)
    check(fits, "parts and wholes must be two lists of one length above 0", (p.shape, w.shape))
    check(not np.isnan(p + w).any(), "parts and wholes must be numbers", (p, w))
    check(w.sum(), "wholes must not add up to 0", w)
    value = float(p.sum() / w.sum())
    if bounds and bounds[0] <= value <= bounds[1] and np.allclose(p, value * w, rtol=1e-12, atol=0):
        return of_equals(value, len(p), confidence, bounds)
    with np.errstate(invalid="ignore"):  # a draw may miss every sample that has a whole
        draws = np.concatenate([(times @ p) / (times @ w) for times in redrawn(len(p), seed)])
    return Estimate(value, *interval(draws, confidence), len(p))


def constant(values: Float[np.ndarray, " _"]) -> bool:
    """Whether all values are the same, up to rounding."""
    return not len(values) or bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


def within(ends: Iterable[float], bounds: tuple[float, float]) -> tuple[float, ...]:
    """Numbers clipped to bounds, as needed for Student's interval of a share; NaN and infinity stay."""
    return tuple(float(np.clip(end, *bounds)) if np.isfinite(end) else float(end) for end in ends)


def with_interval(
    number: Any,
    unit: str = "",
    digits: int | None = None,
    *,
    named: bool = True,
    signed: bool = False,
    beside: Iterable[str] = (),
) -> str:
    """A number with its interval as text, in the form used throughout the book: "43 % [40, 47]".

    A number that would be rounded to 0 gets up to two more digits, to show on which side of 0 it lies:
    "-0.10 [-0.20, -0.004]". This does not apply to shares in "%", which are never negative.

    Args:
        number: has `value`, `low`, `high`, maybe `n`: an `Estimate`, or a row of a table. If the ends are
            NaN, or equal with n = 1, the text is "43 % [no interval]"; infinity is "never".
        unit: the text after the value. Numbers in "%" or "points" are multiplied by 100; those in "%" are
            clipped to 0 and 100.
        digits: digits after the point; by default 0 for "%" and "points", else 2.
        named: whether to write the unit; tables write it once, in the header.
        signed: whether to write a plus sign, for differences.
        beside: further texts in the brackets, such as "n = 1,000".
    """
    get: Callable[..., Any] = (
        number.get if isinstance(number, pd.Series | Mapping) else partial(getattr, number)
    )
    value, low, high = (float(get(name)) for name in ("value", "low", "high"))
    fits = unit != "%" or not np.isfinite(value) or -ROUNDING <= value <= 1 + ROUNDING
    check(fits, "what is shown in % must be a share, from 0 to 1 (divide by 100?)", value)
    ends = within((value, low, high), SHARE if unit == "%" else (-np.inf, np.inf))
    scale, places = (100, 0) if unit in IN_HUNDREDTHS else (1, 2)
    places = places if digits is None else digits
    sign = "+" if signed else ""
    finer = 0 if unit == "%" else 2
    said = ["never" if np.isinf(end) else _fixed(scale * end, places, finer, sign) for end in ends]
    alone = np.isnan(low) or (low == high and get("n", 0) == 1)
    interval = "no interval" if alone else ", ".join(said[1:])
    brackets = "; ".join([interval, *filter(None, beside)])
    return f"{said[0]} {unit if named else ''}".strip() + f" [{brackets}]"


def _fixed(number: float, places: int, finer: int, sign: str) -> str:
    """A number with `places` digits after the point, or up to `finer` more if it would be rounded to 0."""
    there = next((more for more in range(finer + 1) if round(number, places + more)), 0)
    return f"{round(number, places + there) + 0.0:{sign}.{places + there}f}"


def redrawn(n: int, seed: int = 0) -> Iterator[Int64[np.ndarray, "draw n"]]:
    """Blocks of bootstrap draws: how often each of n items is in each of `DRAWS` draws of n items."""
    rng, chances, size = np.random.default_rng(seed), np.full(n, 1 / n), max(1, _CELLS // n)
    for start in range(0, DRAWS, size):
        yield rng.multinomial(n, chances, size=min(size, DRAWS - start))


def interval(draws: Float[np.ndarray, " draw"], confidence: float = 0.95) -> tuple[float, float]:
    """The percentile interval of the draws; NaN draws are left out, infinite ones count."""
    check_confidence(confidence)
    there, tail = draws[~np.isnan(draws)], 50 * (1 - confidence)
    # between two draws, unless one may be infinite: the mean of a number and infinity is of no use
    how: Literal["linear", "inverted_cdf"] = "linear" if np.isfinite(there).all() else "inverted_cdf"
    low, high = np.percentile(there, [tail, 100 - tail], method=how)
    return float(low), float(high)
