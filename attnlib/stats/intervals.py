"""Intervals that say how much a number could have been another."""

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
"""How often independent things are drawn again."""

IN_HUNDREDTHS = ("%", "points")
"""Units of shares that are shown times 100."""

SHARE = (0.0, 1.0)
"""The least and the most that a share can be."""

ROUNDING = 1e-6
"""Numbers that differ by less than this share of the largest are the same, up to float32."""

_CELLS = 2_000_000  # of a block of draws: all at once need not fit in memory


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is not between 0 and 1, such as one in percent."""
    fits = isinstance(confidence, int | float | np.number) and 0 < confidence < 1
    check(fits, "confidence must be between 0 and 1, such as 0.95", confidence)


class Estimate(NamedTuple):
    """A number, its interval, and how many independent things it comes from."""

    value: float
    low: float
    high: float
    n: int


NOTHING = Estimate(np.nan, np.nan, np.nan, 0)
"""What is known where there is nothing to estimate from."""


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
    """
    check_confidence(confidence)
    check(0 <= successes <= n and n, "successes must be from 0 to n, and n at least 1", (successes, n))
    test = scipy.stats.binomtest(successes, n)
    low, high = test.proportion_ci(confidence, method=method)
    return Estimate(successes / n, float(low), float(high), n)


def of_equals(
    value: float, n: int, confidence: float = 0.95, bounds: tuple[float, float] = SHARE
) -> Estimate:
    r"""The mean of numbers that are all the same: what the ones that were not drawn leave open.

    Drawn again, n equal numbers $c$ have no spread, and an interval of no width would say that all others are
    equal to them, too. But a share $q$ of these may differ, as far as Wilson's interval of 0 in n goes, and
    they may be anything from $a$ to $b$:

    $$[(1 - q)\,c + q\,a,\; (1 - q)\,c + q\,b], \qquad q = \frac{z^2}{n + z^2}$$

    Where all are right, or none is, that is Wilson's interval of n in n, or of 0 in n.

    Args:
        value: $c$.
        n: how many there are.
        confidence: of the interval; $z$ is the normal quantile.
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

    Use it for an accuracy per token: the tokens of one sequence stand or fall together, so the sequences are
    drawn again, not the tokens.

    Args:
        parts: p, for instance right tokens of each sequence.
        wholes: w, for instance tokens of each sequence.
        confidence: of the interval.
        seed: of the resamples.
        bounds: what the ratio of a sample can be. Where it is the same in all samples, and within the bounds,
            no draw differs: the interval is then that of `of_equals`. `None`: none is known.
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
    """Numbers cut off at bounds, as Student's interval of a share has to be; NaN and "never" stay."""
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
    """A number with its interval: "43 % [40, 47]", as everything in the book says it.

    An end that is near 0 and would be rounded to it has up to two digits more, so that one sees on which side
    it lies: "-0.10 [-0.20, -0.004]". Shares have one side only.

    Args:
        number: has `value`, `low`, `high`, maybe `n`: an `Estimate`, or a row of a table. Where the ends are
            NaN, or one unit has an interval of no width, it is "43 % [no interval]"; infinite is "never".
        unit: what stands behind the value; shares in "%" or "points" are shown times 100, and those in "%"
            end at 0 and 100, as shares do.
        digits: behind the point; by default 0 of hundredths, else 2.
        named: whether the unit is said. A table says it once for all.
        signed: whether a plus is said: of differences.
        beside: what else stands in the brackets, such as "n = 1,000".
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
    """With so many digits behind the point; or more, by up to `finer`, where it would be 0 and is not."""
    there = next((more for more in range(finer + 1) if round(number, places + more)), 0)
    return f"{round(number, places + there) + 0.0:{sign}.{places + there}f}"


def redrawn(n: int, seed: int = 0) -> Iterator[Int64[np.ndarray, "draw n"]]:
    """The bootstrap: how often each of n things is in each of `DRAWS` draws of n, in blocks of draws."""
    rng, chances, size = np.random.default_rng(seed), np.full(n, 1 / n), max(1, _CELLS // n)
    for start in range(0, DRAWS, size):
        yield rng.multinomial(n, chances, size=min(size, DRAWS - start))


def interval(draws: Float[np.ndarray, " draw"], confidence: float = 0.95) -> tuple[float, float]:
    """The middle share of the draws; draws without a value do not count, infinite ones do."""
    check_confidence(confidence)
    there, tail = draws[~np.isnan(draws)], 50 * (1 - confidence)
    # between two draws, unless one may be infinite: the mean of a number and infinity is of no use
    how: Literal["linear", "inverted_cdf"] = "linear" if np.isfinite(there).all() else "inverted_cdf"
    low, high = np.percentile(there, [tail, 100 - tail], method=how)
    return float(low), float(high)
