"""Many numbers at once as digits, least significant first along the last dimension, zeros behind the last."""

from __future__ import annotations

import numpy as np

DIGITS = "0123456789"


def carried(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of columns as digits, least significant first, each with the carry that it hands on.

    Args:
        columns: the sum of each column, along the last dimension; wide enough for the last carry to be 0.
    """
    digits, carries = np.empty_like(columns), np.empty_like(columns)
    carry = np.zeros_like(columns[..., 0])
    for place in range(columns.shape[-1]):
        carry, digits[..., place] = np.divmod(columns[..., place] + carry, 10)
        carries[..., place] = carry
    return digits, carries


def carry_sources(columns: np.ndarray, most: int) -> np.ndarray:
    """Which lower columns a digit of a sum depends on by its carry.

    They are the column below, and further ones as long as what a column hands on depends on what it is
    handed.

    Args:
        columns: the sum of each column, without carries, along the last dimension, lowest first.
        most: the highest carry that there can be.

    Returns:
        [..., digit, column].
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
    """How many digits numbers have (0 has one), given least significant first along the last dimension."""
    places = np.arange(1, digits.shape[-1] + 1)
    return np.where(digits > 0, places, 1).max(-1)


def draw_digits(rng: np.random.Generator, sizes: np.ndarray, most: int) -> np.ndarray:
    """Numbers of exactly so many digits each, uniform; least significant digit first, 0 behind the last."""
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
