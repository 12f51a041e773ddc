"""Sentences of the invented languages in which one unit of the dictionary stands for another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool
from torch import Tensor

from attnlib.generators.translation import Grammar, Lexicon, lexicon


class Exchanged(NamedTuple):
    """A sentence and its translation, word by word, with another unit in them."""

    source: list[str]
    target: list[str]


class Translator:
    """Exchanges units of the dictionary of a grammar, which the alignment of a sentence finds.

    Args:
        grammar: whose dictionary; the default one's if left out.
    """

    def __init__(self, grammar: Grammar | None = None) -> None:
        words: Lexicon = lexicon(grammar)
        kinds = (words.nouns, words.verbs, words.adjectives, words.adverbs)
        self.kinds = {unit: kind for kind in kinds for unit in kind}

    def exchanged(
        self,
        source: list[str],
        target: list[str],
        aligned: Bool[Tensor, "target source"],
        place: int,
        rng: np.random.Generator,
    ) -> Exchanged | None:
        """The sentence with another unit in place of that which a word translates; both keep their lengths.

        The other unit is of the same kind of word, and of as many words in both languages. Where a unit is
        two words in the target language, both are exchanged.

        Args:
            source: the words of the sentence.
            target: those of its translation.
            aligned: which translates which.
            place: of the word of the translation.
            rng: draws the other unit.
        """
        from_ = aligned[place].nonzero()[:, 0].tolist()
        into = aligned[:, from_[0]].nonzero()[:, 0].tolist()
        unit = (tuple(source[at] for at in from_), tuple(target[at] for at in into))
        same = [
            other
            for other in self.kinds.get(unit, [])  # type: ignore[call-overload]
            if other != unit and [*map(len, other)] == [*map(len, unit)]
        ]
        if not same:
            return None
        other = same[rng.integers(len(same))]
        changed = Exchanged([*source], [*target])
        for words, places, by in zip(changed, (from_, into), other, strict=True):
            for at, word in zip(places, by, strict=True):
                words[at] = word
        return changed
