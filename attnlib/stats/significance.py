"""Tests of whether two runs differ. The unit is the sample, since rows of a sample are not independent.

The rows (predicted tokens) of one sample share a text, so that their values are correlated. A test that
treats them as independent finds far too many differences: with 30 samples of 20 rows a run, and as much
spread between samples as within them, Welch's test on rows calls 53 % of equal runs different at a level of
5 %. On sample means it is 5 %. `compare` tests sample means, and gives the published test on rows beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float
from torch import Tensor

from attnlib.checks import check
from attnlib.stats.intervals import ROUNDING, check_confidence, constant
from attnlib.stats.ragged import numpy_of

NOT_ENOUGH = "not enough data"
"""The text that tables show in place of a missing number."""

LARGEST = 1e100
"""The largest number allowed: its squares can be summed without overflow."""

Rows = Float[np.ndarray, " _"]


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison of two groups: their difference, its interval and p.

    Numbers that cannot be computed are `None`; `problem` then says why. (The effect of 2 pairs is NaN.)

    Attributes:
        test: the name of the test.
        first: mean of the first group (of its sample means, or of its rows: see `test`).
        second: mean of the second group.
        difference: first minus second.
        low: lower end of the difference's interval.
        high: upper end.
        effect: the difference in standard deviations; `compare` says of what.
        effect_low: lower end of the effect's interval.
        effect_high: upper end.
        statistic: t.
        df: its degrees of freedom.
        p: two-sided.
        samples: how many samples of each group there are.
        rows: how many rows.
        problem: why there is no p; `None` if there is one.
        published: the comparison by the test of the authors' code, if it is another test.
    """

    test: str
    samples: tuple[int, int]
    rows: tuple[int, int]
    first: float | None = None
    second: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    statistic: float | None = None
    df: float | None = None
    p: float | None = None
    problem: str | None = None
    published: Comparison | None = None


def compare(
    first: Any,
    second: Any,
    *,
    paired: bool = False,
    as_published: bool = False,
    confidence: float = 0.95,
) -> Comparison:
    r"""Whether two runs differ: Welch's t-test on sample means.

    $$t = \frac{\bar m_1 - \bar m_2}{\sqrt{s_1^2 / n_1 + s_2^2 / n_2}}$$

    with $n_i$ the samples of run $i$ that have a row, and $\bar m_i$ and $s_i$ mean and standard deviation of
    their means. The effect is Hedges' $g$: the difference over the pooled standard deviation of sample means,
    corrected for small $n$; its interval is that of large samples.

    Args:
        first: a run: for every sample the list of its rows' masses, ragged, or a padded `[sample row]` array
            or tensor; rows that are NaN have no mass and are left out. Or one number per sample, its mean.
        second: the other run, of the same form.
        paired: the runs are of the same samples in the same order (such as a model before and after a
            change): a t-test on each sample's difference. The effect is in standard deviations of these.
        as_published: Welch's test on the rows of all samples together, as in the authors' code. It treats
            rows of one sample as independent; the module's docstring says why this is wrong.
        confidence: confidence level of the intervals.

    Returns:
        The comparison; unless `as_published`, with the published one beside it. Where the data are too few
        (no rows, fewer than 2 samples in a run, no spread at all), it has a `problem` and no p.

    Raises:
        ValueError: a run is not of this form, or holds infinite numbers or numbers beyond `LARGEST`, or its
            largest number is below 1 / `LARGEST` and not 0; paired runs differ in length; the confidence is
            not between 0 and 1; or both `paired` and `as_published` are set.

    Source:
        Spiegel et al. 2025, *Attend or Perish*: which runs are compared, and the test on rows.

    Example:
        >>> found = compare([[0.9, 0.8], [0.7], [0.9]], [[0.2], [0.4, 0.2], [0.1, 0.3]])
        >>> round(found.difference, 3), round(found.p, 4), found.samples
        (0.583, 0.0029, (3, 3))
    """
    check(not (paired and as_published), "paired must be False with as_published", paired)
    check_confidence(confidence)
    runs = rows_of(first, "first"), rows_of(second, "second")
    published = _published(runs, confidence)
    if as_published:
        return published
    means = [np.array([rows.mean() if len(rows) else np.nan for rows in run]) for run in runs]
    if paired:
        check(len(means[0]) == len(means[1]), "paired runs must be of the same samples", [*map(len, means)])
        both = ~np.isnan(means[0]) & ~np.isnan(means[1])
        first_rows, second_rows = (
            sum(len(rows) for rows, counts in zip(run, both, strict=True) if counts) for run in runs
        )
        found = _paired(means[0][both], means[1][both], (first_rows, second_rows), confidence)
    else:
        known = [mean[~np.isnan(mean)] for mean in means]
        test, samples = "Welch's t-test on sample means", (len(known[0]), len(known[1]))
        found = _welch(known, test, samples, published.rows, confidence)
    return replace(found, published=published)


def published_comparison(
    first: Rows, second: Rows, samples: tuple[int, int], confidence: float
) -> Comparison:
    """Welch's t-test on rows, treated as independent."""
    rows = (len(first), len(second))
    test = "Welch's t-test on rows, as published"
    return _welch([first, second], test, samples, rows, confidence, unit="rows")


def _published(runs: tuple[list[Rows], list[Rows]], confidence: float) -> Comparison:
    first, second = (np.concatenate([np.empty(0), *run]) for run in runs)
    samples = (sum(len(rows) > 0 for rows in runs[0]), sum(len(rows) > 0 for rows in runs[1]))
    return published_comparison(first, second, samples, confidence)


def rows_of(run: Any, name: str) -> list[Rows]:
    """A run as one array per sample, without NaN."""
    form = "a list of rows' masses per sample, a [sample row] array, or a number per sample"
    if isinstance(run, Tensor):
        run = numpy_of(run)
    no_run = isinstance(run, str | bytes | Mapping) or getattr(run, "ndim", 1) == 0
    check(not no_run and hasattr(run, "__iter__"), f"{name} must be {form}", run)
    samples = [numpy_of(each) for each in run]
    dimensions = {sample.ndim for sample in samples}
    check(dimensions <= {0} or dimensions <= {1}, f"{name} must be {form}", run)
    check(all(sample.dtype.kind in "biuf" for sample in samples), f"{name} must hold numbers", run)
    rows = [np.atleast_1d(sample).astype(float) for sample in samples]
    largest = max((np.nanmax(np.abs(sample), initial=0.0) for sample in rows), default=0.0)
    fits = not largest or 1 / LARGEST <= largest <= LARGEST  # else squares would be infinite, or 0
    check(fits, f"{name} must have its largest number from {1 / LARGEST:g} to {LARGEST:g}", largest)
    return [sample[~np.isnan(sample)] for sample in rows]


def _welch(
    groups: list[Rows],
    test: str,
    samples: tuple[int, int],
    rows: tuple[int, int],
    confidence: float,
    unit: str = "samples",
) -> Comparison:
    from statsmodels.stats.meta_analysis import effectsize_smd
    from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

    means = [float(group.mean()) if len(group) else None for group in groups]
    blank = Comparison(test, samples, rows, first=means[0], second=means[1])
    for name, group in zip(("first", "second"), groups, strict=True):
        if len(group) < 2:
            return without(blank, f"the {name} group has {len(group)} of at least 2 {unit} needed")
    if all(constant(group) for group in groups):
        exactly = all(np.ptp(group) == 0 for group in groups)
        return without(blank, f"all {unit} of a group are equal{'' if exactly else _NEARLY}, in both groups")
    a, b = groups
    means_of_both = CompareMeans(DescrStatsW(a), DescrStatsW(b))
    t, p, df = means_of_both.ttest_ind(usevar="unequal")
    interval = means_of_both.tconfint_diff(1 - confidence, usevar="unequal")
    g, variance = effectsize_smd(a.mean(), a.std(ddof=1), len(a), b.mean(), b.std(ddof=1), len(b))
    reach = scipy.stats.norm.isf((1 - confidence) / 2) * np.sqrt(variance)
    return filled(blank, (a.mean() - b.mean(), *interval), (g, g - reach, g + reach), (t, df, p))


def _paired(first: Rows, second: Rows, rows: tuple[int, int], confidence: float) -> Comparison:
    n, apart = len(first), first - second
    means = [float(values.mean()) if n else None for values in (first, second)]
    blank = Comparison("paired t-test on sample means", (n, n), rows, first=means[0], second=means[1])
    if n < 2:
        return without(blank, f"{n} of at least 2 samples needed have rows in both groups")
    scale = max(np.abs(first).max(), np.abs(second).max())
    if np.ptp(apart) <= ROUNDING * scale:
        exactly = np.ptp(apart) == 0
        return without(blank, f"every sample differs by the same amount{'' if exactly else _NEARLY}")
    found = scipy.stats.ttest_1samp(apart, 0)
    interval = found.confidence_interval(confidence)
    # for 2 samples, the small-sample correction factor is 0
    effect = (1 - 3 / (4 * n - 5)) * apart.mean() / apart.std(ddof=1) if n > 2 else np.nan
    reach = scipy.stats.norm.isf((1 - confidence) / 2) * np.sqrt(1 / n + effect**2 / (2 * n))
    tested = (found.statistic, found.df, found.pvalue)
    return filled(blank, (apart.mean(), *interval), (effect, effect - reach, effect + reach), tested)


_NEARLY = (
    f" up to rounding, {ROUNDING:g} of their size (if this spread is real, subtract a constant from all "
    "numbers first)"
)


def without(blank: Comparison, problem: str) -> Comparison:
    """A comparison that says why it has no p."""
    return replace(blank, problem=problem)


def filled(blank: Comparison, difference: Any, effect: Any, tested: Any) -> Comparison:
    """A comparison with its numbers: value, low and high of difference and effect; t, df and p."""
    names = ("difference", "low", "high", "effect", "effect_low", "effect_high", "statistic", "df", "p")
    numbers: Any = dict(zip(names, map(float, (*difference, *effect, *tested)), strict=True))
    return replace(blank, **numbers)
