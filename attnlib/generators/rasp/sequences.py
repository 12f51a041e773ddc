"""Batches of symbol sequences, and the quantities by which the RASP languages are defined.

A RASP program selects keys for every query by comparing two numbers, one that belongs to the key and one
that belongs to the query (Weiss, Goldberg and Yahav 2021, section 3). `Sequences` offers those numbers, and
`select` compares them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int64, Shaped
from torch import Tensor


@dataclass(frozen=True)
class Sequences:
    """Sequences of symbols, padded on the right.

    Attributes:
        symbols: index of each symbol in its alphabet, from 0; `len(code_points)` on padding.
        lengths: number of symbols of each sequence.
        code_points: Unicode code point of each symbol of the alphabet.
    """

    symbols: Int64[Tensor, "batch position"]
    lengths: Int64[Tensor, " batch"]
    code_points: Int64[Tensor, " alphabet"]

    def __len__(self) -> int:
        """How many sequences there are."""
        return len(self.symbols)

    def __getitem__(self, rows: Int64[Tensor, " rows"] | slice | int) -> Sequences:
        """Some of the sequences, or a single one, with no more padding than they need."""
        lengths = self.lengths[rows].reshape(-1)
        longest = int(lengths.max()) if len(lengths) else 0
        return Sequences(
            self.symbols[rows, :longest].reshape(len(lengths), longest), lengths, self.code_points
        )

    def __iter__(self) -> Iterator[Sequences]:
        """The sequences one by one."""
        return (self[row : row + 1] for row in range(len(self)))

    @cached_property
    def positions(self) -> Int64[Tensor, "1 position"]:
        """0, 1, 2, ... as one row that fits every sequence."""
        return torch.arange(self.symbols.shape[1], device=self.symbols.device)[None]

    @cached_property
    def real(self) -> Bool[Tensor, "batch position"]:
        """True for symbols, False for padding."""
        return self.positions < self.lengths[:, None]

    @cached_property
    def codes(self) -> Int64[Tensor, "batch position"]:
        """Unicode code point of each symbol; larger than all of them on padding, which thus sorts last."""
        beyond = self.code_points.max()[None] + 1
        return torch.cat([self.code_points, beyond])[self.symbols]

    @cached_property
    def tally(self) -> Int64[Tensor, "batch symbol"]:
        """How often each symbol of the alphabet (and, last, padding) occurs in each sequence."""
        empty = self.symbols.new_zeros(len(self), len(self.code_points) + 1)
        return empty.scatter_add(1, self.symbols, torch.ones_like(self.symbols))

    @cached_property
    def count(self) -> Int64[Tensor, "batch position"]:
        """How often the symbol at each position occurs in its sequence; 0 on padding."""
        return self.tally.gather(1, self.symbols) * self.real

    @cached_property
    def is_first(self) -> Bool[Tensor, "batch position"]:
        """True where a symbol occurs for the first time."""
        ordered, order = self.symbols.sort(dim=1, stable=True)
        starts = torch.ones_like(self.real)
        starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        return torch.zeros_like(self.real).scatter(1, order, starts) & self.real

    def order_by(self, *numbers: Int64[Tensor, "batch position"]) -> Int64[Tensor, "batch position"]:
        """The positions in ascending order of the first number, ties by the next, then by position.

        Padding comes last. `symbols.gather(1, order_by(codes))` sorts; see `rank_by` for the inverse.
        """
        order = self.positions.expand_as(self.symbols)
        for number in [(~self.real).long(), *numbers][::-1]:
            order = order.gather(1, number.gather(1, order).argsort(dim=1, stable=True))
        return order

    def rank_by(self, *numbers: Int64[Tensor, "batch position"]) -> Int64[Tensor, "batch position"]:
        """The place, from 0, that each position takes in `order_by(*numbers)`."""
        order = self.order_by(*numbers)
        return torch.empty_like(order).scatter_(1, order, self.positions.expand_as(order).contiguous())


def select(
    keys: Shaped[Tensor, "#batch position"],
    queries: Shaped[Tensor, "#batch position"],
    compare: Callable[[Tensor, Tensor], Tensor] = operator.eq,
) -> Bool[Tensor, "batch position position"]:
    """RASP's `select`: query *q* looks at key *k* where `compare(keys[k], queries[q])`.

    Args:
        keys: a number for each key.
        queries: a number for each query.
        compare: one of Python's `operator.eq`, `lt`, `le`, `gt`, `ge`, `ne`.

    Returns:
        True where the query (second to last dimension) looks at the key (last dimension).
    """
    if all(map(_is_narrow, (keys, queries))):  # comparing narrow integers is four times as fast
        keys, queries = keys.to(torch.int16), queries.to(torch.int16)
    return compare(keys[:, None, :], queries[:, :, None])


def _is_narrow(numbers: Tensor) -> bool:
    """Whether 16-bit integers hold all numbers, as they do positions, ranks and counts."""
    if numbers.is_floating_point() or not numbers.numel():
        return False
    kind = torch.iinfo(torch.int16)
    least, largest = numbers.aminmax()
    return kind.min <= int(least) and int(largest) <= kind.max
