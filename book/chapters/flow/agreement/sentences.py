"""A sentence up to the verb whose number is predicted, and its encoding for a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from attnlib.generators.base import IGNORE, Batch
from attnlib.generators.classification.vocabulary import Vocabulary
from attnlib.generators.order import EpochBatches, chunks
from attnlib.generators.tokenizer import BOS, PAD, UNK


@dataclass(frozen=True)
class Sentence:
    """Words up to the verb, and the class to predict from them.

    Attributes:
        label: 1 if the verb is plural, 0 if it is singular; in other tasks, the class.
        attractors: nouns of the other number between the subject and the verb.
        subject: the index of the subject's noun among the words; None where it is unknown.
    """

    words: tuple[str, ...]
    label: int
    attractors: int = 0
    subject: int | None = None

    def __post_init__(self) -> None:
        if not self.words or self.label not in (0, 1):
            raise ValueError(f"a sentence should have words, and the label 0 or 1; got {self}")
        if self.subject is not None and not 0 <= self.subject < len(self.words):
            raise ValueError(f"subject should be a place from 0 to {len(self.words) - 1}; got {self.subject}")


ENDINGS = ("ing", "ed", "ly", "ss", "us", "s", "")
"""A rare word is replaced by the first of these endings that fits. (Linzen et al. replaced it by its part of
speech, which also reveals a noun's number.)"""


def without_rare(words: Sequence[str], known: Container[str]) -> list[str]:
    """The words, with unknown ones replaced by their ending: "zithers" by "<...s>"."""
    return [
        word if word in known else f"<...{next(end for end in ENDINGS if word.endswith(end))}>"
        for word in words
    ]


def vocabulary_of(sentences: Sequence[Sentence], more_than: int = 2) -> Vocabulary:
    """The words that occur more than `more_than` times, and the endings of other words that do."""
    known = Vocabulary.of([each.words for each in sentences], more_than)
    rare = Counter(
        word for each in sentences for word in without_rare(each.words, known.ids) if word not in known.ids
    )
    return Vocabulary((*known.words, *(ending for ending, n in rare.most_common() if n > more_than)))


@dataclass(frozen=True)
class SentenceTask:
    """Encodes sentences for a model: `<bos>`, which stands for the whole sentence (CLS), and the words.

    Attributes:
        at_end: predict at the last word instead of `<bos>`, as a causal model has to.
    """

    vocabulary: Vocabulary
    at_end: bool = False

    @property
    def replacement(self) -> int:
        """The id that replaces a word in occlusion."""
        return self.vocabulary.ids[UNK]

    def length(self, sentence: Sentence) -> int:
        """How many tokens a model reads of a sentence."""
        return 1 + len(sentence.words)

    def batch(self, sentences: Sequence[Sentence]) -> Batch:
        """Sentences as one rectangle."""
        if not sentences:
            raise ValueError("there should be sentences; there are none")
        lengths = np.array([self.length(each) for each in sentences])
        ids = np.full((len(sentences), lengths.max()), self.vocabulary.ids[PAD])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids[mask] = np.concatenate([self._encode(each.words) for each in sentences])
        query = lengths - 1 if self.at_end else np.zeros_like(lengths)
        rows, targets = np.arange(len(sentences)), np.full_like(ids, IGNORE)
        targets[rows, query] = [each.label for each in sentences]
        places = [-1 if each.subject is None else each.subject for each in sentences]
        reference = evaluated = None
        if min(places) >= 0:
            reference, evaluated = (np.zeros((*ids.shape, ids.shape[1]), bool) for _ in range(2))
            reference[rows, query, 1 + np.array(places)] = True
            evaluated[rows, query] = mask
            evaluated[..., 0] = False
        parts = (ids, targets, mask, reference, evaluated)
        return Batch(*(None if part is None else torch.from_numpy(part) for part in parts))  # type: ignore[arg-type]

    def in_batches(self, sentences: Sequence[Sentence], batch_size: int = 256) -> list[Batch]:
        """Sentences in their order, some at a time."""
        return [self.batch(sentences[part]) for part in chunks(len(sentences), batch_size)]

    def batches(
        self, sentences: Sequence[Sentence], batch_size: int, unknown: float = 0.0, seed: int = 0
    ) -> Callable[[int], Batch]:
        """The batch of every training step, sentences of like length together."""
        lengths = np.array([len(each.words) for each in sentences], dtype=np.int64)
        in_order = EpochBatches(
            lambda rows: self.batch([sentences[row] for row in rows]), lengths, batch_size, seed, pool=50
        )

        def at(step: int) -> Batch:
            batch = in_order(step)
            drawn = np.random.default_rng([seed, step, 1]).random(tuple(batch.input_ids.shape)) < unknown
            replaced = torch.from_numpy(drawn) & self.words(batch)
            batch.input_ids.masked_fill_(replaced, self.replacement)
            return batch

        return at

    def words(self, batch: Batch) -> Bool[Tensor, "batch token"]:
        """Which tokens of a batch are words: all but padding and `<bos>`."""
        return batch.attention_mask & (batch.input_ids != self.vocabulary.ids[BOS])

    def known(self, batch: Batch) -> Bool[Tensor, "batch token"]:
        """Which tokens are words in the vocabulary, which can be replaced by `<unk>`."""
        return self.words(batch) & (batch.input_ids != self.replacement)

    def _encode(self, words: Sequence[str]) -> list[int]:
        known = self.vocabulary.ids
        return self.vocabulary.encode(without_rare(words, known))[:-1]  # without the end: a verb follows
