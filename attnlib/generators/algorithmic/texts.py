"""Arrays of many texts of one task, the functions that write them, and checks of settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Integer

from attnlib.checks import check

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Three equally long vectors: text, query, key. A query is the character before the predicted one."""


@dataclass(frozen=True)
class Texts:
    """Texts of a task as rows of an array.

    Attributes:
        symbols: each character as an index into the task's alphabet; arbitrary behind the text's end.
        lengths: number of characters of each text.
        prompts: number of characters before the answer.
        places: positions in the text from which the task makes the reference, by name; -1 for nowhere. The
            first dimension is the text.
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
    """Several `Texts` as one, in order."""
    if len(parts) == 1:
        return parts[0]
    names = ("symbols", "lengths", "prompts")
    rows = {name: _stacked([getattr(part, name) for part in parts]) for name in names}
    places = {name: _stacked([part.places[name] for part in parts]) for name in parts[0].places}
    return Texts(**rows, places=places)


def _stacked(arrays: list[np.ndarray]) -> np.ndarray:
    """Arrays concatenated along the first dimension; the others are padded with -1 (0 if not signed)."""
    shape = [max(sizes) for sizes in zip(*(array.shape[1:] for array in arrays), strict=True)]
    nothing = -1 if np.issubdtype(arrays[0].dtype, np.signedinteger) else 0

    def widened(array: np.ndarray) -> np.ndarray:
        room = [(0, most - own) for most, own in zip(shape, array.shape[1:], strict=True)]
        return np.pad(array, [(0, 0), *room], constant_values=nothing)

    return np.concatenate(list(map(widened, arrays)))


def pack(
    cells: Integer[np.ndarray, "text ..."], keep: Bool[np.ndarray, "text ..."]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts from cells of which some are empty: the cells to keep move left, in their order.

    Returns the symbols [text, position], the lengths [text], and every cell's position (-1 if it is empty).
    """
    flat = keep.reshape(len(keep), -1)
    lengths = flat.sum(1)
    symbols = np.zeros((len(keep), int(lengths.max(initial=0))), dtype=cells.dtype)
    symbols[np.arange(symbols.shape[1]) < lengths[:, None]] = cells[keep]
    positions = np.cumsum(flat, axis=1, dtype=np.int32) - 1
    return symbols, lengths, np.where(flat, positions, -1).astype(np.int32).reshape(keep.shape)


def pairs(queries: np.ndarray, keys: np.ndarray) -> Pairs:
    """The pairs of broadcast queries and keys (first dimension: text) in which neither is -1 (nowhere)."""
    queries, keys = np.broadcast_arrays(queries, keys)
    there = (queries >= 0) & (keys >= 0)
    return np.nonzero(there)[0], queries[there], keys[there]


def counting(sizes: np.ndarray) -> np.ndarray:
    """0, 1, ..., n - 1 for each size n, one after the other."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


# ---- digits of many numbers: least significant first along the last dimension, zeros behind

DIGITS = "0123456789"


def carried(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The digits, least significant first, to which columns add up, and each digit's carry to the next.

    The last dimension of `columns` should be wide enough for the last carry to be 0.
    """
    digits, carries = np.empty_like(columns), np.empty_like(columns)
    carry = np.zeros_like(columns[..., 0])
    for place in range(columns.shape[-1]):
        carry, digits[..., place] = np.divmod(columns[..., place] + carry, 10)
        carries[..., place] = carry
    return digits, carries


def carry_sources(columns: np.ndarray, most: np.ndarray | int) -> np.ndarray:
    """Which lower columns a digit of a sum depends on by its carry, [..., digit, column].

    They are the column below, and lower ones as long as a column's outgoing carry depends on its incoming
    carry. `columns` are sums without carries, lowest first; `most` is the highest possible carry, one number
    or one per text [text 1].
    """
    depends = columns // 10 != (columns + most) // 10
    width = columns.shape[-1]
    sources = np.zeros((*columns.shape, width), dtype=bool)
    for back in range(1, width):
        digit = np.arange(back, width)
        reached = sources[..., digit, digit - back + 1] & depends[..., digit - back + 1] if back > 1 else True
        sources[..., digit, digit - back] = reached
    return sources


def n_digits(digits: np.ndarray) -> np.ndarray:
    """The number of digits of numbers (0 has one), given least significant first in the last dimension."""
    places = np.arange(1, digits.shape[-1] + 1)
    return np.where(digits > 0, places, 1).max(-1)


def draw_digits(rng: np.random.Generator, sizes: np.ndarray, most: int) -> np.ndarray:
    """Uniform numbers of exactly `sizes` digits, least significant first, filled up to `most` with 0."""
    digits = rng.integers(0, 10, (*sizes.shape, most), dtype=np.uint8)
    leading = rng.integers(1, 10, sizes.shape, dtype=np.uint8)
    place = np.arange(most)
    digits[place >= sizes[..., None]] = 0
    last = (place == sizes[..., None] - 1) & (sizes[..., None] > 1)
    return np.where(last, leading[..., None], digits)


def typed_digits(numbers: list[str]) -> np.ndarray:
    """Numbers as digits [number digit], 0 behind the last."""
    longest = max(map(len, numbers))
    return np.array([[int(digit) for digit in number.ljust(longest, "0")] for number in numbers], np.uint8)


def common_size(text: str, numbers: Sequence[str]) -> int:
    """The number of digits that all numbers of a text have; different sizes raise `ValueError`."""
    sizes = sorted({len(number) for number in numbers})
    if len(sizes) > 1:
        raise ValueError(
            "with pad_with_zeros=True all numbers have the same number of digits; "
            f"in {text!r} they have {', '.join(map(str, sizes))}"
        )
    return sizes[0]


# ---- checks of settings


def bounds(name: str, value: Any, lowest: int, highest: int | None = None, why: str = "") -> tuple[int, int]:
    """The checked pair of a range's ends, both included; a `ValueError` gives `why` as its reason."""
    whole = isinstance(value, Sequence) and [
        isinstance(end, int | np.integer) and not isinstance(end, bool) for end in value
    ] == [True, True]
    if not whole or not lowest <= value[0] <= value[1] or (highest is not None and value[1] > highest):
        limit = "" if highest is None else f" <= {highest}"
        reason = f" ({why})" if why else ""
        raise ValueError(f"{name} must be {lowest} <= fewest <= most{limit}{reason}; got {value!r}")
    return int(value[0]), int(value[1])


def switch(name: str, value: Any) -> bool:
    """The value, if it is True or False; else `ValueError`."""
    check(isinstance(value, bool), f"{name} must be True or False", value)
    return value


def characters(name: str, charset: Iterable[str], separators: str, fewest: int = 1, why: str = "") -> str:
    """Checked characters in a fixed order: that of a text or list; sorted if `charset` is a set."""
    given = list(charset) if isinstance(charset, Iterable) else [charset]
    chosen = [one for one in given if isinstance(one, str) and len(one) == 1 and one not in separators]
    fits = len(chosen) == len(given) == len({*chosen}) and len(chosen) >= fewest
    check(fits, f"{name} must have {fewest} or more characters{why}, each once, no separator", given)
    return "".join(sorted(chosen) if isinstance(charset, set | frozenset) else chosen)
