"""The rank correlation that the code of Abnar and Zuidema 2020 computes, to be shown beside Spearman's."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float


def dense_rank_correlation(
    x: Float[np.ndarray, "row token"],
    y: Float[np.ndarray, "*checkpoint row token"],
    mask: Bool[np.ndarray, "row token"],
) -> Float[np.ndarray, "*checkpoint row"]:
    r"""$1 - 6 \sum_i d_i^2 / (n (n^2 - 1))$, with $d_i$ the difference of dense ranks.

    Dense ranks count up by one per *different* value. The formula is Spearman's where no values are tied;
    where they are it is not: a constant has no correlation of 0, and may get one of -.6.
    """
    n = mask.sum(-1)
    apart = np.where(mask, _dense_ranks(x, mask) - _dense_ranks(y, mask), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 1, 1 - 6 * (apart**2).sum(-1) / (n * (n**2 - 1.0)), np.nan)


def _dense_ranks(
    values: Float[np.ndarray, "*checkpoint row token"], mask: Bool[np.ndarray, "row token"]
) -> Float[np.ndarray, "*checkpoint row token"]:
    """1 for the smallest value of a row, 2 for the next different one, ..."""
    filled = np.where(mask, values, np.inf)
    order = np.argsort(filled, axis=-1, kind="stable")
    ordered = np.take_along_axis(filled, order, -1)
    steps = np.concatenate([np.ones_like(ordered[..., :1]), ordered[..., 1:] != ordered[..., :-1]], -1)
    ranks = np.empty_like(filled)
    np.put_along_axis(ranks, order, steps.cumsum(-1), -1)
    return ranks
