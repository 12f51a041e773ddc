"""Load a corpus by its name, from a folder of tables or its public source, or generate it.

The original's files are not public, and its labels were already binary; it does not say which two classes of
AG News and of 20 Newsgroups it used. `DATASETS` says which are used here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnlib.checks import check, check_at_least
from attnlib.generators.classification.corpus import Corpus, Row, assemble
from attnlib.generators.classification.planted import planted
from attnlib.generators.sources import (
    DATA_VARIABLE,
    SPLITS,
    files_of,
    found_set,
    read_columns,
    split_in_three,
    tables_in,
    two_different,
    without_copies,
)

MOST_TESTED = 4000
"""The default largest number of validation and of test documents (the original's for its test set)."""

Table = dict[str, list[str]]
"""The columns of a data set's file: its labels, by the name `label` or `stars`, then `text`."""

Classes = tuple[frozenset[str], frozenset[str]]
"""The labels of class 0 and those of class 1; documents with other labels are left out."""

STARS: Classes = (frozenset({"1", "2"}), frozenset({"4", "5"}))
"""The classes in a column `stars`; three stars belong to neither."""


@dataclass(frozen=True)
class Hub:
    """A data set on the Hugging Face hub.

    Attributes:
        repository: the name of its repository.
        revision: the commit that is read.
        text: the columns that are joined to a document.
        splits: pairs of our name and the hub's name of a split.
    """

    repository: str
    revision: str
    text: tuple[str, ...] = ("text",)
    splits: tuple[tuple[str, str], ...] = (("train", "train"), ("test", "test"))


@dataclass(frozen=True)
class Recipe:
    """Where a data set's files are, and how they are read.

    Attributes:
        title: the data set's display name.
        folder: the name of its folder.
        classes: the labels of class 0 and of class 1, as they are in the folder's or the hub's files.
        hub: the public source.
        names: names of the two classes.
        differs: known or possible differences from the original's data: the hub's data, then a folder's.
    """

    title: str
    folder: str
    classes: Classes
    hub: Hub
    names: tuple[str, str] = ("negative", "positive")
    differs: tuple[str, str] = ("", "")


def _classes(zero: str, one: str) -> Classes:
    return frozenset(zero.split("|")), frozenset(one.split("|"))


DATASETS: Mapping[str, Recipe] = {
    "ag_news": Recipe(
        "AG News",
        "ag_news",
        _classes("World|0", "Business|2"),
        Hub("fancyzhx/ag_news", "eb185aade064a813bc0b7f42de02595523103ca4"),
        ("World", "Business"),
        (
            "World against Business, the field's usual pair; the original's is not known",
            "World against Business, the field's usual pair; descriptions without titles; a part of the "
            "training set",
        ),
    ),
    "newsgroups20": Recipe(
        "20 Newsgroups",
        "newsgroups20",
        _classes("rec.sport.baseball", "rec.sport.hockey"),
        Hub("SetFit/20_newsgroups", "f1b91292074e7cfb69be58b642d583ec262f30ed"),
        ("baseball", "hockey"),
        (
            "baseball against hockey, the field's usual pair; without headers, footers and quotes",
            "baseball against hockey, the field's usual pair; without headers; posts cut",
        ),
    ),
    "imdb": Recipe(
        "IMDB",
        "imdb",
        _classes("neg|0", "pos|1"),
        Hub("stanfordnlp/imdb", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"),
        differs=("", "10,000 of 25,000 training reviews"),
    ),
    "amazon": Recipe(
        "Amazon",
        "amazon_polarity_mtl",
        _classes("0", "1"),
        Hub("fancyzhx/amazon_polarity", "9d9c45c18f8c3cf1b23a3c27917b60cbf28f3289", ("title", "content")),
        differs=("", "another collection: reviews of 14 domains (Liu et al. 2017)"),
    ),
    "yelp": Recipe(
        "Yelp",
        "yelp_reviews",
        _classes("0", "1"),
        Hub("fancyzhx/yelp_polarity", "bbf1c97a1f0cf005e5aded43839fd814654a1557"),
        differs=("", "another collection: 5,000 training reviews (Yue et al. 2023), 1-2 stars against 4-5"),
    ),
    "sms": Recipe(
        "SMS Spam",
        "sms_spam",
        _classes("ham|0", "spam|1"),
        Hub("ucirvine/sms_spam", "cae486f927c250fe1d4a5b55f11357964ed1646c", ("sms",), (("all", "train"),)),
        ("ham", "spam"),
        ("there is no original split: drawn here",) * 2,
    ),
    "sst": Recipe(
        "SST",
        "sst5_trees",
        _classes("0|1", "3|4"),
        Hub(
            "SetFit/sst5",
            "e51bdcd8cd3a30da231967c1a249ba59361279a3",
            splits=(("train", "train"), ("validation", "validation"), ("test", "test")),
        ),
        differs=("not one of the original's seven; neutral sentences left out",) * 2,
    ),
}
"""The data sets known by name; all but SST are in the study."""


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
    """A data set of the study by its name, or any other from a folder of TSV or CSV files, or from one file.

    A folder holds files `train*.tsv`, `validation*.tsv` and `test*.tsv` (or `.csv`, or with `.gz` behind), or
    one `all*.tsv`; a header line names the columns, of which `text` and `label` (or `stars`, 1 to 5) are
    read. A table of two columns may call them as it likes (see `read_table`). Where there
    is no test set, a fifth of the documents, drawn at random, becomes it; where there is no validation set,
    a tenth of the training documents. Stars are made binary as 1-2 against 4-5.

    Documents without words are left out. Of documents with the same words, one stays. Documents that a model
    cannot tell apart stay in one split only (see `assemble`): in test, else in validation, else in train.
    Test and validation documents are shuffled, since some files are sorted, and then limited in number; the
    number of test documents does not change the other splits.

    Args:
        name: one of `DATASETS`, in capitals or not; or "planted", made by `planted`; or, with `folder`, any.
        folder: the folder with the files, one with a subfolder of that name, or a single file. Without it,
            `$ATTNLIB_DATA/classification` is looked into, and else the public source is read.
        classes: labels of class 0 and class 1, needed where your own files have more than two labels;
            documents with other labels are left out. By default, a known set's, or the two labels in order.
        max_length: number of words after which a document is cut.
        train_documents: number of training documents to draw at random. Copies found among them are left out
            and not replaced. (From the public source, at most 200,000 documents of a split are read, drawn at
            random.)
        test_documents: largest number of test documents; 4,000 if left out, as in the original ("planted":
            1,000). Of validation documents, at most 4,000 are kept.
        seed: seed of all random draws.

    Raises:
        ValueError: unknown name (close ones are named), wrong columns, labels that are not two, one class
            only, documents without words; or folder, classes or max_length for "planted", which is made.
        FileNotFoundError: the folder or its files are not there.
        ConnectionError: the public source cannot be reached.
        ImportError: the public source needs Hugging Face's `datasets`, which is not installed.
    """
    check_at_least(1, max_length=max_length, train_documents=train_documents, test_documents=test_documents)
    if classes is not None:
        two_different("classes", classes, "labels, of class 0 and of class 1")
    if name.lower() == "planted":
        for each, given in {"folder": folder, "classes": classes, "max_length": max_length}.items():
            check(given is None, f"{each} must be None for planted, which is made, not read", given)
        n_train, n_test = train_documents or 4000, test_documents or 1000
        return planted(train_documents=n_train, test_documents=n_test, seed=seed)
    name, recipe, place = find(name, folder)
    if place is None:
        assert recipe is not None
        tables, source = read_hub(recipe, seed), f"{recipe.hub.repository}@{recipe.hub.revision}"
    else:
        files = _tables(place)
        tables = {split: read_table(file) for split, file in files.items()}
        names_of = ", ".join(file.name for file in files.values())
        source = names_of if place.is_file() else f"{place.name}/: {names_of}"
    about: dict[str, Any] = {"source": source, "differs": recipe.differs[place is not None] if recipe else ""}
    allowed = _allowed_labels(tables, classes, recipe.classes if recipe else None, source)
    names = recipe.names if recipe and classes is None else tuple("|".join(sorted(c)) for c in allowed)
    two = _binary(tables, allowed, source)
    about["left out"] = {
        "other labels": sum(len(table["text"]) for table in tables.values()) - sum(map(len, two.values()))
    }
    clean = without_copies(
        two,
        about,
        same=lambda row: row.words,
        copied=lambda row: row.words,
        empty=("without words", lambda row: not row.words),
        wanted="documents must have words",
    )
    shares = {"test": lambda n: round(0.2 * n), "validation": lambda n: round(0.1 * n)}
    parts = split_in_three(clean, about, np.random.default_rng([seed, 1]), shares, same=lambda row: row.words)
    parts["train"] = parts["train"][:train_documents]
    most = {"validation": MOST_TESTED, "test": test_documents or MOST_TESTED}
    about |= {"seed": seed, "max_length": max_length}
    return assemble(name, (names[0], names[1]), parts, about, max_length=max_length, most=most)


def find(name: str, folder: str | Path | None = None) -> tuple[str, Recipe | None, Path | None]:
    """A data set's name in code, its recipe, and the folder with its files (`None`: the hub): `found_set`."""
    return found_set(
        name,
        folder,
        DATASETS,
        made="planted",
        columns="with the columns label and text",
        kind="classification",
        holds=_tables,
        files=f"files named {', '.join(f'{split}*.tsv[.gz]' for split in SPLITS)}, or the same with csv",
    )


def _tables(folder: Path) -> dict[str, Path]:
    return {"all": folder} if folder.is_file() else tables_in(files_of(folder))


def read_table(path: Path) -> Table:
    """A table's columns `label` (or `stars`, which keeps its name) and `text`.

    If a table has only two columns, they may have any names: if neither has one of these names, the column
    with fewer different values is `label`. Of more columns, all others are ignored.
    """
    table = read_columns(path)
    if len(table) == 2:
        known = {"label": 0, "stars": 0, "text": 2}
        few, many = sorted(table, key=lambda column: (known.get(column, 1), len({*table[column]})))
        table = {few if few == "stars" else "label": table[few], "text": table[many]}
    label = next((column for column in ("label", "stars") if column in table), None)
    if label is None or "text" not in table:
        raise ValueError(f"{path} must have two columns, or text and label; got {', '.join(table)}")
    return {label: table[label], "text": table["text"]}


MOST = 200_000
"""The largest number of documents per split read from the hub; 4,000 steps with batches of 32 see 128,000."""


def read_hub(recipe: Recipe, seed: int = 0) -> dict[str, Table]:
    """A data set's splits from its public source, at the pinned revision: columns `label` and `text`.

    From a split with more than `MOST` documents, `MOST` are drawn at random.
    """
    try:
        import datasets  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(
            "the public data sets need Hugging Face's datasets: pip install 'attnlib[hf]'"
        ) from error
    hub, tables = recipe.hub, {}
    for ours, theirs in hub.splits:
        try:
            rows: Any = datasets.load_dataset(hub.repository, revision=hub.revision, split=theirs)
        except Exception as error:  # datasets raises many kinds: offline, a full disk, ...
            raise ConnectionError(
                f"{hub.repository} at {hub.revision} could not be had from the Hugging Face hub "
                f"({type(error).__name__}: {error}). Give folder=..., or set {DATA_VARIABLE}: see "
                f"attnlib.generators.classification."
            ) from error
        if len(rows) > MOST:
            rows = rows.select(np.random.default_rng([seed, 2]).permutation(len(rows))[:MOST])
        names = "label_text" if "label_text" in rows.column_names and _named(recipe) else "label"
        columns = [rows[column] for column in hub.text]
        texts = [" ".join(parts) for parts in zip(*columns, strict=True)]
        tables[ours] = {"label": [str(label) for label in rows[names]], "text": texts}
    return tables


def _named(recipe: Recipe) -> bool:
    """Whether the recipe gives labels by name only, not by the hub's numbers."""
    return not any(label.isdigit() for label in recipe.classes[0] | recipe.classes[1])


def _allowed_labels(
    tables: dict[str, Table], classes: tuple[str, str] | None, known: Classes | None, source: str
) -> Classes:
    """The labels of class 0 and class 1."""
    if classes is not None:
        zero, one = classes
        return frozenset({zero}), frozenset({one})
    if all("stars" in table for table in tables.values()):
        return STARS
    if known is not None:
        return known
    found = sorted({label for table in tables.values() for label in _labels(table)}, key=_numbers_first)
    check(len(found) == 2, f"classes must be given, two of the labels of {source}", found[:8])
    return frozenset({found[0]}), frozenset({found[1]})


def _numbers_first(label: str) -> tuple[bool, float, str]:
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label


def _binary(tables: dict[str, Table], classes: Classes, source: str) -> dict[str, list[Row]]:
    """The documents of each table, with class 0 or 1; those with other labels are left out."""
    number = {label: index for index, labels in enumerate(classes) for label in labels}
    two = {}
    for split, table in tables.items():
        labels = _labels(table)
        some = not labels or number.keys() & set(labels)
        demand = f"labels of {split} in {source} must be among {sorted(classes[0])} and {sorted(classes[1])}"
        check(some, demand, sorted(set(labels))[:8])
        rows = zip(labels, table["text"], strict=True)
        two[split] = [Row.of(number[label], text) for label, text in rows if label in number]
    return two


def _labels(table: Table) -> list[str]:
    return next(iter(table.values()))
