"""A bitext: train, validation and test sentences with their translations, and the tokens of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch

from attnlib.generators.translation.pairs import EOS_ID, Pairs
from attnlib.generators.translation.sources import Lines
from attnlib.generators.translation.subwords import Subwords

ORDER = ("test", "validation", "train")
"""Which split keeps a sentence that is in several."""


@dataclass(frozen=True)
class Bitext:
    """Sentences and their translations, ready to train on.

    Attributes:
        name: what the data set is called in code.
        languages: source and target.
        subwords: the tokens of both languages, from the training text.
        train: what models are trained on.
        validation: what checkpoints are chosen by.
        test: what is reported. (The original chooses and reports on one set, its validation set.)
        about: where it is from, what differs from the original, what was left out and cut; as JSON can hold
            it.
    """

    name: str
    languages: tuple[str, str]
    subwords: Subwords
    train: Pairs
    validation: Pairs
    test: Pairs
    about: dict[str, Any] = field(default_factory=dict)

    def encode(self, sentence: str, translation: str = "") -> Pairs:
        """One sentence of your own, and what is taken for its translation.

        Raises:
            ValueError: the sentence has no words.
        """
        if not sentence.split():
            raise ValueError("a sentence should have at least one word; got an empty one")
        return encode(self.subwords, [(sentence, translation)])[0]

    def peek(self, n: int = 5) -> pd.DataFrame:
        """A table of the first `n` training sentences."""
        return pd.DataFrame(self.train.texts[:n], columns=list(self.languages))

    @property
    def sizes(self) -> pd.DataFrame:
        """Sentences, their mean and largest length in tokens, and how many were cut, per split."""
        rows = []
        for split in reversed(ORDER):
            pairs: Pairs = getattr(self, split)
            row = {"split": split, "sentences": len(pairs)}
            for language, lengths in zip(
                self.languages, (pairs.source_lengths, pairs.target_lengths), strict=True
            ):
                row |= {f"mean length, {language}": float(lengths.double().mean())}
                row |= {f"longest, {language}": int(lengths.max())}
            rows.append(row | {"cut": self.about.get("cut", {}).get(split, 0)})
        return pd.DataFrame(rows)


def encode(
    subwords: Subwords, texts: Sequence[tuple[str, str]], max_length: int | None = None
) -> tuple[Pairs, int]:
    """Texts as pairs of sentences, each cut after `max_length` tokens; and how many were cut."""
    sides: dict[str, torch.Tensor] = {}
    long: set[int] = set()
    for place, side in enumerate(("source", "target")):
        ids = subwords.encode([pair[place] for pair in texts])
        if max_length is not None:
            too_long = {row for row, each in enumerate(ids) if len(each) > max_length + 2}
            ids = [[*each[: max_length + 1], EOS_ID] if len(each) > max_length + 2 else each for each in ids]
            long |= too_long
        sides[side] = torch.tensor([index for each in ids for index in each], dtype=torch.int64)
        sides[f"{side}_lengths"] = torch.tensor([len(each) for each in ids], dtype=torch.int64)
    return Pairs(**sides, texts=tuple(texts)), len(long)


def without_copies(tables: dict[str, Lines], about: dict[str, Any]) -> dict[str, Lines]:
    """The sentences that have a translation, each source sentence in one split only.

    A sentence may stand in its own split several times, with other translations.

    Raises:
        ValueError: no sentence is left.
    """
    clean: dict[str, Lines] = {}
    seen: set[str] = set()
    left = {"one side empty": 0, "copies": 0}
    for split in [*ORDER, "all"]:
        if split not in tables:
            continue
        kept: dict[tuple[str, str], None] = {}
        for pair in tables[split]:
            empty, copy = not (pair[0] and pair[1]), pair[0] in seen or pair in kept
            left["one side empty"] += empty
            left["copies"] += copy and not empty
            if not empty and not copy:
                kept[pair] = None
        seen |= {source for source, _ in kept}
        clean[split] = list(kept)
    about["left out"] = left
    if not sum(map(len, clean.values())):
        raise ValueError(f"sentences should have translations; {about['source']} has none that does")
    return clean
