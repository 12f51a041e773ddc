"""Long addition: numbers are written with their least significant digit first, and so is their sum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlib.checks import check
from attnlib.generators.algorithmic.base import AlgorithmicGenerator
from attnlib.generators.algorithmic.texts import (
    DIGITS,
    Pairs,
    Texts,
    bounds,
    carried,
    carry_sources,
    common_size,
    draw_digits,
    n_digits,
    pack,
    pairs,
    switch,
    typed_digits,
)

PLUS, EQUALS = 10, 11


class LongAdditionGenerator(AlgorithmicGenerator):
    """Sums of numbers, which are written with their least significant digit first, as is the sum.

    ::

        330170+023900+098430=342511

    means 71033 + 9320 + 34890 = 115243. With `pad_with_zeros` all numbers, and the sum, have as many
    digits as the longest number and one more (or as many as the sum needs, if that is more). Without it::

        33017+0239+09843=342511

    Reference: the query that predicts digit *i* of the sum looks at digit *i* of every number (at the zero
    there if it is padded; nowhere in a number that ends before). The digits that a carry comes from are
    reference keys only with `enlarged`: those of the column below, and of lower ones as long as a column's
    outgoing carry depends on its incoming one (in 7 + 2 it does, in 8 + 2 it does not). The end has no
    reference.

    Args:
        length: fewest and most digits of a number; each has exactly the drawn number of digits.
        num_of_nums: fewest and most numbers, at least 2.
        pad_with_zeros: whether all numbers and the sum are equally long.
        **settings: see `AlgorithmicGenerator`. `as_published` changes nothing, but needs `pad_with_zeros`.

    Example:
        >>> from attnlib.generators import char_tokenizer
        >>> g = LongAdditionGenerator(tokenizer=char_tokenizer(), length=(1, 4), num_of_nums=(2, 2))
        >>> g.annotate("1240+4335=5575").answer
        '5575'
    """

    NAME = "long addition"
    ENLARGES = True
    INSTRUCTION = (
        "\nAdd the numbers. Each is written with its least significant digit first, and so is the sum.\n"
        "Go from left to right: add the digits that stand at the same place and what is carried over.\n"
        "Write the digits of the sum and nothing else.\n"
    )

    def __init__(
        self,
        *,
        length: Sequence[int] = (1, 20),
        num_of_nums: Sequence[int] = (2, 3),
        pad_with_zeros: bool = True,
        **settings: Any,
    ) -> None:
        self.length = bounds("length", length, 1)
        self.num_of_nums = bounds("num_of_nums", num_of_nums, 2)
        self.pad_with_zeros = switch("pad_with_zeros", pad_with_zeros)
        fits = pad_with_zeros or not settings.get("as_published")
        check(fits, "pad_with_zeros must be True with as_published", pad_with_zeros)
        most = self.num_of_nums[1]
        longest = (most + 1) * (self.length[1] + len(str(most)) + 1)
        super().__init__(DIGITS + "+=", longest, **settings)

    def _draw(self, rng: np.random.Generator, n: int) -> Texts:
        numbers = rng.integers(self.num_of_nums[0], self.num_of_nums[1] + 1, n)
        sizes = rng.integers(self.length[0], self.length[1] + 1, (n, self.num_of_nums[1]))
        sizes[np.arange(self.num_of_nums[1]) >= numbers[:, None]] = 0
        return self._write(draw_digits(rng, sizes, self.length[1]), sizes)

    def _write(self, digits: np.ndarray, sizes: np.ndarray, width: int = 0) -> Texts:
        """Texts of numbers [text number digit] with `sizes` digits each; size 0 means no number."""
        n, most, longest = digits.shape
        columns = np.zeros((n, max(longest + len(str(most)), width)), dtype=np.int32)
        columns[:, :longest] = digits.sum(1, dtype=np.int32)
        total, _ = carried(columns)
        total_size = n_digits(total)
        if self.pad_with_zeros:
            common = np.maximum(np.maximum(width or sizes.max(1) + 1, total_size), 1)
            sizes, total_size = np.where(sizes > 0, common[:, None], 0), common
        places = max(int(sizes.max()), int(total_size.max()))
        cells = np.zeros((n, most + 1, places + 1), dtype=np.uint8)
        cells[:, :-1, : min(longest, places)] = digits[..., :places]
        cells[:, -1, :places] = total[:, :places]
        keep = np.arange(places + 1) < np.concatenate([sizes, total_size[:, None]], axis=1)[..., None]
        there = sizes > 0
        last = there.sum(1) - 1
        cells[:, :-1, -1] = np.where(np.arange(most) == last[:, None], EQUALS, PLUS)
        keep[:, :-1, -1] = there
        symbols, lengths, positions = pack(cells, keep)
        operands, answer = positions[:, :-1, :-1], positions[:, -1, :-1]
        return Texts(
            symbols, lengths, answer[:, 0].astype(lengths.dtype), {"operands": operands, "sum": answer}
        )

    def _in_order(self, texts: Texts) -> Texts:
        digits = _operands(texts)
        n, most, longest = digits.shape
        sizes = np.where((texts.places["operands"] >= 0).any(2), n_digits(digits), 0)
        rows = np.column_stack([digits.reshape(-1, longest), sizes.ravel(), np.repeat(np.arange(n), most)])
        order = np.lexsort(rows.T)  # by text, then by size, then by digits, from the highest on
        ordered = digits.reshape(-1, longest)[order].reshape(digits.shape)
        # missing numbers (size 0) sort first; reversed, they come last, as in `_draw`
        return self._write(ordered[:, ::-1], sizes.ravel()[order].reshape(n, most)[:, ::-1])

    def _pairs(self, texts: Texts) -> Pairs:
        operands = texts.places["operands"]
        own = pairs(texts.places["sum"][:, None] - 1, operands)
        if not self.enlarged:
            return own
        most = (operands >= 0).any(2).sum(1) - 1
        sources = carry_sources(_operands(texts).sum(1, dtype=np.int32), most[:, None])
        keys = np.where(sources[:, None], operands[:, :, None], -1)  # [text number digit column]
        carries = pairs(texts.places["sum"][:, None, :, None] - 1, keys)
        text, query, key = (np.concatenate(both) for both in zip(own, carries, strict=True))
        return text, query, key

    def _read(self, text: str) -> Texts:
        if not re.fullmatch(r"[0-9]+(\+[0-9]+)+=[0-9]+", text):
            raise self._unlike(text)
        width = common_size(text, re.split("[+=]", text)) if self.pad_with_zeros else 0
        digits = typed_digits(text.partition("=")[0].split("+"))
        return self._write(digits[None], n_digits(digits)[None], width)

    def _examples(self) -> list[str]:
        asked = [["1", "1"], ["124", "4335", "344"], ["999", "999"]]
        digits = [typed_digits(numbers)[None] for numbers in asked]
        return [self._strings(self._write(number, n_digits(number)))[0] for number in digits]


def _operands(texts: Texts) -> np.ndarray:
    """The digits of the numbers in texts [text number digit], 0 where there is none."""
    places = texts.places["operands"]
    symbols = np.take_along_axis(texts.symbols, places.reshape(len(places), -1).clip(0), axis=1)
    return np.where(places >= 0, symbols.reshape(places.shape), 0).astype(np.uint8)
