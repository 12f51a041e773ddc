"""Rows of different lengths, end to end in one tensor: where each lies, some of them drawn, some padded."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor


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


def some_of(n_rows: int, n: int, seed: int = 0) -> Int64[Tensor, " rows"]:
    """At most `n` of the rows, drawn at random, in their order."""
    return torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(n_rows)[:n]))
