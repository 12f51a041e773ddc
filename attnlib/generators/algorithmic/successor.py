"""Successor: numbers in order, of which the first is given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlib.generators.algorithmic.base import AlgorithmicGenerator
from attnlib.generators.algorithmic.texts import DIGITS, Pairs, Texts, bounds, counting, pack

SPACE = 10
HIGHEST = 10**17


class SuccessorGenerator(AlgorithmicGenerator):
    """Counting up from a number, with a space after every number, the last one too.

    ::

        42 43 44 45

    The question is the first number and its space; the answer all the others. No end is predicted: the series
    has none. So a text of one number would leave nothing to predict: it raises `ValueError`.

    Reference: the query at the space before a number, and those at its digits, look at the number before,
    that space, and the digits written so far. Only the query that predicts the very last space has no
    reference. (A chat's tokens between question and answer are never reference keys.) With `enlarged`, the
    reference also holds the whole answer so far.

    Splits: a text is a start and a length, so the same start may be in two splits with different lengths.

    Args:
        start_number_range: lowest and highest first number, from 0.
        length: fewest and most numbers in the text, at least 2.
        **settings: see `AlgorithmicGenerator`. `as_published` changes nothing.
    """

    NAME = "successor"
    INSTRUCTION = (
        "\nGo on with the series of numbers. Every number is one more than the number before it.\n"
        "Write the numbers with a space after each, and nothing else.\n"
    )
    ENDS = False
    ENLARGES = True

    def __init__(
        self,
        *,
        start_number_range: Sequence[int] = (1, 100),
        length: Sequence[int] = (2, 100),
        **settings: Any,
    ) -> None:
        self.start_number_range = bounds("start_number_range", start_number_range, 0, HIGHEST)
        self.length = bounds("length", length, 2, why="the first number is given, so one number asks nothing")
        most = self.length[1]
        longest = most * (len(str(self.start_number_range[1] + most)) + 1)
        super().__init__(DIGITS + " ", longest, **settings)

    def _draw(self, rng: np.random.Generator, n: int) -> Texts:
        starts = rng.integers(self.start_number_range[0], self.start_number_range[1] + 1, n)
        return self._write(starts, rng.integers(self.length[0], self.length[1] + 1, n))

    def _write(self, starts: np.ndarray, lengths: np.ndarray) -> Texts:
        there = np.arange(int(lengths.max())) < lengths[:, None]
        numbers = np.where(there, starts[:, None] + np.arange(there.shape[1]), 0)
        powers = 10 ** np.arange(len(str(int(numbers.max()))), dtype=np.int64)[::-1]
        cells = np.full((*numbers.shape, len(powers) + 1), SPACE, dtype=np.uint8)
        cells[..., :-1] = numbers[..., None] // powers % 10
        keep = np.ones(cells.shape, dtype=bool)
        keep[..., :-2] = numbers[..., None] >= powers[:-1]  # the last digit is there even in 0
        symbols, sizes, positions = pack(cells, keep & there[..., None])
        spaces = positions[..., -1]
        return Texts(symbols, sizes, spaces[:, 0].astype(sizes.dtype) + 1, {"spaces": spaces})

    def _pairs(self, texts: Texts) -> Pairs:
        spaces = texts.places["spaces"]
        text, number = np.nonzero(spaces[:, 1:] >= 0)  # numbers from the second on
        before, after = spaces[text, number], spaces[text, number + 1]
        start = np.where(number > 0, spaces[text, number - 1] + 1, 0)  # of the number before
        if self.enlarged:
            start = np.minimum(start, texts.prompts[text])
        last = after == texts.lengths[text] - 1
        queries = after - before - last  # the space before, its digits; one less for the last number
        query = np.repeat(before, queries) + counting(queries)
        text, start = np.repeat(text, queries), np.repeat(start, queries)
        keys = query - start + 1
        return np.repeat(text, keys), np.repeat(query, keys), np.repeat(start, keys) + counting(keys)

    def _read(self, text: str) -> Texts:
        if not re.fullmatch(r"([0-9]+ )+", text):
            raise self._unlike(text, ", with its last space")
        numbers = text.split()
        if str(int(numbers[0])) != numbers[0] or int(numbers[0]) > HIGHEST:
            raise ValueError(
                f"a series starts with a number from 0 to {HIGHEST} that has no zeros in front; "
                f"{text!r} starts with {numbers[0]!r}"
            )
        if len(numbers) < 2:
            raise ValueError(
                f"the first number is given, so {text!r}, of one number, leaves nothing to predict"
            )
        return self._write(np.array([int(numbers[0])]), np.array([len(numbers)]))

    def _redrawn(self, text: str, keys: Sequence[int], rng: np.random.Generator) -> str:
        first, *rest = text.split(" ")
        low = 10 ** (len(first) - 1)
        return " ".join([str(rng.integers(low, 10 * low)), *rest])

    def _examples(self) -> list[str]:
        return [
            " ".join(map(str, range(first, last))) + " " for first, last in ((50, 55), (0, 18), (234, 241))
        ]
