"""The batch of every training step, as a function of the step alone: so a killed run can resume exactly."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Int64

from attnlib.checks import check, check_at_least

B = TypeVar("B")
"""The type of a batch."""


@dataclass(frozen=True, eq=False)
class EpochBatches(Generic[B]):
    """All rows in a new random order each epoch; an incomplete last batch is dropped.

    To save padding, rows of similar length may be batched together: the rows of `pool` consecutive batches
    are sorted by length and cut into batches again; then the batches of the epoch are shuffled.

    Attributes:
        make: makes the batch of the rows with the given indices.
        lengths: length of every row, or (to ignore lengths) the number of rows; at least one row.
        batch_size: rows per step; all rows, if there are fewer.
        seed: seed of the random order.
        pool: number of batches that are sorted together, where lengths are given; 1: purely random batches.
    """

    make: Callable[[Int64[np.ndarray, " batch"]], B]
    lengths: Int64[np.ndarray, " row"] | int
    batch_size: int
    seed: int = 0
    pool: int = 1

    def __post_init__(self) -> None:
        """Raise `ValueError` without a row, or for a batch size below 1."""
        check_at_least(1, rows=self.n_rows, batch_size=self.batch_size)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.lengths if isinstance(self.lengths, int) else len(self.lengths)

    def __call__(self, step: int) -> B:
        """The batch of a step."""
        epoch, place = divmod(step, self.n_rows // min(self.batch_size, self.n_rows))
        return self.make(self._latest(epoch)[place].copy())

    @functools.cached_property
    def _latest(self) -> Callable[[int], np.ndarray]:
        return functools.lru_cache(maxsize=1)(self._rows)  # consecutive steps share an epoch

    def _rows(self, epoch: int) -> Int64[np.ndarray, "step batch"]:
        """The row indices of each batch of an epoch."""
        n, pool, lengths = self.n_rows, self.pool, self.lengths
        size = min(self.batch_size, n)
        rng = np.random.default_rng([self.seed, epoch])
        rows = rng.permutation(n)[: n // size * size]
        if isinstance(lengths, int):
            return rows.reshape(-1, size)
        for start in range(0, len(rows), pool * size):
            part = rows[start : start + pool * size]
            rows[start : start + pool * size] = part[lengths[part].argsort(kind="stable")]
        return rng.permutation(rows.reshape(-1, size)) if pool > 1 else rows.reshape(-1, size)


def in_stages(stages: Sequence[tuple[int, Callable[[int], B]]]) -> Callable[[int], B]:
    """A curriculum: the batch of every training step, from the stage that the step is in.

    Each stage is a number of steps and a function from step to batch. That function receives the step of the
    whole training, so no two stages share random numbers. The last stage lasts as long as training.
    """
    steps = [steps for steps, _ in stages]
    check(steps and min(steps) >= 0, "stages must be one or more, of at least 0 steps each", steps)
    ends = list(accumulate(steps for steps, _ in stages[:-1]))

    def batch_at(step: int) -> B:
        return stages[bisect_right(ends, step)][1](step)

    return batch_at


def chunks(n: int, size: int) -> list[slice]:
    """The slices of `size` rows each that cover rows 0 to n - 1 in order, as for an evaluation."""
    check_at_least(1, batch_size=size)
    return [slice(start, start + size) for start in range(0, n, size)]
