"""A corpus by its name: of the study, from a folder, or made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attnlib.generators.classification.corpus import Corpus, assemble
from attnlib.generators.classification.planted import planted
from attnlib.generators.classification.sources import (
    DATASETS,
    find_folder,
    read_hub,
    read_table,
    tables_in,
    unknown_name,
)
from attnlib.generators.classification.tables import allowed_labels, binary, split_in_three, without_copies

MOST_TESTED = 4000
"""Documents that the original tests on, of a larger set."""


def corpus(
    name: str,
    folder: str | Path | None = None,
    *,
    classes: tuple[str, str] | None = None,
    max_length: int | None = None,
    train_documents: int | None = None,
    test_documents: int | None = None,
    seed: int = 0,
) -> Corpus:
    """A data set of the study by its name, or any other from a folder of TSV files.

    A folder holds files `train*.tsv`, `validation*.tsv` and `test*.tsv` (or `.tsv.gz`), or one `all*.tsv`;
    a header line names the columns, of which `text` and `label` (or `stars`, 1 to 5) are read. Where there
    is no test set, a fifth of the documents, drawn at random, becomes it; where there is no validation set,
    a tenth of the training documents. Stars are made binary as 1-2 against 4-5.

    Documents without words are left out. A document whose words are those of another is left out too, and so
    is one that a model cannot tell from one of another split (see `assemble`): it stays in test, else in
    validation, else in train, once. Test and validation set are cut, in random order, since some
    files are sorted; how many documents are tested on changes nothing else.

    Args:
        name: one of `DATASETS`, in capitals or not; or "planted", made by `planted`; or, with `folder`, any.
        folder: the folder with the files, or one with a subfolder of that name. Without it,
            `$ATTNLIB_DATA/classification` is looked into, and else the public source is read.
        classes: labels of class 0 and class 1, where a folder of your own has more than two; documents with
            others are left out. Otherwise the two labels in order.
        max_length: keep the first so many words of each document.
        train_documents: keep so many training documents, drawn at random. (From the public source, at most
            200,000 documents of a split are read, drawn at random.)
        test_documents: keep so many test documents; 4,000 if left out, as in the original (of "planted",
            1,000). The validation set is cut to 4,000.
        seed: of all that is drawn.

    Raises:
        ValueError: unknown name (close ones are named), wrong columns, labels that are not two, one class
            only, documents without words.
        FileNotFoundError: the folder or its files are not there.
        ConnectionError: the public source cannot be reached.
    """
    for what, value in [
        ("max_length", max_length),
        ("train_documents", train_documents),
        ("test_documents", test_documents),
    ]:
        if value is not None and value < 1:
            raise ValueError(f"{what} should be at least 1; got {value}")
    if name.lower() == "planted":
        if folder is not None or classes is not None or max_length is not None:
            raise ValueError(
                "planted is made, not read: folder, classes and max_length are not for it. Call planted() to "
                "choose how it is made."
            )
        n_train, n_test = train_documents or 4000, test_documents or 1000
        return planted(train_documents=n_train, test_documents=n_test, seed=seed)
    name = next((known for known in DATASETS if known == name.lower()), name)
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
    parts["train"] = parts["train"][:train_documents]
    most = {"validation": MOST_TESTED, "test": test_documents or MOST_TESTED}
    about |= {"seed": seed, "max_length": max_length}
    return assemble(name, (names[0], names[1]), parts, about, max_length=max_length, most=most)
