r"""Means of numbers of several seeds, with confidence intervals and p-values.

The mean of numbers $x_1, \ldots, x_k$, one per seed, has Student's t interval,
$\bar x \pm t_{k-1} s / \sqrt k$. It is valid from 2 seeds up, unlike the bootstrap over seeds: for 2 seeds, a
95 % bootstrap interval covers the truth half of the time. One seed has no interval (its ends are NaN).

The interval of shares (`share=True`) is clipped to 0 and 1. If all seeds are equal, such as three that get
every token right, Student's interval has no width. But each seed was measured on finitely many units
(sequences, documents), the same for all seeds. The interval is then `of_equals` with the units of one seed.
It assumes that other seeds are as much alike as these, which equal numbers cannot prove. If the number of
units is not known, the number of seeds replaces it: 3 of 3 gives an interval from .44 to 1.
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
        values: the number of each seed.
        draws: values of the mean when something else that it depends on is resampled (the rows that all seeds
            are evaluated on). The interval then combines both: with $[\bar x - a, \bar x + b]$ over seeds and
            $[\bar x - c, \bar x + d]$ over draws, $[\bar x - \sqrt{a^2 + c^2}, \bar x + \sqrt{b^2 + d^2}]$.
        confidence: confidence level of the interval.
        share: whether the numbers are shares, between 0 and 1; see the module's docstring.
        units: the number of units that a seed's share is over; by default not known.

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
        rows: a table with a column `seed`; several rows of a seed are averaged first.
        by: columns to split by; groups come in the order in which they appear.
        value: the column; rows where it is NaN are left out.
        share: whether the numbers are shares; a column `n`, if any, gives the number of units of each share.
        of_one: if all rows are of a single seed, return them unchanged, with their own `low`, `high` and
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
    r"""Student's 95 % interval of all seeds together, from the 95 % intervals of several lots of seeds.

    A lot of $n_i$ seeds with the mean $m_i$ and the interval $m_i \pm h_i$ has the standard deviation
    $s_i = h_i \sqrt{n_i} / t_{n_i - 1}$. So all $N = \sum n_i$ seeds have the mean $m = \sum n_i m_i / N$ and

    $$s^2 = \frac{\sum (n_i - 1) s_i^2 + \sum n_i (m_i - m)^2}{N - 1}:$$

    the same interval as `over_seeds` gives for the seeds' own numbers, which need not be known.

    Args:
        rows: `value`, `low`, `high` and `n` of every lot, as of `table_over_seeds`. A lot may be of one seed.
            If an interval was clipped at one end, the other is used; clipped at both, the result is wrong.
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
    r"""The two-sided p-value of Student's test that the mean in each row is 0, from its 95 % interval.

    $p = 2\,P(T_{k-1} > |\bar x| \sqrt k / s)$, with the standard error computed from the interval. It is 1 if
    all $x_i$ are 0, and NaN for one seed.

    Args:
        table: rows of `table_over_seeds` without `share`: clipped intervals have lost the standard error.
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
    r"""The mean of leave-one-out values, with the jackknife's interval over seeds.

    In a mean over pairs of seeds, pairs that share a seed are not independent, and Student's interval of the
    pairs is too narrow. Let $x_{(i)}$ be the same mean without seed $i$, and $\bar x$ the mean of these. Seed
    $i$ has the pseudovalue $k \bar x - (k - 1)\, x_{(i)}$; the interval is Student's of the $k$ pseudovalues.
    For a mean over seeds, they are the seeds' own numbers. Variation particular to a pair makes the interval
    too wide, never too narrow.

    Args:
        without: for each seed, the number computed from all other seeds.
        draws: as in `over_seeds`.
        confidence: confidence level of the interval.
        share: as in `over_seeds`.

    Source:
        Efron and Stein 1981, *The jackknife estimate of variance*, for means over pairs.
    """
    array = numpy_of(without).astype(float)
    each = len(array) * array.mean() - (len(array) - 1) * array  # for shares, it may be below 0 or above 1
    return _over_seeds(each, draws, confidence, share)
