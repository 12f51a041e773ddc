r"""Numbers of several seeds: a mean with an interval, differences, and claims judged by them.

One rule: of numbers $x_1, \ldots, x_k$, one per seed, the interval of their mean is Student's,
$\bar x \pm t_{k-1} s / \sqrt k$. It holds from 2 seeds up, where drawing seeds again does not: of 2 seeds, a
95 % bootstrap interval covers the truth half of the time. One seed has no interval (its ends are NaN).

Of shares (`share=True`) the interval ends at 0 and 1. Where all seeds are equal, as three that get every
token right, Student's has no width: they show no spread of seeds. But each was measured on finitely many
units (sequences, documents), the same for all, and what these leave open is `of_equals` of the units of one
seed. It is said of seeds that are as much alike as these; that others are not, no three equal numbers can
rule out. Where it is not known how many units there were, the seeds stand for them: of 3 in 3, from .44 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Float

from attnlib.checks import check, check_some
from attnlib.stats.intervals import (
    ROUNDING,
    SHARE,
    Estimate,
    check_confidence,
    constant,
    interval,
    of_equals,
    within,
)
from attnlib.stats.ragged import numpy_of
from attnlib.stats.summaries import check_columns, check_groups


def over_seeds(
    values: Sequence[float] | Float[np.ndarray, " seed"],
    draws: Float[np.ndarray, " draw"] | None = None,
    confidence: float = 0.95,
    *,
    share: bool = False,
    units: int | None = None,
) -> Estimate:
    r"""The mean of one number per seed, with Student's t interval.

    Args:
        values: of each seed.
        draws: what the mean is when something else that it depends on is drawn again (the rows that all seeds
            are evaluated on). The interval then says both: with $[\bar x - a, \bar x + b]$ over seeds and
            $[\bar x - c, \bar x + d]$ over draws, $[\bar x - \sqrt{a^2 + c^2}, \bar x + \sqrt{b^2 + d^2}]$.
        confidence: of the interval.
        share: whether the numbers are shares, between 0 and 1; see above.
        units: how many units the share of a seed is over; by default not known.

    Source:
        Zou and Donner 2008, *Construction of confidence limits about effect measures*: how two intervals add.
    """
    array = numpy_of(values).astype(float)
    there = array[np.isfinite(array)]
    fits = not share or ((there >= -ROUNDING) & (there <= 1 + ROUNDING)).all()
    check(fits, "shares must be from 0 to 1 (divide percent by 100; without share for differences)", there)
    return _over_seeds(array, draws, confidence, share, units)


def _over_seeds(
    array: Float[np.ndarray, " seed"],
    draws: Float[np.ndarray, " draw"] | None,
    confidence: float,
    share: bool,
    units: int | None = None,
) -> Estimate:
    check_confidence(confidence)
    check_some(values=array)
    mean, low, high = float(array.mean()), np.nan, np.nan
    if len(array) > 1:
        error = 0.0 if constant(array) else scipy.stats.sem(array)
        low, high = scipy.stats.t.interval(confidence, len(array) - 1, mean, error) if error else (mean, mean)
    if draws is not None:
        least, most = interval(draws, confidence)
        low, high = mean - np.hypot(mean - low, mean - least), mean + np.hypot(high - mean, most - mean)
    if share and low == high:
        low, high = of_equals(mean, units or len(array), confidence)[1:3]
    if share:
        low, high = within((low, high), SHARE)
    return Estimate(mean, float(low), float(high), len(array))


def table_over_seeds(
    rows: pd.DataFrame, by: Sequence[str], value: str = "value", *, share: bool = False, of_one: bool = False
) -> pd.DataFrame:
    """`over_seeds` in groups of rows: the mean over seeds, with Student's t interval.

    Args:
        rows: several per seed are averaged first.
        by: columns to split by; groups come in the order in which they appear.
        value: the column; rows where it is NaN are left out.
        share: whether the numbers are shares; if rows have `n`, that is how many units they are over.
        of_one: where all rows are of a single seed, they stay as they are, with their own `low`, `high` and
            `n` (over units). By default one seed has no interval.

    Returns:
        Columns `by`, `value`, `low`, `high` and `n` (seeds).
    """
    check_some(by=by)
    check_columns(rows, by, "seed", value)
    rows, columns = rows.dropna(subset=[value]), [*by, "value", "low", "high", "n"]
    if of_one and rows["seed"].nunique() == 1:
        check_columns(rows, by, "low", "high", "n")
        return rows.assign(value=rows[value])[columns].reset_index(drop=True)
    check_groups(rows, *by, "seed")
    rows = rows.assign(units=rows.get("n", 0))
    seeds = rows.groupby([*by, "seed"], sort=False, observed=True)
    means = seeds.agg(value=(value, "mean"), units=("units", "min")).reset_index()
    table = [
        [*key, *over_seeds(group["value"].to_numpy(), share=share, units=int(group["units"].min()))]
        for key, group in means.groupby(list(by), sort=False, observed=True)
    ]
    return pd.DataFrame(table, columns=columns)


def pooled(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    r"""Student's interval of all seeds together, from the intervals of several lots of them.

    A lot of $n_i$ seeds with the mean $m_i$ and the interval $m_i \pm h_i$ has the standard deviation
    $s_i = h_i \sqrt{n_i} / t_{n_i - 1}$. So all $N = \sum n_i$ seeds have the mean $m = \sum n_i m_i / N$ and

    $$s^2 = \frac{\sum (n_i - 1) s_i^2 + \sum n_i (m_i - m)^2}{N - 1}:$$

    exactly what `over_seeds` makes of their own numbers, which need not be known.

    Args:
        rows: `value`, `low`, `high` and `n` of every lot, as of `table_over_seeds`. A lot may be of one seed.
            An interval that was cut at one end, as of shares, is taken from the other; not so if at both.
        by: columns to split by; groups come in the order in which they appear.

    Returns:
        Columns `by`, `value`, `low`, `high` and `n`.
    """
    check_some(by=by)
    check_columns(rows, by, "value", "low", "high", "n")
    table = []
    for key, lots in rows.groupby(list(by), sort=False, observed=True):
        n, value = (lots[name].to_numpy(float) for name in ("n", "value"))
        low, high = (lots[name].to_numpy(float) for name in ("low", "high"))
        half = np.maximum(high - value, value - low)
        quantile = scipy.stats.t.ppf(0.975, np.maximum(n - 1, 1))
        within_lots = np.where(n > 1, (n - 1) * n * (half / quantile) ** 2, 0.0).sum()
        whole, mean = n.sum(), (n * value).sum() / n.sum()
        spread = within_lots + (n * (value - mean) ** 2).sum()
        reach = np.nan
        if whole > 1:
            reach = scipy.stats.t.ppf(0.975, whole - 1) * np.sqrt(spread / (whole - 1) / whole)
        table.append([*key, mean, mean - reach, mean + reach, int(whole)])
    return pd.DataFrame(table, columns=[*by, "value", "low", "high", "n"])


def p_over_seeds(table: pd.DataFrame) -> Float[np.ndarray, " row"]:
    r"""Two-sided p that the mean of each row is 0, by Student's test, from its 95 % interval.

    $p = 2\,P(T_{k-1} > |\bar x| \sqrt k / s)$, with the standard error that the interval has. Where all $x_i$
    are 0, it is 1; of one seed, NaN.

    Args:
        table: of `table_over_seeds`, of numbers that are no shares: intervals that are cut have lost it.
    """
    spare, half = table["n"] - 1, (table["high"] - table["low"]) / 2
    ratio = (table["value"].abs() * scipy.stats.t.ppf(0.975, spare) / half).fillna(0.0)
    return np.asarray(2 * scipy.stats.t.sf(ratio, spare))


def over_left_out(
    without: Sequence[float] | Float[np.ndarray, " seed"],
    draws: Float[np.ndarray, " draw"] | None = None,
    confidence: float = 0.95,
    *,
    share: bool = False,
) -> Estimate:
    r"""A number of all seeds together, with the jackknife's interval over seeds.

    Of a mean over pairs of seeds, pairs that share a seed are not independent, and Student's interval of the
    pairs is too narrow. With $x_{(i)}$, the same mean without seed $i$, and $\bar x$, their mean,
    $k \bar x - (k - 1)\, x_{(i)}$ is what seed $i$ adds; the interval is Student's of these $k$ numbers. Of a
    mean over seeds they are the seeds' own numbers. What is particular to a pair makes it too wide, never
    too narrow.

    Args:
        without: the number of all seeds but one, for each of them.
        draws: as in `over_seeds`.
        confidence: of the interval.
        share: as in `over_seeds`.

    Source:
        Efron and Stein 1981, *The jackknife estimate of variance*, for means over pairs.
    """
    array = numpy_of(without).astype(float)
    each = len(array) * array.mean() - (len(array) - 1) * array  # of shares, it may be beyond 0 and 1
    return _over_seeds(each, draws, confidence, share)
