"""Sequences of symbols to copy, for several models side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from attnlib.checks import check_at_least, check_between
from attnlib.generators.base import Movable

UNSEEN = 2**31
"""A step that training never reaches: its batch is unseen in training, and serves to evaluate models."""


@dataclass(frozen=True)
class CopyBatch(Movable):
    """Sequences to copy, for each of several models.

    Attributes:
        source: the symbols, and the id of the end.
        target: the id of the start, then the source once more.
    """

    source: Int64[Tensor, "model batch token"]
    target: Int64[Tensor, "model batch written"]

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The keyword arguments of a model's call; the target is without its last id."""
        return {"source": self.source, "target": self.target[..., :-1]}

    @property
    def predicted(self) -> Int64[Tensor, "model batch token"]:
        """The ids to predict: those of the source, including the end."""
        return self.target[..., 1:]

    @property
    def elsewhere(self) -> Bool[Tensor, "model batch token token"]:
        """True where [target, source] is another occurrence of the symbol to copy, at a wrong position."""
        same = self.source[..., :, None] == self.source[..., None, :]
        return same & ~torch.eye(self.source.shape[-1], dtype=torch.bool, device=same.device)


@dataclass(frozen=True)
class Copying:
    """The task of copying a random sequence of symbols.

    The symbols have ids from 0; the end and the start follow. A sequence of 3 out of 5 symbols is

        source  4 0 2 5       target  6 4 0 2 5

    With `repetition`, a source may be `4 0 4 5`. Without it, and with as many symbols as positions, every
    sequence is a permutation of all symbols.

    Attributes:
        length: symbols per sequence, without end and start.
        symbols: number of different symbols to draw from.
        repetition: whether a symbol may occur more than once in a sequence.
        room: ids reserved for symbols, so that a model trained on this task can be trained further on one
            with more symbols; 0 reserves `symbols` ids.

    Source:
        Snell, Zhong, Klein and Steinhardt 2021, section 5, and the authors' SequenceCopying.
    """

    length: int
    symbols: int
    repetition: bool = False
    room: int = 0

    def __post_init__(self) -> None:
        """Raise `ValueError` for impossible settings."""
        check_at_least(1, length=self.length, symbols=self.symbols)
        if not self.repetition:
            check_between(1, self.symbols, length=self.length)
        check_at_least(self.symbols, room=self.room or None)

    @property
    def end(self) -> int:
        """The id of the end, which follows those of the symbols."""
        return self.room or self.symbols

    @property
    def start(self) -> int:
        """The id of the start, with which a target begins."""
        return self.end + 1

    @property
    def vocabulary(self) -> int:
        """The number of ids, end and start included."""
        return self.end + 2

    @property
    def permutations(self) -> bool:
        """Whether all symbols are in every sequence."""
        return not self.repetition and self.length == self.symbols

    @property
    def name(self) -> str:
        """The task in words."""
        if self.permutations:
            return f"permutations of {self.length}"
        return f"{self.length} of {self.symbols}" + ", repeated" * self.repetition

    def sequences(self, n: int, rng: np.random.Generator) -> Int64[np.ndarray, "n length"]:
        """Random sequences, each as likely as any other."""
        if self.repetition:
            return rng.integers(self.symbols, size=(n, self.length))
        every = np.broadcast_to(np.arange(self.symbols), (n, self.symbols))
        return rng.permuted(every, axis=1)[:, : self.length]

    def batch(self, n: int, seeds: Sequence[Sequence[int]]) -> CopyBatch:
        """`n` sequences for every model, drawn with that model's seed."""
        return self.of(np.stack([self.sequences(n, np.random.default_rng(seed)) for seed in seeds]))

    def of(self, symbols: Int64[np.ndarray, "model batch length"]) -> CopyBatch:
        """The batch of the given symbols, with end and start added."""
        check_between(0, self.symbols - 1, symbols=symbols.min())
        check_between(0, self.symbols - 1, symbols=symbols.max())
        source = np.pad(symbols, ((0, 0), (0, 0), (0, 1)), constant_values=self.end)
        target = np.pad(source, ((0, 0), (0, 0), (1, 0)), constant_values=self.start)
        return CopyBatch(torch.from_numpy(source), torch.from_numpy(target))

    def batches(self, batch_size: int, seeds: Sequence[int]) -> Callable[[int], CopyBatch]:
        """The batch of every training step; each model's part depends on the step and its own seed only."""
        return lambda step: self.batch(batch_size, [[seed, step] for seed in seeds])
