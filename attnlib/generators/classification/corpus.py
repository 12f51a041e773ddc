"""A corpus: disjoint train, validation and test documents, and their vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from attnlib.checks import check, check_at_least
from attnlib.generators.classification.documents import Documents
from attnlib.generators.classification.vocabulary import Vocabulary, split_words
from attnlib.generators.sources import ORDER

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A document: its class, its original text, and its words."""

    label: int
    text: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, label: int, text: str) -> Row:
        """The row of a text, which is split into words."""
        return cls(label, text, tuple(split_words(text)))


@dataclass(frozen=True)
class Corpus:
    """Documents of two classes, ready to train on.

    Attributes:
        name: what the data set is called in code.
        names: what class 0 and class 1 are called.
        vocabulary: the words of the training documents.
        train: what models are trained on.
        validation: what checkpoints and regularisation are chosen by.
        test: what is reported. (The original chooses and reports on one set, its test set.)
        about: source, differences from the original, numbers of documents left out, and share of documents
            cut; can be stored as JSON.
    """

    name: str
    names: tuple[str, str]
    vocabulary: Vocabulary
    train: Documents
    validation: Documents
    test: Documents
    about: dict[str, Any] = field(default_factory=dict)

    def encode(self, texts: Sequence[str], labels: Sequence[int], max_length: int | None = None) -> Documents:
        """Your own texts as documents; unknown words become `<unk>`; an empty text raises `ValueError`."""
        rows = zip(labels, texts, strict=True)
        return encode(self.vocabulary, [Row.of(*row) for row in rows], max_length)

    def peek(self, n: int = 5) -> pd.DataFrame:
        """A table of the first `n` training documents and their classes."""
        import pandas as pd

        check_at_least(1, n=n)
        documents = self.train[:n]
        return pd.DataFrame(
            {"class": [self.names[label] for label in documents.labels.tolist()], "text": documents.texts}
        )

    @property
    def sizes(self) -> pd.DataFrame:
        """Documents, words per document and the share of class 1, per split."""
        import pandas as pd

        rows = []
        for split in reversed(ORDER):
            documents: Documents = getattr(self, split)
            lengths, ones = documents.lengths.double(), documents.labels.double()
            rows.append(
                (split, len(documents), float(lengths.mean()), int(lengths.max()), float(ones.mean()))
            )
        columns = ["split", "documents", "mean length", "longest", self.names[1]]
        return pd.DataFrame(rows, columns=columns)


def assemble(
    name: str,
    names: tuple[str, str],
    parts: dict[str, list[Row]],
    about: dict[str, Any],
    *,
    max_length: int | None = None,
    relevance: dict[str, Tensor] | None = None,
    most: dict[str, int] | None = None,
) -> Corpus:
    """A corpus of three lists of documents.

    Cutting and `<unk>` can make documents of different splits identical to a model. Such documents stay in
    one split only: in test, else in validation, else in train. The vocabulary is made from all training
    documents before any are left out. Last, `most` limits the number of documents of a split.
    """
    vocabulary = Vocabulary.of([row.words[:max_length] for row in parts["train"]])
    documents: dict[str, Documents] = {}
    seen: set[bytes] = set()
    copies = 0
    for split in ORDER:
        part = encode(vocabulary, parts[split], max_length)
        part = part if relevance is None else part.with_relevance(relevance[split])
        inputs = [ids.numpy().tobytes() for ids in part.tokens.split(part.lengths.tolist())]
        own = [row for row, ids in enumerate(inputs) if ids not in seen]
        copies += len(part) - len(own)
        documents[split] = part[torch.tensor(own[: (most or {}).get(split)], dtype=torch.int64)]
        seen |= set(inputs)
        found = set(documents[split].labels.tolist())
        demand = f"{split} of {name} ({about['source']}) must have {names[0]} and {names[1]}, without copies"
        check(found == {0, 1}, demand, [names[label] for label in found])
    left = about.get("left out", {})
    about |= {"left out": {**left, "copies": left.get("copies", 0) + copies}}
    about |= {"documents": {split: len(part) for split, part in documents.items()}}
    lengths = [len(row.words) for part in parts.values() for row in part]
    cut = sum(length > max_length for length in lengths) / len(lengths) if max_length else 0.0
    return Corpus(name, names, vocabulary, about=about | {"cut": cut}, **documents)


def encode(vocabulary: Vocabulary, rows: Sequence[Row], max_length: int | None = None) -> Documents:
    """Documents with the ids of their words, or of their first `max_length` words."""
    for label, text, words in rows:
        check(words and label in (0, 1), "a document must have words, and a label 0 or 1", (label, text))
    ids = [vocabulary.encode(row.words[:max_length]) for row in rows]
    return Documents(
        torch.tensor([index for document in ids for index in document], dtype=torch.int64),
        torch.tensor([len(document) for document in ids], dtype=torch.int64),
        torch.tensor([row.label for row in rows], dtype=torch.int64),
        tuple(row.text for row in rows),
    )
