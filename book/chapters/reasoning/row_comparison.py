r"""Two kinds of rows compared that lie within the same samples: right and wrong predictions.

Neither rows nor kinds are independent then: a hard sample has more wrong rows, and its rows share their luck.
The difference is a regression coefficient, of the row's value on its kind (and on what is adjusted for); how
sure it is comes from leaving out one sample after the other, the cluster jackknife:

$$V = \frac{G - 1}{G} \sum_g (\hat\beta_{(g)} - \hat\beta)^2$$

with $G$ samples and $\hat\beta_{(g)}$ the estimate without sample $g$. $\hat\beta / \sqrt V$ is compared with
a t-distribution whose degrees of freedom are the number of samples that have the rarer kind, minus 1.

The usual alternative, the cluster-robust covariance of a regression with $G - 1$ degrees of freedom, needs
many samples with rows of either kind: where only 2 of 30 have a wrong row, it calls 3 in 10 equal groups
different at a level of 5 %, and Welch's test on rows calls half of them so. This one stays near 5 % or below
(`tests/attnlib/stats/test_significance.py`), at the price of rarely finding anything where wrong rows are
that rare.

References:
    1) Cameron and Miller 2015, *A practitioner's guide to cluster-robust inference*: few clusters (VI).
    2) MacKinnon, Nielsen and Webb 2023, *Fast and reliable jackknife and bootstrap methods for cluster-robust
       inference*: the jackknife, there called CV3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy import stats

from attnlib.stats.significance import Comparison, constant, filled, published_comparison, without


def compare_rows(
    rows: pd.DataFrame,
    value: str = "rollout",
    split: str = "correct",
    *,
    adjust_for: Sequence[str] = (),
    as_published: bool = False,
    confidence: float = 0.95,
) -> Comparison:
    """Whether rows where `split` is true have more of `value` than those where it is false.

    Without options the difference is that of the two means over rows, as in the original code; only what is
    known about it is another. The effect is the difference over the pooled standard deviation of rows.

    Args:
        rows: of `evaluate_rows`; needs columns `sample`, `value` and `split`. Rows without a value are left
            out.
        value: a column of numbers.
        split: a column of truth values.
        adjust_for: columns whose every value gets a mean of its own: `["position"]` compares right and wrong
            rows at the same place of the answer. Late rows are wrong more often, and have less mass for
            reasons of their own: without this, one is taken for the other.
        as_published: Welch's test on rows, taken for independent; evaluated rows without a reference key
            count as 0, as in the original code.
        confidence: of the intervals.

    Returns:
        The comparison; unless `as_published`, with the published one beside it. Where the data are too few,
        it has a `problem` and no p.

    Raises:
        ValueError: a column is missing, `split` has other than truth values, or `value` something infinite.
    """
    _check(rows, value, split, adjust_for)
    published = _published(_Rows.of(rows, value, split, as_published=True), confidence)
    if as_published:
        return published
    kept = _Rows.of(rows, value, split)
    blank = kept.blank("cluster jackknife over samples")
    fewer = min(blank.samples)
    if fewer < 2:
        found = without(blank, f"{fewer} of at least 2 samples needed have the rarer kind of rows")
    elif all(constant(kept.value[kind]) for kind in (kept.kind, ~kept.kind)):
        found = without(blank, "all rows of a kind are equal, in both kinds")
    else:
        design = kept.design(rows, adjust_for)
        if _explained(design):
            found = without(blank, f"{' and '.join(adjust_for)} alone says which kind a row is of")
        else:
            found = _jackknife(blank, kept, design, fewer - 1, confidence)
    return replace(found, published=published)


@dataclass(frozen=True)
class _Rows:
    """The rows that have a value.

    Attributes:
        value: of each.
        kind: whether `split` is true.
        sample: which sample it is of.
        place: where it is in the table.
    """

    value: Float[np.ndarray, " row"]
    kind: Bool[np.ndarray, " row"]
    sample: Int[np.ndarray, " row"]
    place: Int[np.ndarray, " row"]

    @classmethod
    def of(cls, rows: pd.DataFrame, value: str, split: str, *, as_published: bool = False) -> _Rows:
        """The rows with a value; published, evaluated rows without one have 0."""
        values = rows[value].to_numpy(float)
        if as_published and "evaluated" in rows:
            values = np.where(rows["evaluated"].to_numpy(bool), np.nan_to_num(values), np.nan)
        place = np.flatnonzero(~np.isnan(values))
        sample = pd.factorize(rows["sample"].to_numpy()[place])[0].astype(np.int64)
        return cls(values[place], rows[split].to_numpy(bool)[place], sample, place)

    def blank(self, test: str) -> Comparison:
        """How many there are of either kind, and their means."""
        kinds = (self.kind, ~self.kind)
        samples = [len(np.unique(self.sample[kind])) for kind in kinds]
        means = [float(self.value[kind].mean()) if kind.any() else None for kind in kinds]
        counted = (int(kinds[0].sum()), int(kinds[1].sum()))
        return Comparison(test, (samples[0], samples[1]), counted, first=means[0], second=means[1])

    def design(self, rows: pd.DataFrame, adjust_for: Sequence[str]) -> Float[np.ndarray, "row column"]:
        """Kind, an intercept, and a column per value of what is adjusted for."""
        kept = rows.iloc[self.place]
        dummies = [
            pd.get_dummies(kept[name].astype("category"), drop_first=True).to_numpy(float)
            for name in adjust_for
        ]
        return np.column_stack([self.kind.astype(float), np.ones(len(kept)), *dummies])


def _check(rows: pd.DataFrame, value: str, split: str, adjust_for: Sequence[str]) -> None:
    if isinstance(adjust_for, str):
        raise ValueError(f"adjust_for should be a list of columns, such as [{adjust_for!r}]")
    missing = [name for name in ("sample", value, split, *adjust_for) if name not in rows]
    if missing:
        raise ValueError(f"rows should have the columns {missing}; got {list(rows.columns)}")
    if not rows[split].isin([True, False]).all():
        raise ValueError(f"{split} should hold truth values; got {rows[split].unique()[:5].tolist()}")
    if np.isinf(rows[value].to_numpy(float)).any():
        raise ValueError(f"{value} should be finite, or NaN where a row has none; got infinity")


def _published(rows: _Rows, confidence: float) -> Comparison:
    samples = rows.blank("").samples
    return published_comparison(rows.value[rows.kind], rows.value[~rows.kind], samples, confidence)


def _per_sample(
    columns: Float[np.ndarray, "row column"], sample: Int[np.ndarray, " row"]
) -> Float[np.ndarray, "sample column"]:
    """Sums over the rows of each sample."""
    return np.stack([np.bincount(sample, column) for column in columns.T], 1)


def _explained(design: Float[np.ndarray, "row column"]) -> bool:
    """Whether the other columns leave nothing of the first."""
    rest = design[:, 1:]
    left = design[:, 0] - rest @ np.linalg.lstsq(rest, design[:, 0], rcond=None)[0]
    return bool(np.abs(left).max() < 1e-8)


def _jackknife(
    blank: Comparison,
    rows: _Rows,
    design: Float[np.ndarray, "row column"],
    df: int,
    confidence: float,
) -> Comparison:
    """Difference and effect, of all samples and without each."""
    order = np.argsort(rows.sample, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(rows.sample[order])) + 1)
    gram = _without_each(np.stack([design[part].T @ design[part] for part in parts]))
    product = _without_each(np.stack([design[part].T @ rows.value[part] for part in parts]))
    # a value of what is adjusted for that only one sample has is not determined without it: hold it at 0
    gram += 1e-10 * np.trace(gram[0]) / gram.shape[-1] * np.eye(gram.shape[-1])
    difference = np.linalg.solve(gram, product[..., None])[:, 0, 0]
    effect = difference / _deviations(rows)
    (d, d_error), (e, e_error) = _with_error(difference), _with_error(effect)
    if d_error <= 1e-9 * abs(d):
        return without(blank, "the estimate is the same without any of the samples")
    t, reach = d / d_error, stats.t.isf((1 - confidence) / 2, df)
    intervals = [(v, v - reach * error, v + reach * error) for v, error in ((d, d_error), (e, e_error))]
    return filled(blank, intervals[0], intervals[1], (t, df, 2 * stats.t.sf(abs(t), df)))


def _deviations(rows: _Rows) -> Float[np.ndarray, " estimate"]:
    """Standard deviation of rows around their kind's mean, of all samples and without each."""
    centred = rows.value - rows.value.mean()  # sums of squares lose digits far from 0
    kinds = np.stack([rows.kind, ~rows.kind], 1).astype(float)
    powers = [_without_each(_per_sample(kinds * (centred**k)[:, None], rows.sample)) for k in range(3)]
    n, total, squares = powers
    variance = (squares - total**2 / np.maximum(n, 1)).sum(1) / np.maximum(n.sum(1) - 2, 1)
    return np.sqrt(np.maximum(variance, 1e-6 * variance[0]))


def _without_each(sums: np.ndarray) -> np.ndarray:
    """The sum of all samples, then without the first, then without the second, ..."""
    total = sums.sum(0, keepdims=True)
    return np.concatenate([total, total - sums])


def _with_error(estimates: Float[np.ndarray, " estimate"]) -> tuple[float, float]:
    """The estimate of all samples, and its standard error by those without each."""
    whole, parts = estimates[0], estimates[1:]
    return float(whole), float(np.sqrt((len(parts) - 1) / len(parts) * ((parts - whole) ** 2).sum()))
