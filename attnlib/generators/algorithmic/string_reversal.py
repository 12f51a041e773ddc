"""String reversal: a string of symbols, and the same symbols in reverse order."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from attnlib.generators.algorithmic.base import AlgorithmicGenerator
from attnlib.generators.algorithmic.samples import Labels
from attnlib.generators.algorithmic.texts import Pairs, Texts, bounds, characters, pack, pairs
from attnlib.generators.exchange import with_others

ALPHANUMERIC = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""The 62 symbols of the study."""


class StringReversalGenerator(AlgorithmicGenerator):
    """Strings of symbols, drawn independently and uniformly, and their reverse.

    ::

        dh13h=h31hd

    Reference: the query that predicts a symbol of the reversed string looks at the place of the string where
    that symbol stands: symbol *i* of the answer is symbol *n* - 1 - *i* of the *n* of the question. The end
    has no reference.

    Args:
        charset: the symbols, each once. A set is sorted, so that it means the same in every process.
        length: fewest and most symbols.
        **settings: see `AlgorithmicGenerator`. With `as_published` the string's first symbol is not
            evaluated, except for the query that predicts the last.
    """

    NAME = "string reversal"
    INSTRUCTION = (
        "\nWrite the string of symbols in reverse order: its last symbol first, its first symbol last.\n"
        "Write the symbols of the reversed string and nothing else.\n"
    )

    def __init__(
        self, *, charset: Iterable[str] = ALPHANUMERIC, length: Sequence[int] = (1, 100), **settings: Any
    ) -> None:
        self.charset = characters("charset", charset, "=")
        self.length = bounds("length", length, 1)
        super().__init__(self.charset + "=", 2 * self.length[1] + 1, **settings)

    def _draw(self, rng: np.random.Generator, n: int) -> Texts:
        lengths = rng.integers(self.length[0], self.length[1] + 1, n)
        return self._write(rng.integers(0, len(self.charset), (n, self.length[1]), dtype=np.uint16), lengths)

    def _write(self, strings: np.ndarray, lengths: np.ndarray) -> Texts:
        real = np.arange(strings.shape[1]) < lengths[:, None]
        equals = np.full((len(strings), 1), len(self.charset), dtype=strings.dtype)
        cells = np.concatenate([strings, equals, strings[:, ::-1]], axis=1)
        keep = np.concatenate([real, np.ones_like(equals, dtype=bool), real[:, ::-1]], axis=1)
        symbols, sizes, positions = pack(cells, keep)
        question, answer = positions[:, : strings.shape[1]], positions[:, : strings.shape[1] : -1]
        return Texts(symbols, sizes, lengths + 1, {"question": question, "answer": answer})

    def _pairs(self, texts: Texts) -> Pairs:
        return pairs(texts.places["answer"] - 1, texts.places["question"])

    def _published_labels(self) -> Labels:
        return Labels(skipped_keys=1)

    def _read(self, text: str) -> Texts:
        question = text.partition("=")[0]
        strange = sorted(set(question) - set(self.charset))
        if text.count("=") != 1 or not question or strange:
            problem = f"has {', '.join(map(repr, strange))}, not in charset" if strange else "is not"
            raise ValueError(f"a text of {self.NAME} is like {self._examples()[0]!r}; {text!r} {problem}")
        symbols = np.array([[self.charset.index(symbol) for symbol in question]], dtype=np.uint16)
        return self._write(symbols, np.array([len(question)]))

    def _redrawn(self, text: str, keys: Sequence[int], rng: np.random.Generator) -> str:
        return with_others(text, dict.fromkeys(keys, self.charset), rng)

    def _examples(self) -> list[str]:
        chosen = (self.charset[::7], self.charset[1::5], self.charset[:1])
        return [f"{text}={text[::-1]}" for text in chosen if text]
