"""Scores of the tokens of rows that differ in length, for one run of training or many.

A statistic has one value per row: a row is a document in classification, a target token in translation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer
from numpy.typing import ArrayLike
from torch import Tensor

from attnlib.checks import check, check_shape


@dataclass(frozen=True)
class Ragged:
    """Rows of numbers of different lengths, laid end to end without padding.

    Attributes:
        values: the numbers of all rows, one row after the other; optionally for several checkpoints, as
            leading axis.
        lengths: how many numbers each row has; 0 is allowed.

    Example:
        >>> Ragged(np.array([0.1, 0.9, 0.5]), np.array([2, 1])).rows()
        [array([0.1, 0.9]), array([0.5])]
    """

    values: Float[np.ndarray, "... token"]
    lengths: Integer[np.ndarray, " row"]

    def __post_init__(self) -> None:
        fits = (self.lengths >= 0).all() and self.lengths.sum() == self.values.shape[-1]
        check(fits, f"lengths must add up to {self.values.shape[-1]} values", self.lengths)

    @classmethod
    def from_rows(cls, rows: Iterable[ArrayLike]) -> Ragged:
        """Ragged rows from a list of vectors."""
        vectors = [np.atleast_1d(numpy_of(row)).astype(float, copy=False) for row in rows]
        shape = max((vector.shape for vector in vectors), key=len, default=(0,))
        check(len(shape) == 1, "a row must be a vector (of padded rows, say mask=... or from_padded)", shape)
        values = np.concatenate(vectors) if vectors else np.zeros(0)
        return cls(values, np.array([len(vector) for vector in vectors], dtype=np.int64))

    @classmethod
    def from_padded(cls, values: ArrayLike, mask: ArrayLike) -> Ragged:
        """Ragged rows from an array `[... row token]`, where `mask` [row token] is True."""
        padded, real = numpy_of(values), numpy_of(mask).astype(bool)
        fits = padded.ndim >= 2 and padded.shape[-2:] == real.shape
        check(fits, f"mask must have the shape [row token] of values {padded.shape}", real.shape)
        floats = padded if np.issubdtype(padded.dtype, np.floating) else padded.astype(float)
        return cls(floats[..., real], real.sum(-1))

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.lengths)

    @cached_property
    def starts(self) -> Integer[np.ndarray, " row"]:
        """The index in `values` at which each row begins."""
        return np.cumsum(self.lengths) - self.lengths

    def rows(self) -> list[np.ndarray]:
        """The rows one by one."""
        return np.split(self.values, self.starts[1:], axis=-1) if len(self) else []

    def at(self, checkpoint: int) -> Ragged:
        """One checkpoint's rows."""
        return replace(self, values=self.values[checkpoint])

    def take(self, rows: Integer[np.ndarray, " kept"] | Bool[np.ndarray, " row"]) -> Ragged:
        """Only some rows, given by their indices or by a mask."""
        kept = np.flatnonzero(rows) if rows.dtype == bool else rows
        lengths = self.lengths[kept]
        shift = np.repeat(self.starts[kept] - (np.cumsum(lengths) - lengths), lengths)
        return Ragged(self.values[..., shift + np.arange(lengths.sum())], lengths)

    def padded(
        self, rows: Integer[np.ndarray, " kept"], width: int
    ) -> Float[np.ndarray, "*checkpoint kept width"]:
        """Some rows, padded with NaN to one width."""
        place = np.arange(width)
        real = place < self.lengths[rows, None]
        block = self.values[..., np.where(real, self.starts[rows, None] + place, 0)]
        block[..., ~real] = np.nan
        return block

    @cached_property
    def nan_rows(self) -> Bool[np.ndarray, "*checkpoint row"]:
        """Whether each row holds a NaN; False for an empty row."""
        found = np.zeros((*self.values.shape[:-1], len(self)), dtype=bool)
        full = self.lengths > 0
        if full.any():
            found[..., full] = np.logical_or.reduceat(np.isnan(self.values), self.starts[full], axis=-1)
        return found


def numpy_of(values: Any) -> np.ndarray:
    """Values as a NumPy array, from any device: bfloat16 as float32, masked entries as NaN."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        return np.ma.filled(values.astype(float), np.nan)
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def by_width(
    lengths: Integer[np.ndarray, " row"], cells: int, power: int = 1, multiple: int = 1
) -> Iterator[tuple[Integer[np.ndarray, " some"], int]]:
    """Blocks of rows of similar length, as row indices and a width, so that padding them wastes little.

    A block's number of rows times its width to the `power` (2 to compare all pairs of tokens) is at most
    `cells`, unless a single row exceeds it. Lengths are rounded up to a `multiple`; empty rows are left out.
    """
    widths = -(-lengths // multiple) * multiple
    for width in np.unique(widths[lengths > 0]).tolist():
        rows = np.flatnonzero(widths == width)
        size = max(1, cells // width**power)
        for start in range(0, len(rows), size):
            yield rows[start : start + size], width


@dataclass(frozen=True)
class RunScores:
    """The scores of every token of every row by one training run, checkpoint by checkpoint.

    A model that is not trained in steps (logistic regression, the embedding-only model) is a run with one
    checkpoint. Scores that a run does not have are `None`.

    Attributes:
        lengths: number of tokens of each row; all compared runs have the same rows in the same order.
        steps: training steps of the checkpoints.
        alpha: attention.
        beta: keyword relevance, towards the row's right answer y: in classification the token's score for
            class 1, times 2y - 1.
        delta: gradient influence, d log p(right answer) / d scale of the token.
        right: whether the run is right on each row.
        accuracy: the run's accuracy: the mean of `right` if `right` is given; else this value, a share or
            another measure (BLEU).
        groups: for resampling, the group of each row, such as the sentence of a target token; by default each
            row is its own group.
    """

    lengths: Integer[np.ndarray, " row"]
    steps: Integer[np.ndarray, " checkpoint"]
    alpha: Float[np.ndarray, "checkpoint token"] | None = None
    beta: Float[np.ndarray, "checkpoint token"] | None = None
    delta: Float[np.ndarray, "checkpoint token"] | None = None
    right: Float[np.ndarray, "checkpoint row"] | Bool[np.ndarray, "checkpoint row"] | None = None
    accuracy: Float[np.ndarray, " checkpoint"] | None = None
    groups: Integer[np.ndarray, " row"] | None = None

    def __post_init__(self) -> None:
        n, tokens, rows = len(self.steps), int(self.lengths.sum()), len(self.lengths)
        wanted: dict[str, tuple[int, ...]] = dict.fromkeys(("alpha", "beta", "delta"), (n, tokens))
        wanted |= {"right": (n, rows), "accuracy": (n,), "groups": (rows,)}
        for name, shape in wanted.items():
            values = getattr(self, name)
            if values is not None:
                check_shape(shape, **{name: values})
        check(n and (np.diff(self.steps) > 0).all(), "steps must grow", self.steps)
        if self.right is not None:
            object.__setattr__(self, "accuracy", self.right.mean(1))

    def scores(self, name: str) -> Ragged:
        """`alpha`, `beta` or `delta` as ragged rows, for all checkpoints."""
        values = getattr(self, name)
        if values is None:
            raise ValueError(f"a run must have {name}; got none")
        return Ragged(values, self.lengths)

    def broken(self) -> Bool[np.ndarray, " row"]:
        """Whether each row has a NaN in any score at any checkpoint, or no token."""
        found = self.lengths == 0
        for name in ("alpha", "beta", "delta"):
            if getattr(self, name) is not None:
                found = found | self.scores(name).nan_rows.any(0)
        return found

    def take(self, rows: Integer[np.ndarray, " kept"] | Bool[np.ndarray, " row"]) -> RunScores:
        """Only some rows; the accuracy is that of these rows if `right` is known, else it is unchanged."""
        kept = np.flatnonzero(rows) if rows.dtype == bool else rows
        new = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("alpha", "beta", "delta"):
            if new[name] is not None:
                new[name] = self.scores(name).take(kept).values
        if self.right is not None:
            new["right"] = self.right[:, kept]
        new |= {"groups": None if self.groups is None else self.groups[kept]}
        return RunScores(**new | {"lengths": self.lengths[kept]})


def split_rows(
    scores: Mapping[str, RunScores], share: float = 0.5, seed: int = 0
) -> tuple[dict[str, RunScores], dict[str, RunScores]]:
    """The scores split by rows: the first part to choose checkpoints, the second to evaluate.

    Groups are not split. A run with `right` gets the accuracy of each part; other runs keep their accuracy.
    """
    first_run = next(iter(scores.values()))
    groups = np.arange(len(first_run.lengths)) if first_run.groups is None else first_run.groups
    names = np.random.default_rng(seed).permutation(np.unique(groups))
    n = round(share * len(names))
    check(0 < n < len(names), f"share must leave some of {len(names)} on both sides", share)
    chosen = np.isin(groups, names[:n])
    return tuple({name: run.take(part) for name, run in scores.items()} for part in (chosen, ~chosen))  # type: ignore[return-value]
