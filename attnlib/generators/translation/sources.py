"""Where sentences and their translations come from: folders, or their public source at a pinned revision."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attnlib.generators.folders import DATA_VARIABLE, unknown_set
from attnlib.generators.lines import split_lines
from attnlib.generators.public import PublicFile

Lines = list[tuple[str, str]]
"""Sentences and their translations."""


@dataclass(frozen=True)
class Recipe:
    """How a data set is made.

    Attributes:
        title: its name for people.
        folder: its folder among folders of TSV files.
        languages: source and target, as the study has them.
        public: files of its public source: by split and language, gzip-compressed lines; or by split alone,
            zip archives with a file of lines per language. Empty: none is known that could be pinned.
        files: which file of the folder is of which split, where its name does not say.
        differs: what is not as in the original, read from the public source; and from the folder.
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
        ("", ""),
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
"""The data sets that are known by name; Tatoeba and NTREX stand in for what cannot be had."""


def unknown_name(name: str, allowed: list[str]) -> ValueError:
    """The error for a name that is not among those allowed."""
    return unknown_set(name, allowed, "whose columns are languages")


def read_public(recipe: Recipe, languages: tuple[str, str], folder: Path) -> dict[str, Lines]:
    """A data set's splits from its public source, whose files are kept in `folder`.

    Raises:
        ValueError: the source does not have one of the languages.
        ConnectionError: it cannot be reached, has other files than it had, or none is known.
    """
    if not recipe.public:
        raise ConnectionError(
            f"no public source of {recipe.title} is known that could be pinned to a revision. {_INSTEAD}"
        )
    known = {name.partition(".")[2] for name in recipe.public} - {""} or set(recipe.languages)
    if missing := [code for code in languages if code not in known]:
        raise ValueError(
            f"{recipe.title} has {', '.join(sorted(known))}; there is no {' and no '.join(missing)}"
        )
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
    """Lines side by side.

    Raises:
        ValueError: there are more of the one than of the other.
    """
    if len(source) != len(target):
        shorter, longer = sorted(zip((len(source), len(target)), names, strict=True))
        raise ValueError(
            f"{' and '.join(names)} should have as many lines; they part at line {shorter[0] + 1}: "
            f"{shorter[1]} ends after {shorter[0]:,} lines, {longer[1]} after {longer[0]:,}"
        )
    return [(one.strip(), other.strip()) for one, other in zip(source, target, strict=True)]
