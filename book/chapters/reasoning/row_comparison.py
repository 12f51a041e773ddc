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
(`tests/chapters/reasoning/test_row_comparison.py`), at the price of rarely finding anything where wrong rows
are that rare.

References:
    1) Cameron and Miller 2015, *A practitioner's guide to cluster-robust inference*: few clusters (VI).
    2) MacKinnon, Nielsen and Webb 2023, *Fast and reliable jackknife and bootstrap methods for cluster-robust
       inference*: the jackknife, there called CV3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Float, Int

from attnlib.stats.intervals import constant
from attnlib.stats.significance import Comparison, filled, published_comparison, without
from attnlib.stats.summaries import refuse_unsaid, truths


def compare_rows(
    rows: pd.DataFrame,
    value: str = "rollout",
    split: str = "correct",
    *,
    adjust_for: Sequence[str] = (),
    confidence: float = 0.95,
) -> Comparison:
    """Whether rows where `split` is true have more of `value` than those where it is false.

    Without options the difference is that of the two means over rows, as in the original code.
    """
    _check(rows, value, split, adjust_for)
    kept = rows[rows[value].notna()]
    blank, kinds = _blank(kept, value, split)
    published_rows = rows
    if "evaluated" in rows:
        published_rows = rows[truths(rows, "evaluated")].fillna({value: 0.0})
    counted, groups = _blank(published_rows[published_rows[value].notna()], value, split)
    blank = replace(blank, published=published_comparison(groups[0], groups[1], counted.samples, confidence))
    if min(blank.samples) < 2:
        return without(
            blank, f"{min(blank.samples)} of at least 2 samples needed have the rarer kind of rows"
        )
    if all(constant(kind) for kind in kinds):
        return without(blank, "all rows of a kind are equal, in both kinds")
    dummies = [pd.get_dummies(kept[name].astype("category"), drop_first=True) for name in adjust_for]
    design = np.column_stack([kept[split], np.ones(len(kept)), *dummies]).astype(float)
    if _explained(design):
        return without(blank, f"{' and '.join(adjust_for)} alone says which kind a row is of")
    sample = pd.factorize(kept["sample"].to_numpy())[0].astype(np.int64)
    return _jackknife(blank, design, kept[value].to_numpy(float), sample, confidence)


def _check(rows: pd.DataFrame, value: str, split: str, adjust_for: Sequence[str]) -> None:
    if isinstance(adjust_for, str):
        raise ValueError(f"adjust_for should be a list of columns, such as [{adjust_for!r}]")
    missing = [name for name in ("sample", value, split, *adjust_for) if name not in rows]
    if missing:
        raise ValueError(f"rows should have the columns {missing}; got {list(rows.columns)}")
    truths(rows, split)
    refuse_unsaid(rows, "sample", *adjust_for)
    if np.isinf(rows[value].to_numpy(float)).any():
        raise ValueError(f"{value} should be finite, or NaN where a row has none; got infinity")


def _blank(rows: pd.DataFrame, value: str, split: str) -> tuple[Comparison, list[np.ndarray]]:
    """How many rows and samples there are of either kind, and their means; and the values of either."""
    true = truths(rows, split)
    kinds = [rows[true], rows[~true]]
    (a, b), (x, y) = (
        (each["sample"].nunique() for each in kinds),
        (each[value].to_numpy(float) for each in kinds),
    )
    first, second = (float(each.mean()) if len(each) else None for each in (x, y))
    test = "cluster jackknife over samples"
    return Comparison(test, (a, b), (len(x), len(y)), first=first, second=second), [x, y]


def _explained(design: Float[np.ndarray, "row column"]) -> bool:
    """Whether the other columns leave nothing of the first."""
    rest = design[:, 1:]
    left = design[:, 0] - rest @ np.linalg.lstsq(rest, design[:, 0], rcond=None)[0]
    return bool(np.abs(left).max() < 1e-8)


def _jackknife(
    blank: Comparison,
    design: Float[np.ndarray, "row column"],
    response: Float[np.ndarray, " row"],
    sample: Int[np.ndarray, " row"],
    confidence: float,
) -> Comparison:
    """Difference and effect, of all samples and without each; columns of the design: kind, 1, and others."""
    table = np.column_stack([design, response - response.mean()])  # sums of squares lose digits far from 0
    parts = [table[sample == each] for each in range(sample.max() + 1)]
    each = np.stack([part.T @ part for part in parts])
    sums = np.concatenate([each.sum(0, keepdims=True), each.sum(0) - each])
    gram, product = sums[:, :-1, :-1], sums[:, :-1, -1:]
    # a value of what is adjusted for that only one sample has is not determined without it: hold it at 0
    held = 1e-10 * np.trace(gram[0]) / gram.shape[-1] * np.eye(gram.shape[-1])
    difference = np.linalg.solve(gram + held, product)[:, 0, 0]
    n, n_true, total, of_true = gram[:, 1, 1], gram[:, 0, 0], product[:, 1, 0], product[:, 0, 0]
    explained = of_true**2 / np.maximum(n_true, 1) + (total - of_true) ** 2 / np.maximum(n - n_true, 1)
    variance = (sums[:, -1, -1] - explained) / np.maximum(n - 2, 1)
    effect = difference / np.sqrt(np.maximum(variance, 1e-6 * variance[0]))
    (d, d_error), (e, e_error) = _with_error(difference), _with_error(effect)
    if d_error <= 1e-9 * abs(d):
        return without(blank, "the estimate is the same without any of the samples")
    df = min(blank.samples) - 1
    t, reach = d / d_error, scipy.stats.t.isf((1 - confidence) / 2, df)
    intervals = [(v, v - reach * error, v + reach * error) for v, error in ((d, d_error), (e, e_error))]
    return filled(blank, intervals[0], intervals[1], (t, df, 2 * scipy.stats.t.sf(abs(t), df)))


def _with_error(estimates: Float[np.ndarray, " estimate"]) -> tuple[float, float]:
    """The estimate of all samples, and its standard error by those without each."""
    whole, parts = estimates[0], estimates[1:]
    return float(whole), float(np.sqrt((len(parts) - 1) / len(parts) * ((parts - whole) ** 2).sum()))
