"""Rows of different lengths, end to end in one tensor: where each lies, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from attnlib.checks import check_at_least
from attnlib.generators.order import EpochBatches

B = TypeVar("B")
R = TypeVar("R", bound="Ragged")


def starts_of(lengths: Int64[Tensor, " row"]) -> Int64[Tensor, " row"]:
    """Where each row begins."""
    return lengths.cumsum(0) - lengths


def spans(starts: Int64[Tensor, " n"], lengths: Int64[Tensor, " n"]) -> Int64[Tensor, " total"]:
    """The places from each start on, so many as its length, one span after another."""
    return (starts - starts_of(lengths)).repeat_interleave(lengths) + torch.arange(int(lengths.sum()))


def padded(
    values: Int64[Tensor, " total"], starts: Int64[Tensor, " n"], lengths: Int64[Tensor, " n"], pad: int
) -> Int64[Tensor, "n longest"]:
    """The spans of some values as rows, filled up on the right with `pad`."""
    columns = torch.arange(int(lengths.max()) if len(lengths) else 0)
    places = (starts[:, None] + columns).clamp(max=len(values) - 1)
    return values[places].masked_fill(columns >= lengths[:, None], pad)


class Ragged(Generic[B]):
    """Rows of different lengths; a subclass has `texts`, one for each row, `like` and a `batch`."""

    texts: tuple[Any, ...]

    @property
    def like(self) -> Int64[Tensor, " row"]:
        """What rows are sorted by, for those of like length to stand together."""
        raise NotImplementedError

    def batch(self, rows: Int64[Tensor, " rows"]) -> B:
        """Some rows, padded."""
        raise NotImplementedError

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.texts)

    def __getitem__(self: R, rows: Int64[Tensor, " rows"] | slice) -> R:
        """Some of the rows, in the order of `rows`."""
        raise NotImplementedError

    def __iter__(self: R) -> Iterator[R]:
        """The rows one by one."""
        return (self[row : row + 1] for row in range(len(self)))

    def sample(self: R, n: int, seed: int = 0) -> R:
        """At most `n` of the rows, drawn at random, in their order."""
        check_at_least(0, n=n)
        return self[torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(self))[:n]))]

    def batches(self, batch_size: int, seed: int = 0, pool: int = 50) -> EpochBatches[B]:
        """The batch of every training step: all rows in a new random order each epoch; see `EpochBatches`.

        Rows of like length go together, which spares padding: `pool` batches are sorted together, and 1 makes
        them purely random, as in the original.
        """
        return EpochBatches(
            lambda rows: self.batch(torch.from_numpy(rows)), self.like.numpy(), batch_size, seed, pool
        )

    def in_batches(self, batch_size: int = 64) -> list[B]:
        """All rows once, shortest first; the `rows` of a batch say which they are."""
        check_at_least(1, batch_size=batch_size)
        return [self.batch(rows) for rows in self.like.argsort(stable=True).split(batch_size)]
