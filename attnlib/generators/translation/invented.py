"""Two invented languages: which source word every target word translates is known."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from attnlib.checks import check_at_least
from attnlib.generators.translation.bitext import Bitext, encode
from attnlib.generators.translation.subwords import Subwords

SOUNDS = (
    "ba de fi go hu ka le mi no pu ra se ti".split(),  # noqa: SIM905
    "val nor tes kim dun sar fel lom rik gus pan bor het".split(),  # noqa: SIM905
)
"""Syllables of the source and of the target language; a word has two or three."""

MEANINGS = {
    "nouns": (
        "dog cat child woman man bird horse teacher farmer king queen fox wolf bear sailor doctor baker "
        "fish rabbit duck sheep goat mouse lion tiger friend brother sister mother father girl boy "
        "soldier thief painter singer dancer writer judge guard nurse cook miner hunter driver pilot "
        "clown giant witch ghost prince student captain tailor crow cow pig frog owl bee"
    ),
    "verbs": (
        "sees likes finds follows hears helps knows calls meets wants feeds paints loves leaves carries "
        "draws holds hides watches greets misses pulls pushes trusts thanks teaches catches chases "
        "visits warns"
    ),
    "adjectives": (
        "small old young good big happy tired kind quiet clever brave rich poor proud shy tall short "
        "strong weak hungry sleepy angry lucky lazy gentle honest noisy busy famous strange"
    ),
    "adverbs": "often today again slowly never quickly gladly always sometimes alone",
    "articles": "the a",
}
"""English translations of the invented words, by kind of word, in the order of a `Lexicon`."""


@dataclass(frozen=True, config={"extra": "forbid"})
class Grammar:
    """The two languages of `invented`; wrong values raise a `ValueError` that says what is allowed.

    Attributes:
        nouns: number of different nouns.
        verbs: number of different verbs.
        adjectives: number of different adjectives.
        adverbs: number of different adverbs.
        two_words: the chance that a noun, adjective, adverb, or verb of one word is two words in the target.
        phrasal: share of the verbs that stand with a particle in the source; both are one target word.
        clauses: number of clauses in the longest sentences.
        reordered: whether the target's word order differs; else the target follows the source word by word.
    """

    nouns: int = Field(default=40, ge=2, le=60)
    verbs: int = Field(default=20, ge=2, le=30)
    adjectives: int = Field(default=20, ge=1, le=30)
    adverbs: int = Field(default=8, ge=1, le=10)
    two_words: float = Field(default=0.2, ge=0, le=1)
    phrasal: float = Field(default=0.3, ge=0, le=1)
    clauses: int = Field(default=2, ge=1, le=6)
    reordered: bool = True


class Unit(NamedTuple):
    """Source words and the target words that translate them; all are aligned with all."""

    source: tuple[str, ...]
    target: tuple[str, ...]


class Lexicon(NamedTuple):
    """The dictionary of a `Grammar`: units by the kind of word."""

    nouns: list[Unit]
    verbs: list[Unit]
    adjectives: list[Unit]
    adverbs: list[Unit]
    articles: list[Unit]
    joiner: Unit

    @property
    def words(self) -> list[str]:
        """Every word of both languages."""
        every = [*itertools.chain(*self[:-1]), self.joiner]
        return sorted({word for unit in every for word in (*unit.source, *unit.target)})

    @property
    def meanings(self) -> dict[str, str]:
        """An English gloss for every word of both languages; all words of a unit have the same.

        The exception is the second word of a phrasal verb, which several verbs share: its gloss is "up".
        """
        found = dict.fromkeys((*self.joiner.source, *self.joiner.target), "and")
        for kind, english in MEANINGS.items():
            for unit, meaning in zip(getattr(self, kind), english.split(), strict=False):
                found |= dict.fromkeys((unit.source[0], *unit.target), meaning)
                found |= dict.fromkeys(unit.source[1:], "up")
        return found

    @property
    def kinds(self) -> dict[Unit, list[Unit]]:
        """All units of the same kind of word, for every noun, verb, adjective and adverb."""
        return {unit: kind for kind in self[:4] for unit in kind}

    def exchanged(
        self,
        source: list[str],
        target: list[str],
        aligned: Bool[Tensor, "target source"],
        place: int,
        rng: np.random.Generator,
    ) -> tuple[list[str], list[str]] | None:
        """The sentence and its translation with the unit of one target word replaced by another unit.

        The other unit is of the same kind of word and has as many words in both languages, so both sentences
        keep their lengths. If the unit has two target words, both are replaced.

        Args:
            source: the words of the sentence.
            target: the words of its translation.
            aligned: True where a target word translates a source word.
            place: the index of the target word.
            rng: draws the other unit.

        Returns:
            The new words of both sentences; `None` if there is no other such unit.
        """
        from_ = aligned[place].nonzero()[:, 0].tolist()
        into = aligned[:, from_[0]].nonzero()[:, 0].tolist()
        unit = Unit(tuple(source[at] for at in from_), tuple(target[at] for at in into))
        same = [
            other
            for other in self.kinds.get(unit, [])
            if other != unit and [*map(len, other)] == [*map(len, unit)]
        ]
        if not same:
            return None
        other = same[rng.integers(len(same))]
        changed = [*source], [*target]
        for words, places, by in zip(changed, (from_, into), other, strict=True):
            for at, word in zip(places, by, strict=True):
                words[at] = word
        return changed


def lexicon(grammar: Grammar | None = None) -> Lexicon:
    """The dictionary of a grammar; no target word belongs to two units."""
    grammar = grammar or Grammar()
    rng = np.random.default_rng(0)
    old, new = (iter(_spelled(rng, sounds)) for sounds in SOUNDS)
    particles = tuple(itertools.islice(old, 2))

    def units(n: int, phrasal: float = 0.0) -> list[Unit]:
        found = []
        for index in range(n):
            source: tuple[str, ...] = (next(old),)
            alone = index >= round(phrasal * n)
            two = alone and rng.random() < grammar.two_words
            source += () if alone else (particles[index % 2],)
            found.append(Unit(source, tuple(itertools.islice(new, 2 if two else 1))))
        return [found[i] for i in rng.permutation(n)]

    articles = [Unit((next(old),), ()) for _ in range(2)]
    return Lexicon(
        nouns=units(grammar.nouns),
        verbs=units(grammar.verbs, grammar.phrasal),
        adjectives=units(grammar.adjectives),
        adverbs=units(grammar.adverbs),
        articles=articles,
        joiner=Unit((next(old),), (next(new),)),
    )


def _spelled(rng: np.random.Generator, sounds: Sequence[str]) -> list[str]:
    """All words of two syllables in random order, then all words of three."""
    made = [["".join(each) for each in itertools.product(sounds, repeat=n)] for n in (2, 3)]
    return [words[index] for words in made for index in rng.permutation(len(words))]


def invented(
    grammar: Grammar | None = None,
    *,
    train_sentences: int = 8000,
    validation_sentences: int = 500,
    test_sentences: int = 500,
    seed: int = 0,
) -> Bitext:
    r"""A pair of languages in which the translation of every word is known.

    All sentences are different. Each has 1 to `clauses` clauses (uniform), joined by a conjunction. A
    clause is *subject verb object*, with an adverb at its end in half of the cases; subject and object are
    *article adjective noun*, the article in two thirds of the cases and the adjective in half of them. Words
    of a kind are drawn by Zipf's law: the $r$-th with probability in proportion to $1/r$. The translation
    follows from the source without exception:

    1. an article translates to nothing;
    2. a phrasal verb, two words, translates to one; some other words translate to two; the rest to one;
    3. the adjective comes after its noun; a subject's adjective comes after an object that is a noun only;
    4. the verb comes at the end of its clause. (Without `Grammar.reordered`, rules 3 and 4 do not apply.)

    So the ground truth of every target word is known: its source word, or two of them. `Pairs.alignment`
    holds it; `<eos>` translates nothing.

    Args:
        grammar: the grammar of the languages; `Grammar()` if left out.
        train_sentences: number of training sentences.
        validation_sentences: number of validation sentences.
        test_sentences: number of test sentences.
        seed: same seed, same sentences, on every machine.

    Example:
        >>> pair = invented(train_sentences=50, validation_sentences=5, test_sentences=5)
        >>> pair.test.texts[0][1]
        'gussar fellom panfel valkim dunpan lomgus gussar fellom norfel borfel gusgus'
    """
    grammar = grammar or Grammar()
    words = lexicon(grammar)
    sizes = {"train": train_sentences, "validation": validation_sentences, "test": test_sentences}
    check_at_least(1, **{f"{split}_sentences": size for split, size in sizes.items()})
    subwords, seen = Subwords.of_words(words.words), set[str]()
    parts = {}
    for index, (split, size) in enumerate(sizes.items()):
        drawn = _different(np.random.default_rng([seed, index]), size, grammar, words, seen)
        texts = [(_written(source), _written(target)) for source, target, _ in drawn]
        truth = torch.cat([torch.from_numpy(np.pad(known, ((0, 1), (1, 1))).ravel()) for *_, known in drawn])
        parts[split] = encode(subwords, texts)[0].with_alignment(truth)
    about = {"source": "invented", "differs": "synthetic: two made-up languages", "seed": seed}
    return Bitext("invented", ("old", "new"), subwords, **parts, about=about | asdict(grammar))


Sentence = tuple[list[str], list[str], Bool[np.ndarray, "target source"]]


def _different(
    rng: np.random.Generator, size: int, grammar: Grammar, words: Lexicon, seen: set[str]
) -> list[Sentence]:
    """`size` sentences that are not in `seen`; their texts are added to `seen`."""
    found: list[Sentence] = []
    for _ in range(20 * size):
        if len(found) == size:
            return found
        sentence = _sentence(rng, grammar, words)
        if (text := _written(sentence[0])) not in seen:
            seen.add(text)
            found.append(sentence)
    raise ValueError(f"sentences must be fewer, or of more clauses, for {size} to differ; got {len(found)}")


def _sentence(rng: np.random.Generator, grammar: Grammar, words: Lexicon) -> Sentence:
    """A sentence, its translation, and which words of the one are aligned with which of the other."""
    said: list[Unit] = []
    order: list[int] = []  # of the units in the target language
    for clause in range(int(rng.integers(1, grammar.clauses + 1))):
        if clause:
            order.append(len(said))
            said.append(words.joiner)
        first = len(said)
        subject, verb, thing = _phrase(rng, words), [_zipf(rng, words.verbs)], _phrase(rng, words)
        adverb = [_zipf(rng, words.adverbs)] if rng.random() < 0.5 else []
        said += [*subject, *verb, *thing, *adverb]
        places = list(range(first, len(said)))
        if grammar.reordered:
            at = len(subject)
            places.append(places.pop(at))
            for end in (at, at + len(thing)):  # swap an adjective and the noun after it (rule 3)
                if said[places[end - 2]] in words.adjectives:
                    places[end - 2 : end] = places[end - 2 : end][::-1]
        order += places
    source = [word for unit in said for word in unit.source]
    starts = np.cumsum([0, *(len(unit.source) for unit in said)])
    target: list[str] = []
    rows = []
    for index in order:
        row = np.zeros(len(source), dtype=bool)
        row[starts[index] : starts[index + 1]] = True
        rows += [row] * len(said[index].target)
        target += said[index].target
    return source, target, np.stack(rows)


def _phrase(rng: np.random.Generator, words: Lexicon) -> list[Unit]:
    """A random noun phrase: article (optional), adjective (optional), noun."""
    article = [words.articles[int(rng.integers(2))]] if rng.random() < 2 / 3 else []
    adjective = [_zipf(rng, words.adjectives)] if rng.random() < 0.5 else []
    return [*article, *adjective, _zipf(rng, words.nouns)]


def _zipf(rng: np.random.Generator, units: Sequence[Unit]) -> Unit:
    upto = _harmonic(len(units))
    return units[bisect.bisect_left(upto, rng.random() * upto[-1])]


@functools.cache
def _harmonic(n: int) -> list[float]:
    """The sums 1, 1 + 1/2, ..., 1 + ... + 1/n."""
    return list(itertools.accumulate(1 / rank for rank in range(1, n + 1)))


def _written(words: Sequence[str]) -> str:
    return " ".join(words)
