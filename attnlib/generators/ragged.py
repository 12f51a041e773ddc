"""Ragged data: rows of different lengths, concatenated in one tensor, and padded batches of them."""

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
    """The start of each row in the concatenated tensor."""
    return lengths.cumsum(0) - lengths


def spans(starts: Int64[Tensor, " n"], lengths: Int64[Tensor, " n"]) -> Int64[Tensor, " total"]:
    """The indices of all spans, given by their starts and lengths, one span after another."""
    return (starts - starts_of(lengths)).repeat_interleave(lengths) + torch.arange(int(lengths.sum()))


def padded(
    values: Int64[Tensor, " total"], starts: Int64[Tensor, " n"], lengths: Int64[Tensor, " n"], pad: int
) -> Int64[Tensor, "n longest"]:
    """The given spans of `values` as rows, padded on the right with `pad`."""
    columns = torch.arange(int(lengths.max()) if len(lengths) else 0)
    places = (starts[:, None] + columns).clamp(max=len(values) - 1)
    return values[places].masked_fill(columns >= lengths[:, None], pad)


class Ragged(Generic[B]):
    """Rows of different lengths; a subclass defines `texts` (one per row), `like`, `batch` and indexing."""

    texts: tuple[Any, ...]

    @property
    def like(self) -> Int64[Tensor, " row"]:
        """The sort key of each row: rows with similar keys are batched together, to save padding."""
        raise NotImplementedError

    def batch(self, rows: Int64[Tensor, " rows"]) -> B:
        """The rows with the given indices, padded to one length."""
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
        """At most `n` rows, drawn at random without replacement, in their original order."""
        check_at_least(0, n=n)
        return self[torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(self))[:n]))]

    def batches(self, batch_size: int, seed: int = 0, pool: int = 50) -> EpochBatches[B]:
        """The batch of every training step: all rows in a new random order each epoch; see `EpochBatches`.

        To save padding, rows of similar length are batched together: `pool` batches at a time are sorted by
        length. With `pool=1`, batches are purely random, as in the original.
        """
        return EpochBatches(
            lambda rows: self.batch(torch.from_numpy(rows)), self.like.numpy(), batch_size, seed, pool
        )

    def in_batches(self, batch_size: int = 64) -> list[B]:
        """All rows once, in batches, shortest rows first; `rows` of a batch holds their indices."""
        check_at_least(1, batch_size=batch_size)
        return [self.batch(rows) for rows in self.like.argsort(stable=True).split(batch_size)]
