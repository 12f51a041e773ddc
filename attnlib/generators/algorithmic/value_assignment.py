"""Value assignment: a table of symbols and their values, then a string whose symbols are to be translated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from attnlib.generators.algorithmic.base import AlgorithmicGenerator
from attnlib.generators.algorithmic.string_reversal import ALPHANUMERIC
from attnlib.generators.algorithmic.texts import Pairs, Texts, bounds, characters, pack, pairs
from attnlib.generators.exchange import other_of

SEPARATORS = " ="


class ValueAssignmentGenerator(AlgorithmicGenerator):
    """Translation by a table in the question: every symbol, then its value.

    ::

        H3K8U1D5 HKKHD=38835

    After the table come a space, the string, and its translation. The table's symbols are different ones;
    their values are drawn with replacement from as many different characters as the table has symbols.

    Reference: the query that predicts a value looks at the symbol of the string that it is the value of, and
    at that symbol and its value in the table: three keys. The end has no reference.

    Args:
        charset_from: characters from which symbols are drawn, each once. A set is sorted.
        charset_to: characters from which values are drawn, each once. A set is sorted.
        length: fewest and most symbols of the string.
        encoding_length: fewest and most symbols in the table. (The study's 100 are more than its characters.)
        **settings: see `AlgorithmicGenerator`. `as_published` changes nothing.
    """

    NAME = "value assignment"
    INSTRUCTION = (
        "\nTranslate a string by a table. The table is a row of pairs, such as A1: a symbol and its value.\n"
        "After the table comes the string; replace each of its symbols by the symbol's value.\n"
        "Write the values and nothing else.\n"
    )

    def __init__(
        self,
        *,
        charset_from: Iterable[str] = ALPHANUMERIC,
        charset_to: Iterable[str] = ALPHANUMERIC,
        length: Sequence[int] = (1, 100),
        encoding_length: Sequence[int] = (1, 62),
        **settings: Any,
    ) -> None:
        self.length = bounds("length", length, 1)
        self.encoding_length = bounds("encoding_length", encoding_length, 1)
        most, why = self.encoding_length[1], f" by encoding_length={self.encoding_length}"
        self.charset_from = characters("charset_from", charset_from, SEPARATORS, most, why)
        self.charset_to = characters("charset_to", charset_to, SEPARATORS, most, why)
        alphabet = "".join(dict.fromkeys(self.charset_from + self.charset_to))
        self._from = np.array([alphabet.index(one) for one in self.charset_from], dtype=np.uint16)
        self._to = np.array([alphabet.index(one) for one in self.charset_to], dtype=np.uint16)
        super().__init__(alphabet + SEPARATORS, 2 * (most + self.length[1] + 1), **settings)

    def _draw(self, rng: np.random.Generator, n: int) -> Texts:
        most = self.encoding_length[1]
        sizes = rng.integers(self.encoding_length[0], most + 1, n)[:, None]
        lengths = rng.integers(self.length[0], self.length[1] + 1, n)
        keys = self._from[rng.random((n, len(self._from))).argsort(1)[:, :most]]
        subset = self._to[rng.random((n, len(self._to))).argsort(1)[:, :most]]
        values = np.take_along_axis(subset, rng.integers(0, sizes, (n, most)), axis=1)
        asked = rng.integers(0, sizes, (n, self.length[1]))
        return self._write(keys, values, sizes[:, 0], asked, lengths)

    def _write(
        self, keys: np.ndarray, values: np.ndarray, sizes: np.ndarray, asked: np.ndarray, lengths: np.ndarray
    ) -> Texts:
        """Texts of tables (the first `sizes` of `keys` and `values`) and strings (table indices `asked`)."""
        n, most = keys.shape
        space, equals = (np.full((n, 1), len(self.alphabet) - back, dtype=keys.dtype) for back in (2, 1))
        table = np.stack([keys, values], axis=2).reshape(n, 2 * most)
        inputs, outputs = (np.take_along_axis(column, asked, axis=1) for column in (keys, values))
        cells = np.concatenate([table, space, inputs, equals, outputs], axis=1)
        filled, real = np.arange(2 * most) < 2 * sizes[:, None], np.arange(asked.shape[1]) < lengths[:, None]
        one = np.ones((n, 1), dtype=bool)
        symbols, total, positions = pack(cells, np.concatenate([filled, one, real, one, real], axis=1))
        longest = asked.shape[1]
        places = {
            "answer": positions[:, -longest:],
            "input": positions[:, 2 * most + 1 : 2 * most + 1 + longest],
            "key": np.where(real, 2 * asked, -1),
        }
        return Texts(symbols, total, 2 * sizes + lengths + 2, places)

    def _pairs(self, texts: Texts) -> Pairs:
        answer, own, key = (texts.places[name] for name in ("answer", "input", "key"))
        value = np.where(key >= 0, key + 1, -1)
        return pairs(answer[:, :, None] - 1, np.stack([own, key, value], axis=2))

    def _read(self, text: str) -> Texts:
        table, _, rest = text.partition(" ")
        asked, _, _ = rest.partition("=")
        keys, values = table[::2], table[1::2]
        strange = {
            "charset_from": sorted(set(keys + asked) - set(self.charset_from)),
            "charset_to": sorted(set(values) - set(self.charset_to)),
        }
        if text.count(" ") != 1 or text.count("=") != 1 or not table or not asked or len(table) % 2:
            raise self._unlike(text)
        for name, found in strange.items():
            if found:
                raise ValueError(f"{text!r} has {', '.join(map(repr, found))}, which are not in {name}")
        missing = sorted(set(asked) - set(keys))
        if missing or len(set(keys)) < len(keys):
            problem = f"has no {', '.join(map(repr, missing))}" if missing else "has a symbol twice"
            raise ValueError(
                f"the table should have every symbol of the string, once; in {text!r} it {problem}"
            )
        return self._write(
            np.array([[self.alphabet.index(key) for key in keys]], dtype=np.uint16),
            np.array([[self.alphabet.index(value) for value in values]], dtype=np.uint16),
            np.array([len(keys)]),
            np.array([[keys.index(symbol) for symbol in asked]]),
            np.array([len(asked)]),
        )

    def _redrawn(self, text: str, keys: Sequence[int], rng: np.random.Generator) -> str | None:
        table, rest = text.split(" ")
        asked, answer = rest.split("=")
        at = min(keys) // 2 * 2  # of the three keys, those in the table come first
        if at >= len(table):
            return None
        symbol, value = table[at], table[at + 1]
        free = "".join(each for each in self.charset_from if each not in table[::2]) or symbol
        another = other_of(free, symbol, rng)
        entry = another + other_of(self.charset_to, value, rng)
        return f"{table[:at]}{entry}{table[at + 2 :]} {asked.replace(symbol, another)}={answer}"

    def _examples(self) -> list[str]:
        texts = []
        for size, order in ((min(6, self.encoding_length[1]), [0, 1, 1, 0, 3, 5, 4]), (1, [0, 0])):
            table = dict(zip(self.charset_from[:size], self.charset_to[::-1], strict=False))
            asked = [self.charset_from[place % size] for place in order]
            pairs_ = "".join(key + value for key, value in table.items())
            texts.append(f"{pairs_} {''.join(asked)}={''.join(table[symbol] for symbol in asked)}")
        return texts
