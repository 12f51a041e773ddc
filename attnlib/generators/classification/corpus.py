"""A corpus: train, validation and test documents that share no document, and their vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from attnlib.generators.classification.documents import Documents
from attnlib.generators.classification.sources import (
    DATASETS,
    find_folder,
    read_hub,
    read_table,
    tables_in,
    unknown_name,
)
from attnlib.generators.classification.tables import (
    ORDER,
    allowed_labels,
    binary,
    split_in_three,
    without_copies,
)
from attnlib.generators.classification.vocabulary import Vocabulary, split_words


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
        about: where it is from, what differs from the original, what was left out; as JSON can hold it.
    """

    name: str
    names: tuple[str, str]
    vocabulary: Vocabulary
    train: Documents
    validation: Documents
    test: Documents
    about: dict[str, Any] = field(default_factory=dict)

    def encode(self, texts: Sequence[str], labels: Sequence[int], max_length: int | None = None) -> Documents:
        """Texts of your own as documents of this corpus. Unknown words are `<unk>`, be it all of them.

        Raises:
            ValueError: a text has no words, or a label is not 0 or 1.
        """
        return encode(self.vocabulary, [split_words(text) for text in texts], texts, labels, max_length)

    def peek(self, n: int = 5) -> pd.DataFrame:
        """A table of the first `n` training documents and their classes."""
        documents = self.train[:n]
        return pd.DataFrame(
            {"class": [self.names[label] for label in documents.labels.tolist()], "text": documents.texts}
        )

    @property
    def sizes(self) -> pd.DataFrame:
        """Documents, words per document and the share of class 1, per split."""
        rows = []
        for split in reversed(ORDER):
            documents: Documents = getattr(self, split)
            lengths, ones = documents.lengths.double(), documents.labels.double()
            rows.append(
                {
                    "split": split,
                    "documents": len(documents),
                    "mean length": float(lengths.mean()),
                    "longest": int(lengths.max()),
                    self.names[1]: float(ones.mean()),
                }
            )
        return pd.DataFrame(rows)


def corpus(
    name: str,
    folder: str | Path | None = None,
    *,
    classes: tuple[str, str] | None = None,
    max_length: int | None = None,
    train_documents: int | None = None,
    test_documents: int = 4000,
    seed: int = 0,
) -> Corpus:
    """A data set of the study by its name, or any other from a folder of TSV files.

    A folder holds files `train*.tsv`, `validation*.tsv` and `test*.tsv` (or `.tsv.gz`), or one `all*.tsv`;
    a header line names the columns, of which `text` and `label` (or `stars`, 1 to 5) are read. Where there
    is no test set, a fifth of the documents, drawn at random, becomes it; where there is no validation set,
    a tenth of the training documents. Stars are made binary as 1-2 against 4-5.

    Documents without words are left out. A document whose words are those of another is left out too: it
    stays in test, else in validation, else in train, once. The test set is cut to `test_documents`, as in
    the original, and so is the validation set; in random order, since some files are sorted.

    Args:
        name: one of `DATASETS`; or "planted", made by `planted` with nothing but the seed given; or, with
            `folder`, any name.
        folder: the folder with the files, or one with a subfolder of that name. Without it,
            `$ATTNLIB_DATA/classification` is looked into, and else the public source is read.
        classes: labels of class 0 and class 1, where a folder of your own has more than two; documents with
            others are left out. Otherwise the two labels in order.
        max_length: keep the first so many words of each document.
        train_documents: keep so many training documents, drawn at random. (From the public source, at most
            200,000 documents of a split are read, drawn at random.)
        test_documents: see above.
        seed: of all that is drawn.

    Raises:
        ValueError: unknown name (close ones are named), wrong columns, labels that are not two, one class
            only, documents without words.
        FileNotFoundError: the folder or its files are not there.
        ConnectionError: the public source cannot be reached.
    """
    if name == "planted":
        from attnlib.generators.classification.planted import planted

        if folder is not None or classes is not None or max_length is not None:
            raise ValueError(
                "planted is made, not read: folder, classes and max_length are not for it. Call planted() to "
                "choose how it is made."
            )
        return planted(seed=seed)
    for what, value in [
        ("max_length", max_length),
        ("train_documents", train_documents),
        ("test_documents", test_documents),
    ]:
        if value is not None and value < 1:
            raise ValueError(f"{what} should be at least 1; got {value}")
    recipe = DATASETS.get(name)
    if recipe is None and folder is None and find_folder(name, None) is None:
        raise unknown_name(name, ["planted", *DATASETS])
    place = find_folder(name, folder)
    if place is None:
        assert recipe is not None
        tables, source = read_hub(recipe, seed), f"{recipe.hub.repository}@{recipe.hub.revision}"
    else:
        files = tables_in(place)
        tables = {split: read_table(file) for split, file in files.items()}
        source = f"{place.name}/: " + ", ".join(file.name for file in files.values())
    about: dict[str, Any] = {"source": source, "differs": recipe.differs[place is not None] if recipe else ""}
    allowed = allowed_labels(tables, classes, recipe.classes if recipe else None, source)
    names = recipe.names if recipe and classes is None else tuple("|".join(sorted(c)) for c in allowed)
    rng = np.random.default_rng([seed, 1])
    two = binary(tables, allowed, source)
    about["left out"] = {"other labels": sum(map(len, tables.values())) - sum(map(len, two.values()))}
    parts = split_in_three(without_copies(two, about), rng)
    limits = {"train": train_documents, "validation": test_documents, "test": test_documents}
    parts = {split: part[: limits[split]] for split, part in parts.items()}
    about |= {"seed": seed, "max_length": max_length, "documents": {s: len(p) for s, p in parts.items()}}
    return assemble(name, (names[0], names[1]), parts, about, max_length)


def assemble(
    name: str,
    names: tuple[str, str],
    parts: dict[str, pd.DataFrame],
    about: dict[str, Any],
    max_length: int | None = None,
) -> Corpus:
    """A corpus of three tables with the columns `label` (0 or 1), `text` and `words`.

    Raises:
        ValueError: a split has documents of one class only, or none.
    """
    for split in ORDER:
        found = set(parts[split]["label"])
        if found != {0, 1}:
            only = f"only documents of {names[found.pop()]}" if found else "no documents"
            raise ValueError(
                f"{name} should have documents of both {names[0]} and {names[1]} in train, validation and "
                f"test; {split} has {only} ({about['source']})"
            )
    cut = [words[:max_length] for words in parts["train"]["words"]]
    vocabulary = Vocabulary.of(cut)
    documents = {
        split: encode(vocabulary, list(part["words"]), list(part["text"]), list(part["label"]), max_length)
        for split, part in parts.items()
    }
    return Corpus(name, names, vocabulary, about=about, **documents)


def encode(
    vocabulary: Vocabulary,
    words: Sequence[Sequence[str]],
    texts: Sequence[str],
    labels: Sequence[int],
    max_length: int | None = None,
) -> Documents:
    """Words of documents as ids.

    Raises:
        ValueError: a document has no words, or a label is not 0 or 1.
    """
    for text, found, label in zip(texts, words, labels, strict=True):
        if not found or label not in (0, 1):
            raise ValueError(
                f"a document should have words, and a label 0 or 1; got label {label!r} and text {text!r}"
            )
    ids = [vocabulary.encode(found[:max_length]) for found in words]
    return Documents(
        torch.tensor([index for document in ids for index in document], dtype=torch.int64),
        torch.tensor([len(document) for document in ids], dtype=torch.int64),
        torch.tensor(list(labels), dtype=torch.int64),
        tuple(texts),
    )
