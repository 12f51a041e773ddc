"""Split texts into words, and map words to ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnlib.checks import check
from attnlib.generators.tokenizer import BOS, EOS, SPECIAL, UNK

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def split_words(text: str) -> list[str]:
    """The words of a text, in lower case.

    Adjacent letters, digits and underscores form a word, which may have apostrophes inside; every other
    character except white space is a word of its own.

    Example:
        >>> split_words("Don't PANIC, it's 42!")
        ["don't", 'panic', ',', "it's", '42', '!']
    """
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Vocabulary:
    """The words a model knows.

    Attributes:
        words: the words, starting with the four of `SPECIAL`; the id of each is its index.
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, documents: Iterable[Sequence[str]], more_than: int = 2) -> Vocabulary:
        """The words that occur more than `more_than` times in the training documents.

        As in the original, they are ordered by descending count, then by first occurrence.
        """
        counts = Counter(word for words in documents for word in words)
        known = [word for word, n in counts.most_common() if n > more_than and word not in SPECIAL]
        check(known, f"documents must have words that occur more than {more_than} times", len(counts))
        return cls((*SPECIAL, *known))

    def __len__(self) -> int:
        """How many words there are, the special ones included."""
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each word."""
        return {word: index for index, word in enumerate(self.words)}

    def encode(self, words: Iterable[str]) -> list[int]:
        """`<bos>`, the words' ids (that of `<unk>` for unknown words), `<eos>`."""
        ids, unknown = self.ids, self.ids[UNK]
        return [ids[BOS], *(ids.get(word, unknown) for word in words), ids[EOS]]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words of ids; a word that was unknown when it was encoded is `<unk>`."""
        return [self.words[index] for index in ids]
