"""Load a bitext by its name, from a folder or its public source, or generate it."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attnlib.checks import check, check_at_least, check_one_of
from attnlib.files import cache_folder
from attnlib.generators.sources import (
    DATA_VARIABLE,
    SPLITS,
    PublicFile,
    files_of,
    found_set,
    read_columns,
    read_lines,
    split_in_three,
    split_lines,
    tables_in,
    two_different,
    with_ending,
    without_copies,
)
from attnlib.generators.translation.bitext import Bitext, encode
from attnlib.generators.translation.invented import invented
from attnlib.generators.translation.subwords import Subwords

MOST_TESTED = 1014
"""The default largest number of validation and of test sentences: the size of Multi30k's validation set."""

VOCABULARY, MAX_LENGTH = 8000, 100
"""Default size of the joint vocabulary, and number of tokens after which a sentence is cut."""


Lines = list[tuple[str, str]]
"""Sentences and their translations."""


@dataclass(frozen=True)
class Recipe:
    """Where a data set's files are, and how they are read.

    Attributes:
        title: the data set's display name.
        folder: the name of its folder.
        languages: source and target, as in the study.
        public: files of the public source. With keys "split.language", gzip-compressed lines; with keys
            "split", zip archives with a file of lines per language. Empty: no source with a fixed revision.
        files: the beginning of each split's file names in the folder, where it is not as in `SPLITS`.
        differs: differences from the original's data, of the public source and of the folder.
    """

    title: str
    folder: str
    languages: tuple[str, str]
    public: Mapping[str, PublicFile] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    differs: tuple[str, str] = ("", "")


_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
_MULTI30K_FILES = {
    "train.de": ("train.de.gz", "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    "train.en": ("train.en.gz", "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    "validation.de": ("val.de.gz", "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
    "validation.en": ("val.en.gz", "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    "test.de": ("test_2016_flickr.de.gz", "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"),
    "test.en": ("test_2016_flickr.en.gz", "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
}
_INSTEAD = f"Give folder=..., or set {DATA_VARIABLE}: see attnlib.generators.translation."
_OPUS = "https://object.pouta.csc.fi/OPUS-News-Commentary/v11/moses/"


def _news_commentary(source: str, target: str, sha256: str) -> Recipe:
    pair = f"{source}-{target}"
    return Recipe(
        f"News Commentary {pair}",
        f"news_commentary_{source}_{target}",
        (source, target),
        {"all": PublicFile(f"{_OPUS}{pair}.txt.zip", sha256)},
        differs=("version 11 of OPUS in place of version 14; split here", "split here"),
    )


DATASETS: Mapping[str, Recipe] = {
    "multi30k": Recipe(
        "multi30k",
        "multi30k_en_de",
        ("de", "en"),
        {split: PublicFile(_MULTI30K + file, sha256) for split, (file, sha256) in _MULTI30K_FILES.items()},
        {"train": "train", "validation": "validation", "test": "test_2016_flickr"},
    ),
    "iwslt14": Recipe(
        "iwslt14 de-en",
        "iwslt14_de_en_tok",
        ("de", "en"),
        files={"all": "validation", "test": "test"},
        differs=("", "trained on a part of the validation set, for want of the training set; lower case"),
    ),
    "news_commentary_en_nl": _news_commentary(
        "en", "nl", "4df5f1250f7217486c4eb91d9df4a8e272f0f210bf1214db560498a0cf130d2b"
    ),
    "news_commentary_en_pt": _news_commentary(
        "en", "pt", "1a9805db000ca5674dea4b2a2b3644be324b6ade7a938cecdfbe07da903ac799"
    ),
    "news_commentary_it_pt": _news_commentary(
        "it", "pt", "25e91d99bff454832ef660781fac34c4d010e8f8bfe2ed67ab75272470e7a49d"
    ),
    "tatoeba_en_nl": Recipe(
        "Tatoeba en-nl",
        "tatoeba_en_nl",
        ("en", "nl"),
        differs=("", "not of the study: short sentences, in place of News Commentary en-nl"),
    ),
    "ntrex": Recipe(
        "NTREX en-nl",
        "ntrex_news_en_de_nl_pt_it",
        ("en", "nl"),
        files={"all": "test"},
        differs=("", "not of the study: 1,997 sentences of news, in place of News Commentary"),
    ),
}
"""The data sets known by name; Tatoeba and NTREX are not in the study: they stand in for News Commentary."""


def bitext(
    name: str,
    folder: str | Path | None = None,
    *,
    languages: tuple[str, str] | None = None,
    vocabulary: int | None = None,
    max_length: int | None = None,
    train_sentences: int | None = None,
    validation_sentences: int | None = None,
    test_sentences: int | None = None,
    seed: int = 0,
    cache: Path | None = None,
) -> Bitext:
    """A data set by its name, or any other from a folder.

    A folder holds TSV files (`train*.tsv`, `validation*.tsv`, `test*.tsv`, or one `all*.tsv`; `.tsv.gz` will
    do) whose header names the columns by language, or files of lines (`train.de` and `train.en`). Where there
    is no test set, a twentieth of the sentences (at most 1,014), drawn at random, becomes it; where there is
    no validation set, a twentieth of the training sentences (at most 1,014) does.

    Pairs with an empty side and copies are left out. A sentence of several splits stays in test, else in
    validation. Sentences longer than `max_length` tokens are cut. `about` holds the counts.

    Args:
        name: one of `DATASETS`, in capitals or not; or "invented", made by `invented`; or, with `folder`,
            any.
        folder: the folder with the files, or one with a subfolder of that name. Without it,
            `$ATTNLIB_DATA/translation` is looked into, and else the public source is read.
        languages: source and target; those of the study if left out.
        vocabulary: tokens of both languages together; 8,000 if left out.
        max_length: number of tokens after which a sentence is cut; 100 if left out.
        train_sentences: largest number of random training sentences; all if left out ("invented": 8,000).
        validation_sentences: largest number of validation sentences; 1,014 if left out ("invented": 500).
        test_sentences: largest number of test sentences; 1,014 if left out ("invented": 500).
        seed: seed of all random draws.
        cache: folder in which vocabularies and public files are kept. With `None`, vocabularies are trained
            every time, and public files are kept in the library's cache folder.

    Raises:
        ValueError: unknown name (close ones are named), a language that is not there, files that are not
            aligned, a vocabulary that the text does not support; or folder, languages, vocabulary or
            max_length for "invented", which is made.
        FileNotFoundError: the folder or its files are not there.
        ConnectionError: the public source cannot be reached, or none is known.
    """
    sizes = {"train": train_sentences, "validation": validation_sentences, "test": test_sentences}
    limits: dict[str, Any] = {f"{split}_sentences": n for split, n in sizes.items() if n is not None}
    check_at_least(1, max_length=max_length, **limits)
    if name.lower() == "invented":
        given = {"folder": folder, "languages": languages, "vocabulary": vocabulary, "max_length": max_length}
        for what, value in given.items():
            check(value is None, f"{what} must be None for invented, which is made, not read", value)
        return invented(seed=seed, **limits)
    vocabulary = VOCABULARY if vocabulary is None else vocabulary
    max_length = MAX_LENGTH if max_length is None else max_length
    name, recipe, place = find(name, folder)
    known = recipe.languages if recipe else None
    pair = two_different("languages", languages or known, "codes, source and target")
    about: dict[str, Any] = {"languages": list(pair), "seed": seed, "max_length": max_length}
    about["differs"] = recipe.differs[place is not None] if recipe else ""
    if place is None:
        assert recipe is not None
        tables = read_public(recipe, pair, (cache or cache_folder()) / "translation")
        about["source"] = ", ".join(file.url for file in recipe.public.values())
    else:
        tables = read_folder(place, pair, recipe.files if recipe and place.name == recipe.folder else {})
        about["source"] = f"{place.name}/: {', '.join(tables)}"
    clean = without_copies(
        tables,
        about,
        same=lambda pair: pair[0],
        copied=lambda pair: pair,
        empty=("one side empty", lambda pair: not all(pair)),
        wanted="sentences must have translations",
    )
    share = {split: lambda n: min(MOST_TESTED, max(1, n // 20)) for split in ("test", "validation")}
    parts = split_in_three(clean, about, np.random.default_rng([seed, 1]), share, same=lambda pair: pair[0])
    parts["train"] = parts["train"][:train_sentences]
    for split in ("validation", "test"):
        parts[split] = parts[split][: sizes[split] or MOST_TESTED]
    texts = [text for pair_of_texts in parts["train"] for text in pair_of_texts]
    subwords = Subwords.trained(texts, vocabulary, cache / "vocabularies" if cache else None)
    encoded = {split: encode(subwords, part, max_length) for split, part in parts.items()}
    about["cut"] = {split: cut for split, (_, cut) in encoded.items()}
    found = {split: pairs for split, (pairs, _) in encoded.items()}
    return Bitext(name, pair, subwords, about=about, **found)


def find(name: str, folder: str | Path | None = None) -> tuple[str, Recipe | None, Path | None]:
    """A data set's name in code, its recipe, and the folder with its files (`None`: public): `found_set`."""
    return found_set(
        name,
        folder,
        DATASETS,
        made="invented",
        columns="whose columns are languages",
        kind="translation",
        holds=files_of,
        files="train*.tsv[.gz] or all*.tsv[.gz] (and validation*, test*), or files of lines such as train.de "
        "and train.en",
    )


def read_folder(folder: Path, languages: tuple[str, str], files: Mapping[str, str]) -> dict[str, Lines]:
    """The sentences of every split in a folder, from a table or from two files of lines.

    For example, `train.tsv`, or `train.de` and `train.en` for German and English, each with or without `.gz`.
    `files` gives the beginning of each split's file names; if empty, `SPLITS` does.
    """
    mine = files_of(folder, {split: (begins,) for split, begins in files.items()} or SPLITS)
    tables = tables_in(mine)
    found = {split: read_table(table, languages) for split, table in tables.items()}
    for split in [split for split in mine if split not in tables]:
        sides = [with_ending(mine[split], f".{code}") for code in languages]
        if any(sides):
            fits = all(len(side) == 1 for side in sides)
            demand = f"{folder} must hold one file of {split} for {languages[0]} and one for {languages[1]}"
            check(fits, demand, [file.name for file in mine[split]])
            (source,), (target,) = sides
            found[split] = aligned(read_lines(source), read_lines(target), source.name, target.name)
    check(found, f"{folder} must have sentences in {' and '.join(languages)}", list(found))
    return found


def read_table(path: Path, languages: tuple[str, str]) -> Lines:
    """The sentences in two columns of a table, which are named by language; see `read_columns`."""
    table = read_columns(path)
    for code in languages:
        check(code in table, f"{path} must have the column {code}", list(table))
    sides = (table[code] for code in languages)
    return [(source.strip(), target.strip()) for source, target in zip(*sides, strict=True)]


def read_public(recipe: Recipe, languages: tuple[str, str], folder: Path) -> dict[str, Lines]:
    """A data set's splits from its public source, whose files are kept in `folder`."""
    if not recipe.public:
        raise ConnectionError(
            f"no public source of {recipe.title} is known that could be pinned to a revision. {_INSTEAD}"
        )
    known = {name.partition(".")[2] for name in recipe.public} - {""} or set(recipe.languages)
    for code in languages:
        check_one_of(sorted(known), **{f"a language of {recipe.title}": code})
    found = {}
    for split in dict.fromkeys(name.partition(".")[0] for name in recipe.public):
        if split in recipe.public:
            archive = zipfile.ZipFile(io.BytesIO(recipe.public[split].read(folder, _INSTEAD)))
            members = [next(n for n in archive.namelist() if n.endswith(f".{code}")) for code in languages]
            sides = [split_lines(archive.read(member)) for member in members]
        else:
            members = [f"{split}.{code}" for code in languages]
            files = [recipe.public[name].read(folder, _INSTEAD) for name in members]
            sides = [split_lines(gzip.decompress(file)) for file in files]
        found[split] = aligned(sides[0], sides[1], *members)
    return found


def aligned(source: list[str], target: list[str], *names: str) -> Lines:
    """Pairs of corresponding lines; different numbers of lines raise `ValueError`."""
    n = (len(source), len(target))
    check(n[0] == n[1], f"{' and '.join(names)} must have as many lines", n)
    return [(one.strip(), other.strip()) for one, other in zip(source, target, strict=True)]
