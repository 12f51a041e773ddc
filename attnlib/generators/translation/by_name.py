"""A bitext by its name: of the study, from a folder, or made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attnlib.files import cache_folder
from attnlib.generators.translation.bitext import Bitext, encode, without_copies
from attnlib.generators.translation.folders import find_folder, read_folder
from attnlib.generators.translation.invented import invented
from attnlib.generators.translation.sources import DATASETS, Lines, read_public, unknown_name
from attnlib.generators.translation.subwords import Subwords

MOST_TESTED = 1014
"""Sentences that are validated and tested on, of a larger set: as many as Multi30k has to validate on."""

VOCABULARY, MAX_LENGTH = 8000, 100
"""Tokens of both languages together, and of a sentence; languages that are made have whole words."""


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
    is no test set, a twentieth of the sentences, drawn at random, becomes it; where there is no validation
    set, a twentieth of the training sentences.

    Sentences without a translation are left out; so is a training sentence that is also a validation or test
    sentence. Longer ones than `max_length` are cut. All is counted in `about`.

    Args:
        name: one of `DATASETS`, in capitals or not; or "invented", made by `invented`; or, with `folder`,
            any.
        folder: the folder with the files, or one with a subfolder of that name. Without it,
            `$ATTNLIB_DATA/translation` is looked into, and else the public source is read.
        languages: source and target; those of the study if left out.
        vocabulary: tokens of both languages together; 8,000 if left out.
        max_length: keep the first so many tokens of a sentence; 100 if left out.
        train_sentences: keep so many training sentences, drawn at random.
        validation_sentences: validate on so many, at most; on 1,014 if left out (of "invented", 500).
        test_sentences: test on so many, at most; the same.
        seed: of all that is drawn.
        cache: where vocabularies and public files are kept; `None`: vocabularies are trained every time, and
            public files kept where this system keeps caches.

    Raises:
        ValueError: unknown name (close ones are named), a language that is not there, files that are not
            aligned, a vocabulary that the text does not support.
        FileNotFoundError: the folder or its files are not there.
        ConnectionError: the public source cannot be reached.
    """
    sizes = {"train": train_sentences, "validation": validation_sentences, "test": test_sentences}
    limits: dict[str, Any] = {f"{split}_sentences": n for split, n in sizes.items() if n is not None}
    for what, value in {"max_length": max_length, **limits}.items():
        if value is not None and value < 1:
            raise ValueError(f"{what} should be at least 1; got {value}")
    if name.lower() == "invented":
        given = {"folder": folder, "languages": languages, "vocabulary": vocabulary, "max_length": max_length}
        if wrong := [what for what, value in given.items() if value is not None]:
            raise ValueError(
                f"invented is made, not read, of whole words: {', '.join(wrong)} cannot be given for it"
            )
        return invented(seed=seed, **limits)
    vocabulary = VOCABULARY if vocabulary is None else vocabulary
    max_length = MAX_LENGTH if max_length is None else max_length
    name = next((known for known in DATASETS if known == name.lower()), name)
    recipe = DATASETS.get(name)
    if recipe is None and folder is None and find_folder(name, None) is None:
        raise unknown_name(name, ["invented", *DATASETS])
    pair = languages or (recipe.languages if recipe else None)
    if pair is None or pair[0] == pair[1]:
        raise ValueError(f"languages should be two different codes, source and target; got {languages}")
    place = find_folder(name, folder)
    about: dict[str, Any] = {"languages": list(pair), "seed": seed, "max_length": max_length}
    about["differs"] = recipe.differs[place is not None] if recipe else ""
    if place is None:
        assert recipe is not None
        tables = read_public(recipe, pair, (cache or cache_folder()) / "translation")
        about["source"] = ", ".join(file.url for file in recipe.public.values())
    else:
        tables = read_folder(place, pair, recipe.files if recipe and place.name == recipe.folder else {})
        about["source"] = f"{place.name}/: {', '.join(tables)}"
    rng = np.random.default_rng([seed, 1])
    parts = split_in_three(without_copies(tables, about), rng)
    parts["train"] = parts["train"][:train_sentences]
    for split in ("validation", "test"):
        parts[split] = parts[split][: sizes[split] or MOST_TESTED]
    texts = [text for pair_of_texts in parts["train"] for text in pair_of_texts]
    subwords = Subwords.trained(texts, vocabulary, cache / "vocabularies" if cache else None)
    encoded = {split: encode(subwords, part, max_length) for split, part in parts.items()}
    about["cut"] = {split: cut for split, (_, cut) in encoded.items()}
    return Bitext(
        name, pair, subwords, about=about, **{split: pairs for split, (pairs, _) in encoded.items()}
    )


def split_in_three(tables: dict[str, Lines], rng: np.random.Generator) -> dict[str, Lines]:
    """Train, validation and test in random order; what is missing is drawn from the rest.

    Raises:
        ValueError: there is nothing to train on, or nothing is left for a split.
    """
    rest = [split for split in ("train", "all") if split in tables]
    parts = {split: _shuffled(tables[split], rng) for split in tables if split not in rest}
    pool = _shuffled([pair for split in rest for pair in tables[split]], rng)
    for split in ("test", "validation"):
        if split not in parts:
            n = min(MOST_TESTED, max(1, len(pool) // 20))
            parts[split], pool = pool[:n], pool[n:]
    if not pool or not all(parts.values()):
        raise ValueError(
            f"there should be a file train* or all* with sentences for all splits; there are "
            f"{', '.join(tables)}"
        )
    return {**parts, "train": pool}


def _shuffled(lines: Lines, rng: np.random.Generator) -> Lines:
    return [lines[index] for index in rng.permutation(len(lines))]
