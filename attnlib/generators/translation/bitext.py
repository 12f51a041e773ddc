"""A bitext: train, validation and test sentences with their translations, and the tokens of both."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from attnlib.checks import check, check_at_least
from attnlib.generators.sources import ORDER
from attnlib.generators.tokenizer import EOS_ID
from attnlib.generators.translation.pairs import Pairs
from attnlib.generators.translation.subwords import Subwords

if TYPE_CHECKING:
    import pandas as pd


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
        about: source, differences from the original, and numbers of sentences left out and cut; can be
            stored as JSON.
    """

    name: str
    languages: tuple[str, str]
    subwords: Subwords
    train: Pairs
    validation: Pairs
    test: Pairs
    about: dict[str, Any] = field(default_factory=dict)

    def encode(self, sentence: str, translation: str = "") -> Pairs:
        """A sentence of your own and its translation as `Pairs`; an empty sentence raises `ValueError`."""
        check(sentence.split(), "a sentence must have at least one word", sentence)
        return encode(self.subwords, [(sentence, translation)])[0]

    def peek(self, n: int = 5) -> pd.DataFrame:
        """A table of the first `n` training sentences."""
        import pandas as pd

        check_at_least(1, n=n)
        return pd.DataFrame(self.train.texts[:n], columns=list(self.languages))

    @property
    def sizes(self) -> pd.DataFrame:
        """Sentences, their mean and largest length in tokens, and how many were cut, per split."""
        import pandas as pd

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
    """Encoded pairs of sentences, each sentence cut after `max_length` tokens; and how many pairs are cut."""
    sides: dict[str, torch.Tensor] = {}
    long: set[int] = set()
    most = sys.maxsize if max_length is None else max_length + 2  # with `<bos>` and `<eos>`
    for place, side in enumerate(("source", "target")):
        ids = subwords.encode([pair[place] for pair in texts])
        long |= {row for row, each in enumerate(ids) if len(each) > most}
        ids = [[*each[: most - 1], EOS_ID] if len(each) > most else each for each in ids]
        sides[side] = torch.tensor([index for each in ids for index in each], dtype=torch.int64)
        sides[f"{side}_lengths"] = torch.tensor([len(each) for each in ids], dtype=torch.int64)
    return Pairs(**sides, texts=tuple(texts)), len(long)
