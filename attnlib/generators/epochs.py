"""Which rows of a data set make the batch of a training step."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor


def rows_of_steps(
    lengths: Int64[np.ndarray, " row"], batch_size: int, seed: int = 0, pool: int = 50
) -> Callable[[int], Int64[Tensor, " batch"]]:
    """The rows of every training step: all rows in a new random order each epoch.

    Rows of like length go together, which spares padding: each `pool` batches in a row of the random order
    are sorted by length, cut into batches, and the batches shuffled. What is left over at the end of an epoch
    is not used in that epoch.

    The rows are a function of the step alone, which is what lets a killed run go on exactly.

    Args:
        lengths: of every row, at least one.
        batch_size: rows per step; all of them, if there are fewer.
        seed: of the order.
        pool: batches that are sorted together; 1: purely random batches.
    """
    size = min(batch_size, len(lengths))
    per_epoch = len(lengths) // size

    @functools.lru_cache(maxsize=1)  # one step after another asks for the same
    def order(epoch: int) -> np.ndarray:
        rng = np.random.default_rng([seed, epoch])
        rows = rng.permutation(len(lengths))[: per_epoch * size]
        for start in range(0, len(rows), pool * size):
            part = rows[start : start + pool * size]
            rows[start : start + pool * size] = part[lengths[part].argsort(kind="stable")]
        return rng.permutation(rows.reshape(per_epoch, size)) if pool > 1 else rows.reshape(-1, size)

    def rows_at(step: int) -> Int64[Tensor, " batch"]:
        epoch, place = divmod(step, per_epoch)
        return torch.from_numpy(order(epoch)[place])

    return rows_at
