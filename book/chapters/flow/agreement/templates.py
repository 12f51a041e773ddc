"""Sentences up to their verb, from a small grammar in which the subject, and so the answer, is known.

    sentence  = [preposition noun-phrase ","] subject modifier* [adverb]
    subject   = noun-phrase
    noun-phrase = determiner [adjective] noun
    modifier  = preposition noun-phrase | "that" noun-phrase verb | "that" verb noun-phrase

Determiners, adjectives and verbs (all in the past tense) are the same for one and for many, so the subject's
noun is the only word that tells the verb's number. An *attractor* is a noun of the other number between the
subject and the verb; it makes the nearest noun a bad guess. Some sentences begin with a separate phrase,
so the first noun is a bad guess, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from book.chapters.flow.agreement.sentences import Sentence

NOUNS = (
    *("author senator doctor farmer teacher guard pilot student actor lawyer nurse painter singer".split()),  # noqa: SIM905
    *("sister brother neighbour officer miner key cabinet book picture door report letter car".split()),  # noqa: SIM905
    *("garden house window table bottle road river tower song engine island".split()),  # noqa: SIM905
)
"""All of them have a regular plural."""

INVENTED = 0.15
"""The share of nouns invented from syllables: too rare for the vocabulary, they teach the endings."""

DETERMINERS = ("the", "my", "our", "their", "your", "some")
ADJECTIVES = tuple("old small famous quiet broken green heavy young strange new tall lost".split())  # noqa: SIM905
PREPOSITIONS = ("near", "behind", "with", "from", "beside", "above", "without", "against")
VERBS = tuple("admired noticed painted followed described mentioned passed praised left found".split())  # noqa: SIM905
ADVERBS = ("often", "usually", "certainly", "never", "still", "probably")

ATTRACTORS = (0.35, 0.3, 0.2, 0.1, 0.05)
"""How often a sentence has 0, 1, ... attractors."""

FRONTED, DESCRIBED, ADVERB, SAME = 0.3, 0.25, 0.3, 0.3
"""Probabilities of a phrase in front, an adjective, an adverb, and a modifier of the subject's number."""


def templates(n: int, seed: int = 0) -> list[Sentence]:
    """Draw `n` different sentences, with the index of their subject."""
    if n < 1:
        raise ValueError(f"n should be at least 1; got {n}")
    rng, found = np.random.default_rng([seed, n]), dict[tuple[str, ...], Sentence]()
    while len(found) < n:
        sentence = _sentence(rng)
        found.setdefault(sentence.words, sentence)
    return [*found.values()]


def _sentence(rng: np.random.Generator) -> Sentence:
    plural = bool(rng.random() < 0.5)
    attractors = int(rng.choice(len(ATTRACTORS), p=ATTRACTORS))
    others = [not plural] * attractors + [plural] * int(rng.random() < SAME)
    words = list[str]()
    if rng.random() < FRONTED:
        words += [_one(rng, PREPOSITIONS), *_noun_phrase(rng, bool(rng.random() < 0.5)), ","]
    words += _noun_phrase(rng, plural)
    subject = len(words) - 1
    for number in rng.permutation(np.array(others, dtype=bool)):
        words += _modifier(rng, bool(number))
    if rng.random() < ADVERB:
        words.append(_one(rng, ADVERBS))
    return Sentence(tuple(words), int(plural), attractors, subject)


def _noun_phrase(rng: np.random.Generator, plural: bool) -> list[str]:
    described = [_one(rng, ADJECTIVES)] if rng.random() < DESCRIBED else []
    noun = _invented(rng) if rng.random() < INVENTED else _one(rng, NOUNS)
    return [_one(rng, DETERMINERS), *described, noun + "s" * plural]


def _invented(rng: np.random.Generator) -> str:
    return "".join(_one(rng, "bdfgklmnprtvz") + _one(rng, "aeiou") for _ in range(3)) + _one(rng, "nrlt")


def _modifier(rng: np.random.Generator, plural: bool) -> list[str]:
    noun_phrase, kind = _noun_phrase(rng, plural), rng.random()
    if kind < 0.5:
        return [_one(rng, PREPOSITIONS), *noun_phrase]
    verb = _one(rng, VERBS)
    return ["that", *noun_phrase, verb] if kind < 0.75 else ["that", verb, *noun_phrase]


def _one(rng: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(rng.integers(len(words)))]
