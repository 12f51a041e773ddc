"""Where the texts come from: folders of TSV files, or their public source at a pinned revision.

The files of the original are not public, and were binary already; which two classes it took of AG News and of
20 Newsgroups is not said. What is taken here is said in `DATASETS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnlib.generators.folders import DATA_VARIABLE, folder_with, unknown_set
from attnlib.generators.lines import read_tsv

SPLITS = {
    "train": ("train",),
    "validation": ("validation", "valid", "dev"),
    "test": ("test",),
    "all": ("all",),
}
"""How the name of a split's file begins: `train_10k.tsv.gz` is of "train"; "all" has yet to be split."""

Classes = tuple[frozenset[str], frozenset[str]]
"""The labels of class 0 and those of class 1; documents with other labels are left out."""

STARS: Classes = (frozenset({"1", "2"}), frozenset({"4", "5"}))
"""How a column `stars` is read; three stars are neither."""


@dataclass(frozen=True)
class Hub:
    """A data set on the Hugging Face hub.

    Attributes:
        repository: its name there.
        revision: the commit that is read.
        text: its columns that make up a document.
        splits: our names of its splits.
    """

    repository: str
    revision: str
    text: tuple[str, ...] = ("text",)
    splits: tuple[tuple[str, str], ...] = (("train", "train"), ("test", "test"))


@dataclass(frozen=True)
class Recipe:
    """How a data set of the study is made.

    Attributes:
        title: its name for people.
        folder: its folder among folders of TSV files.
        classes: labels of either class, those of the folder's and of the hub's files.
        names: what the two classes are called.
        hub: its public source.
        differs: what is not as in the original, or not known to be, read from the hub; and from a folder.
    """

    title: str
    folder: str
    classes: Classes
    names: tuple[str, str]
    hub: Hub
    differs: tuple[str, str] = ("", "")


def _classes(zero: str, one: str) -> Classes:
    return frozenset(zero.split("|")), frozenset(one.split("|"))


DATASETS: Mapping[str, Recipe] = {
    "ag_news": Recipe(
        "AG News",
        "ag_news",
        _classes("World|0", "Business|2"),
        ("World", "Business"),
        Hub("fancyzhx/ag_news", "eb185aade064a813bc0b7f42de02595523103ca4"),
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
        ("baseball", "hockey"),
        Hub("SetFit/20_newsgroups", "f1b91292074e7cfb69be58b642d583ec262f30ed"),
        (
            "baseball against hockey, the field's usual pair; without headers, footers and quotes",
            "baseball against hockey, the field's usual pair; without headers; posts cut",
        ),
    ),
    "imdb": Recipe(
        "IMDB",
        "imdb",
        _classes("neg|0", "pos|1"),
        ("negative", "positive"),
        Hub("stanfordnlp/imdb", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"),
        ("", "10,000 of 25,000 training reviews"),
    ),
    "amazon": Recipe(
        "Amazon",
        "amazon_polarity_mtl",
        _classes("0", "1"),
        ("negative", "positive"),
        Hub(
            "fancyzhx/amazon_polarity",
            "9d9c45c18f8c3cf1b23a3c27917b60cbf28f3289",
            ("title", "content"),
        ),
        ("", "another collection: reviews of 14 domains (Liu et al. 2017)"),
    ),
    "yelp": Recipe(
        "Yelp",
        "yelp_reviews",
        _classes("0", "1"),
        ("negative", "positive"),
        Hub("fancyzhx/yelp_polarity", "bbf1c97a1f0cf005e5aded43839fd814654a1557"),
        ("", "another collection: 5,000 training reviews (Yue et al. 2023), 1-2 stars against 4-5"),
    ),
    "sms": Recipe(
        "SMS Spam",
        "sms_spam",
        _classes("ham|0", "spam|1"),
        ("ham", "spam"),
        Hub(
            "ucirvine/sms_spam",
            "cae486f927c250fe1d4a5b55f11357964ed1646c",
            ("sms",),
            (("all", "train"),),
        ),
        ("there is no original split: drawn here", "there is no original split: drawn here"),
    ),
    "sst": Recipe(
        "SST",
        "sst5_trees",
        _classes("0|1", "3|4"),
        ("negative", "positive"),
        Hub(
            "SetFit/sst5",
            "e51bdcd8cd3a30da231967c1a249ba59361279a3",
            splits=(("train", "train"), ("validation", "validation"), ("test", "test")),
        ),
        ("not one of the original's seven; neutral sentences left out",) * 2,
    ),
}
"""The data sets that are known by name; all but SST are the study's."""


def unknown_name(name: str, allowed: list[str]) -> ValueError:
    """The error for a name that is not among those allowed."""
    return unknown_set(name, allowed, "with the columns label and text")


def find_folder(name: str, folder: str | Path | None) -> Path | None:
    """The folder with a data set's files, or `None`: the hub; see `folder_with`."""
    recipe = DATASETS.get(name)
    subfolders = [name] if recipe is None else [recipe.folder, name]
    files = f"files named {', '.join(f'{split}*.tsv[.gz]' for split in SPLITS)}"
    return folder_with(subfolders, folder, kind="classification", holds=tables_in, files=files)


def tables_in(folder: Path) -> dict[str, Path]:
    """The TSV file of each split in a folder; none if it holds no file with such a name.

    Raises:
        ValueError: two files are of the same split.
    """
    found: dict[str, Path] = {}
    files = sorted(folder.glob("*.tsv")) + sorted(folder.glob("*.tsv.gz"))
    for split, beginnings in SPLITS.items():
        mine = [file for file in files if file.name.startswith(beginnings)]
        if len(mine) > 1:
            raise ValueError(
                f"{folder} should hold one file for {split}; it has {', '.join(file.name for file in mine)}"
            )
        found |= {split: mine[0]} if mine else {}
    return found


def read_table(path: Path) -> pd.DataFrame:
    """A TSV file as columns `label` and `text`; `stars` instead of `label` will do, and is kept as `stars`.

    Further columns are ignored; see `read_tsv`.

    Raises:
        ValueError: the file cannot be read, or lacks a column.
    """
    table = read_tsv(path)
    label = next((column for column in ("label", "stars") if column in table), None)
    if label is None or "text" not in table:
        raise ValueError(
            f"{path} should have the columns text, and label or stars; it has {', '.join(table.columns)}"
        )
    return table[[label, "text"]]


MOST = 200_000
"""Documents of one split that are read from the hub at most; 4,000 steps of 32 see 128,000."""


def read_hub(recipe: Recipe, seed: int = 0) -> dict[str, pd.DataFrame]:
    """A data set's splits from its public source, at the pinned revision: columns `label` and `text`.

    Of a split with more than `MOST` documents, so many are drawn at random.

    Raises:
        ImportError: Hugging Face's `datasets` is not installed.
        ConnectionError: the hub cannot be reached, and the data are not in its cache.
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
        except Exception as error:  # offline, a proxy's page, a full disk: datasets raises many kinds
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
        tables[ours] = pd.DataFrame({"label": [str(label) for label in rows[names]], "text": texts})
    return tables


def _named(recipe: Recipe) -> bool:
    """Whether the recipe knows labels by name only, not by the hub's numbers."""
    return not any(label.isdigit() for label in recipe.classes[0] | recipe.classes[1])
