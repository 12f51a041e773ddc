"""Long multiplication: two numbers, the partial products of the second's digits, and their sum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlib.checks import check
from attnlib.generators.algorithmic.base import AlgorithmicGenerator
from attnlib.generators.algorithmic.samples import Labels
from attnlib.generators.algorithmic.texts import (
    DIGITS,
    Pairs,
    Texts,
    bounds,
    carried,
    common_size,
    draw_digits,
    n_digits,
    pack,
    pairs,
    switch,
    typed_digits,
)

TIMES, PLUS, EQUALS, OPEN, CLOSE = range(10, 15)


class LongMultiplicationGenerator(AlgorithmicGenerator):
    """Products of two numbers, by way of the partial products of the second number's digits.

    ::

        3400*5100=5120+0340+0000+0000=5460

    means 43 * 15 = 215 + 430 = 645: all numbers have their least significant digit first, and the first
    number is never the smaller. Partial product *i* is the first number times digit *i* of the second,
    *i* places further to the right: it begins with *i* zeros. With `pad_with_zeros` every number has
    twice as many digits as the first, and there are as many partial products. Without it, no number is
    padded, and there is a partial product for each digit of the second number::

        34*51=512+034=546

    With `generate_carry` each digit of a partial product or of the product, except a number's last, is
    followed by its carry to the next digit, in brackets. In a partial product a carry has one digit; in the
    product it may have more, least significant first as everywhere. Here, 3 * 5 gives the digit 5 and the
    carry 1; 4 * 5 + 1 gives the digit 1 and the carry 2::

        34*51=5(1)1(2)2+0(0)3(0)4=5(0)4(0)6

    Reference: the query that predicts digit *j* of partial product *i* looks at digit *i* of the second
    number and at digit *j* - *i* of the first (at the zero there if it is padded; nowhere if the number ends
    before). The *i* zeros in front have no reference: no digit determines them. With carries, the query also
    looks at the carry of the digit before, and the query that predicts a carry looks where its digit's does.
    Unpadded, a partial product that is a single 0 because digit *i* is 0 looks at that digit only.
    Separators, brackets, the final product (as in the study: a model need not look at its own output) and the
    end have no reference.

    Args:
        length: fewest and most digits of a number; each has exactly the drawn number of digits.
        pad_with_zeros: whether all numbers are equally long.
        generate_carry: whether carries are written.
        **settings: see `AlgorithmicGenerator`. With `as_published` the shift is ignored (digit *j* of every
            partial product looks at digit *j* of the first number) and in a chat the rows of the tokens
            between question and answer are evaluated; it needs `pad_with_zeros` and no carries.
    """

    NAME = "long multiplication"
    INSTRUCTION = (
        "\nMultiply the two numbers. Every number is written with its least significant digit first.\n"
        "Take the digits of the second number from left to right, and multiply the first number by each:\n"
        "these are the partial products, each one place further to the right. Then write their sum.\n"
        "Write the digits of these numbers with + and = between them, and nothing else.\n"
    )

    def __init__(
        self,
        *,
        length: Sequence[int] = (1, 20),
        pad_with_zeros: bool = True,
        generate_carry: bool = False,
        **settings: Any,
    ) -> None:
        self.length = bounds("length", length, 1)
        self.pad_with_zeros = switch("pad_with_zeros", pad_with_zeros)
        self.generate_carry = switch("generate_carry", generate_carry)
        fits = not settings.get("as_published") or (pad_with_zeros and not generate_carry)
        check(fits, "as_published must be with pad_with_zeros, and without generate_carry", True)
        room = 2 * self.length[1]
        longest = (room + 3) * (room + 1) * (1 + 3 * generate_carry)  # a digit, and its carry in brackets
        super().__init__(DIGITS + "*+=" + "()" * generate_carry, longest, **settings)

    def _draw(self, rng: np.random.Generator, n: int) -> Texts:
        sizes = rng.integers(self.length[0], self.length[1] + 1, (n, 2))
        digits = draw_digits(rng, sizes, self.length[1])
        order = _larger_first(digits)
        return self._write(
            np.take_along_axis(digits, order[..., None], 1), np.take_along_axis(sizes, order, 1)
        )

    def _write(self, digits: np.ndarray, sizes: np.ndarray, width: int = 0) -> Texts:
        """Texts of two numbers each [text number digit] with `sizes` digits, padded to `width` if given."""
        room = max(int(2 * sizes.max()), width)
        factors = np.zeros((len(digits), 2, room), dtype=np.int16)
        factors[..., : digits.shape[2]] = digits[..., :room]
        partial, carries = carried(_shifted(factors[:, 0], 0) * factors[:, 1, :, None])
        total, total_carries = carried(partial.sum(1, dtype=np.int16))
        if self.pad_with_zeros:
            common = np.maximum(np.maximum(width, sizes[:, 0]), n_digits(total)) if width else 2 * sizes[:, 0]
            parts = np.repeat(common[:, None], room + 3, axis=1)
        else:
            parts = np.concatenate([sizes, n_digits(partial), n_digits(total)[:, None]], axis=1)
        products = parts[:, 0] if self.pad_with_zeros else sizes[:, 1]
        parts[:, 2:-1][np.arange(room) >= products[:, None]] = 0
        return self._packed(
            np.concatenate([factors, partial, total[:, None]], axis=1),
            np.concatenate([np.zeros_like(factors), carries, total_carries[:, None]], axis=1),
            parts,
        )

    def _packed(self, digits: np.ndarray, carries: np.ndarray, sizes: np.ndarray) -> Texts:
        """Texts of numbers [text number digit]: the factors, the partial products, the product."""
        n, numbers, room = digits.shape
        place = np.arange(room)
        cells, keep = digits[..., None], (place < sizes[..., None])[..., None]
        if self.generate_carry:
            bracketed, shown = _in_brackets(carries, place < sizes[..., None] - 1)
            cells, keep = np.concatenate([cells, bracketed], axis=3), np.concatenate([keep, shown], axis=3)
        unit = cells.shape[3]
        separator = np.full((n, numbers, 1), PLUS, dtype=cells.dtype)
        separator[:, 0], separator[:, 1] = TIMES, EQUALS
        last = (sizes[:, 2:-1] > 0).sum(1) + 1
        separator[np.arange(n), last] = EQUALS
        separated = sizes[..., None] > 0
        separated[:, -1] = False
        symbols, lengths, positions = pack(
            np.concatenate([cells.reshape(n, numbers, -1), separator], axis=2).astype(np.uint8),
            np.concatenate([keep.reshape(n, numbers, -1), separated], axis=2),
        )
        positions = positions[..., :-1].reshape(n, numbers, room, unit)
        places = {
            "first": positions[:, 0, :, 0],
            "second": positions[:, 1, :, 0],
            "digit": positions[:, 2:-1, :, 0],
            "nothing": digits[:, 1] == 0,
        }
        if self.generate_carry:
            places["carry"] = positions[:, 2:-1, :, 2]
        return Texts(symbols, lengths, positions[:, 2, 0, 0].astype(lengths.dtype), places)

    def _pairs(self, texts: Texts) -> Pairs:
        first, second, digit = (texts.places[name] for name in ("first", "second", "digit"))
        room = first.shape[1]
        second = np.repeat(second[..., None], room, axis=2)
        if self.as_published:
            return pairs(digit[..., None] - 1, np.stack([np.repeat(first[:, None], room, 1), second], axis=3))
        first = _shifted(first, -1)
        second = np.where(np.arange(room) >= np.arange(room)[:, None], second, -1)
        if not self.pad_with_zeros:
            alone = texts.places["nothing"]
            first = np.where(alone[..., None], -1, first)
            second[..., 0] = np.where(alone, texts.places["second"], second[..., 0])
        keys = np.stack([first, second], axis=3)
        if not self.generate_carry:
            return pairs(digit[..., None] - 1, keys)
        carry = texts.places["carry"]
        before = np.full_like(carry, -1)
        before[..., 1:] = np.where(np.arange(1, room) > np.arange(room)[:, None], carry[..., :-1], -1)
        keys = np.concatenate([keys, before[..., None]], axis=3)
        return pairs(np.stack([digit, carry], axis=3)[..., None] - 1, keys[..., None, :])

    def _published_labels(self) -> Labels:
        return Labels(early_rows=len(self._layout.middle_ids))

    def _read(self, text: str) -> Texts:
        number = r"[0-9](\([0-9]+\)[0-9])*" if self.generate_carry else "[0-9]+"
        if not re.fullmatch(rf"[0-9]+\*[0-9]+=({number}\+)*{number}={number}", text):
            raise self._unlike(text, ", with carries" * self.generate_carry)
        bare = re.split(r"[*+=]", re.sub(r"\([0-9]+\)", "", text))  # without carries
        width = common_size(text, bare) if self.pad_with_zeros else 0
        digits = typed_digits(bare[:2])
        if _larger_first(digits[None])[0, 0] == 1:
            raise ValueError(f"the first number should not be the smaller one; in {text!r} it is")
        return self._write(digits[None], n_digits(digits)[None], width)

    def _examples(self) -> list[str]:
        digits = [typed_digits(numbers)[None] for numbers in (["34", "51"], ["1", "1"], ["99", "99"])]
        return [self._strings(self._write(number, n_digits(number)))[0] for number in digits]


def _in_brackets(carries: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells for the bracketed carry of every digit, and a mask of those in use (none in the factors)."""
    there[:, :2] = False
    most = len(str(int(carries.max())))
    digits = carries[..., None] // 10 ** np.arange(most) % 10
    bracket = np.ones_like(digits[..., :1])
    shown = there[..., None] & (np.arange(most) < n_digits(digits)[..., None])
    cells = np.concatenate([OPEN * bracket, digits, CLOSE * bracket], axis=3)
    return cells, np.concatenate([there[..., None], shown, there[..., None]], axis=3)


def _shifted(rows: np.ndarray, nothing: int) -> np.ndarray:
    """Each row [text place] moved by 0, 1, 2, ... places: [text shift place]."""
    room = rows.shape[1]
    source = np.arange(room) - np.arange(room)[:, None]
    return np.where(source >= 0, rows[:, np.maximum(source, 0)], nothing)


def _larger_first(digits: np.ndarray) -> np.ndarray:
    """The order [text 2] of two numbers [text 2 digit] that puts the larger one first."""
    differs = digits[:, 0].astype(np.int8) - digits[:, 1].astype(np.int8)
    highest = differs.shape[1] - 1 - (differs[:, ::-1] != 0).argmax(1)
    swap = differs[np.arange(len(digits)), highest] < 0
    return np.where(swap[:, None], [1, 0], [0, 1])
