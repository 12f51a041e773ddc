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
"""The step that training never comes to: what is drawn by it, models are looked at on."""


@dataclass(frozen=True)
class CopyBatch(Movable):
    """Sequences to copy: some for each of several models.

    Attributes:
        source: the symbols, and the id of the end.
        target: the id of the start, then the source once more.
    """

    source: Int64[Tensor, "model batch token"]
    target: Int64[Tensor, "model batch written"]

    @property
    def inputs(self) -> dict[str, Tensor]:
        """What a model is called with, by name; of the target, all ids but the last."""
        return {"source": self.source, "target": self.target[..., :-1]}

    @property
    def predicted(self) -> Int64[Tensor, "model batch token"]:
        """The ids to predict: those of the source, the end among them."""
        return self.target[..., 1:]

    @property
    def elsewhere(self) -> Bool[Tensor, "model batch token token"]:
        """[target, source]: True where the symbol to copy stands too, though it is not the one to copy."""
        same = self.source[..., :, None] == self.source[..., None, :]
        return same & ~torch.eye(self.source.shape[-1], dtype=torch.bool, device=same.device)


@dataclass(frozen=True)
class Copying:
    """The task to write a random sequence of symbols again.

    With ids from 0 for the symbols, then the end, then the start, a sequence of 3 out of 5 symbols is

        source  4 0 2 5       target  6 4 0 2 5

    and, once symbols may occur again, it may be `4 0 4 5`. Without repetition, and with as many symbols as
    places, every sequence is a permutation: all symbols are in all of them.

    Attributes:
        length: symbols of a sequence.
        symbols: how many there are to draw from.
        room: ids kept for symbols, so that a model of this task can go on with one of more symbols; 0: as
            many as there are.

    Source:
        Snell, Zhong, Klein and Steinhardt 2021, section 5, and the authors' SequenceCopying.
    """

    length: int
    symbols: int
    repetition: bool = False
    room: int = 0

    def __post_init__(self) -> None:
        """Refuse tasks that there cannot be."""
        check_at_least(1, length=self.length, symbols=self.symbols)
        if not self.repetition:
            check_between(1, self.symbols, length=self.length)
        check_at_least(self.symbols, room=self.room or None)

    @property
    def end(self) -> int:
        """The id behind the last symbol."""
        return self.room or self.symbols

    @property
    def start(self) -> int:
        """The id before the first symbol."""
        return self.end + 1

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
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
        """`n` sequences for every model, each model's drawn by its own seed."""
        return self.of(np.stack([self.sequences(n, np.random.default_rng(seed)) for seed in seeds]))

    def of(self, symbols: Int64[np.ndarray, "model batch length"]) -> CopyBatch:
        """Sequences of symbols, with end and start."""
        check_between(0, self.symbols - 1, symbols=symbols.min())
        check_between(0, self.symbols - 1, symbols=symbols.max())
        source = np.pad(symbols, ((0, 0), (0, 0), (0, 1)), constant_values=self.end)
        target = np.pad(source, ((0, 0), (0, 0), (1, 0)), constant_values=self.start)
        return CopyBatch(torch.from_numpy(source), torch.from_numpy(target))

    def batches(self, batch_size: int, seeds: Sequence[int]) -> Callable[[int], CopyBatch]:
        """The batch of every training step, which depends for each model on the step and its own seed."""
        return lambda step: self.batch(batch_size, [[seed, step] for seed in seeds])
