"""A table of many comparisons, with p-values corrected for multiple testing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from attnlib.checks import check
from attnlib.stats.significance import NOT_ENOUGH, Comparison

_NUMBERS = ("difference", "low", "high", "effect", "effect_low", "effect_high", "p")


def corrected(p: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    r"""Corrected p-values: at level $\alpha$, the probability of any false positive is at most $\alpha$.

    The i-th smallest of m becomes $\max_{j \le i} \min(1, (m - j + 1) p_{(j)})$ (Holm 1979).

    Args:
        p: the p-value of every test. NaN where there was no test; it stays NaN and is not counted.
    """
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN comes last
    result = np.full(len(p), np.nan)
    result[order] = np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)).clip(max=1)
    return result


def comparison_table(
    comparisons: Mapping[str, Comparison] | Mapping[tuple[str, ...], Comparison],
    *,
    names: Sequence[str] = ("comparison",),
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Comparisons side by side, with p-values corrected for their number, and the published test beside them.

    Args:
        comparisons: by name, or by a tuple of as many names as `names` has.
        names: names of the first columns.
        alpha: significance level of `differs` and `published_differs`.

    Returns:
        Columns `names`; `difference`, `low`, `high`, `effect`, `effect_low`, `effect_high` and `p`; `p_holm`,
        corrected over all comparisons that have a p; `differs` ("yes" or "no", by the corrected p); samples
        and rows of both groups; `test`; `published_difference`, `published_p` and `published_differs`
        (without correction, as in the original); and `note`, why there is no p. Missing numbers are shown as
        "not enough data".
    """
    keys = [key if isinstance(key, tuple) else (key,) for key in comparisons]
    fits = keys and all(len(key) == len(names) for key in keys)
    check(fits, f"comparisons must have names of {len(names)} parts ({', '.join(names)})", keys)
    found = list(comparisons.values())
    p = corrected(np.array([np.nan if each.p is None else each.p for each in found]))
    rows = []
    for key, each, raised in zip(keys, found, p, strict=True):
        enough = each.p is not None
        rows.append(
            dict(zip(names, key, strict=True))
            | {name: _shown(getattr(each, name)) for name in _NUMBERS}
            | {"p_holm": float(raised) if enough else NOT_ENOUGH}
            | {"differs": _verdict(float(raised) if enough else None, alpha)}
            | {"samples_first": each.samples[0], "samples_second": each.samples[1]}
            | {"rows_first": each.rows[0], "rows_second": each.rows[1], "test": each.test}
            | _beside(each, alpha)
            | {"note": each.problem or ""}
        )
    return pd.DataFrame(rows)


def _beside(comparison: Comparison, alpha: float) -> dict[str, float | str]:
    published = comparison.published or comparison
    return {
        "published_difference": _shown(published.difference),
        "published_p": _shown(published.p),
        "published_differs": _verdict(published.p, alpha),
    }


def _shown(number: float | None) -> float | str:
    return NOT_ENOUGH if number is None else number


def _verdict(p: float | None, alpha: float) -> str:
    if p is None:
        return NOT_ENOUGH
    return "yes" if p < alpha else "no"
