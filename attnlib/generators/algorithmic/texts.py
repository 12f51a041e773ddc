"""Many texts of one task at once, and the few steps that writing them takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Integer

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Three equally long vectors: text, query, key. A query is the character before the predicted one."""


@dataclass(frozen=True)
class Texts:
    """Texts of a task as rows of an array.

    Attributes:
        symbols: each character as an index into the task's alphabet; anything behind the text's end.
        lengths: of the texts, in characters.
        prompts: characters before the answer.
        places: where things stand, which the reference is made of: positions in the text, -1 for nowhere.
            The first dimension is the text.
    """

    symbols: Integer[np.ndarray, "text position"]
    lengths: Integer[np.ndarray, " text"]
    prompts: Integer[np.ndarray, " text"]
    places: dict[str, np.ndarray]

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self.symbols)

    def __getitem__(self, rows: slice | np.ndarray) -> Texts:
        """Some of the texts."""
        places = {name: place[rows] for name, place in self.places.items()}
        longest = int(self.lengths[rows].max(initial=0))
        return Texts(self.symbols[rows, :longest], self.lengths[rows], self.prompts[rows], places)

    @cached_property
    def real(self) -> Bool[np.ndarray, "text position"]:
        """True for characters, False behind the end."""
        return np.arange(self.symbols.shape[1]) < self.lengths[:, None]


def joined(parts: Sequence[Texts]) -> Texts:
    """Texts below each other."""
    if len(parts) == 1:
        return parts[0]
    together = {
        field.name: _stacked([getattr(part, field.name) for part in parts])
        for field in fields(Texts)
        if field.name != "places"
    }
    places = {name: _stacked([part.places[name] for part in parts]) for name in parts[0].places}
    return Texts(**together, places=places)


def _stacked(arrays: list[np.ndarray]) -> np.ndarray:
    """Arrays below each other, widened to the same size with -1 (nowhere), or 0 where that is no number."""
    shape = [max(sizes) for sizes in zip(*(array.shape[1:] for array in arrays), strict=True)]
    nothing = -1 if np.issubdtype(arrays[0].dtype, np.signedinteger) else 0
    stack = np.full((sum(map(len, arrays)), *shape), nothing, dtype=arrays[0].dtype)
    start = 0
    for array in arrays:
        stack[(slice(start, start + len(array)), *map(slice, array.shape[1:]))] = array
        start += len(array)
    return stack


def pack(
    cells: Integer[np.ndarray, "text ..."], keep: Bool[np.ndarray, "text ..."]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts from a form with empty cells: what is kept moves together, in the order of the cells.

    Args:
        cells: a symbol in every cell.
        keep: whether the cell is part of the text.

    Returns:
        The symbols [text, position], the lengths [text], and the position of every cell, -1 if it is empty.
    """
    flat = keep.reshape(len(keep), -1)
    lengths = flat.sum(1)
    symbols = np.zeros((len(keep), int(lengths.max(initial=0))), dtype=cells.dtype)
    symbols[np.arange(symbols.shape[1]) < lengths[:, None]] = cells[keep]
    positions = np.cumsum(flat, axis=1, dtype=np.int32) - 1
    return symbols, lengths, np.where(flat, positions, -1).astype(np.int32).reshape(keep.shape)


def pairs(queries: np.ndarray, keys: np.ndarray) -> Pairs:
    """Queries and their keys, as far as both are somewhere; the two are broadcast, the text comes first."""
    queries, keys = np.broadcast_arrays(queries, keys)
    there = (queries >= 0) & (keys >= 0)
    return np.nonzero(there)[0], queries[there], keys[there]


def counting(sizes: np.ndarray) -> np.ndarray:
    """0, 1, ..., n - 1 for each size n, one after the other."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
