"""Sentences with a verb whose number is known, as people wrote them.

*Linzen*: sentences of the English Wikipedia with 0 to 4 attractors (Linzen, Dupoux and Goldberg 2016). They
are the test set that Gulordava et al. 2018 kept; models here are trained on a part of it, in place of the
much larger training set of the original. *Gulordava*: original sentences, and sentences of the same pattern
whose words were replaced so that they make no sense (*generated*).

A folder holds `linzen_verb_number_filtered.tsv` (columns `number`, `n_attractors`, `verb_index`, `sentence`)
and `gulordava_english_nonce.tsv` (`number`, `type`, `n_attractors`, `prefix`), or the same with `.gz`.
"""

from __future__ import annotations

from pathlib import Path

from attnlib.files import cache_folder
from attnlib.generators.sources import DATA_VARIABLE, PublicFile, folder_with, read_tsv
from book.chapters.flow.agreement.sentences import Sentence

LINZEN, GULORDAVA = "linzen_verb_number_filtered", "gulordava_english_nonce"

_REPOSITORY = (
    "https://raw.githubusercontent.com/facebookresearch/colorlessgreenRNNs/"
    "dbffbf0f2ef86c50bac204d7a2292862e1c6036f/data/"
)
_PUBLIC = {
    "linzen.gold": PublicFile(
        f"{_REPOSITORY}linzen_testset/subj_agr_filtered.gold",
        "984be2eaf9f37812b1727ec165b2c9802fb71552684cc6a123daf96091118f5b",
    ),
    "linzen.text": PublicFile(
        f"{_REPOSITORY}linzen_testset/subj_agr_filtered.text",
        "618f7583d6cc3942b2127e5ffb61603e0fd8b031628d574b10b9bc2930452be4",
    ),
}
_IRREGULAR = ("is", "was", "has")
"""Singular forms that are no longer than their plural."""

_INSTEAD = (
    f"Give folder=..., a folder with {LINZEN}.tsv, or set {DATA_VARIABLE}: see "
    "book.chapters.flow.agreement.corpora."
)


def linzen(folder: str | Path | None = None, cache: str | Path | None = None) -> list[Sentence]:
    """The sentences of Linzen et al., up to their verb, in the order of the file, each once."""
    place = _folder(LINZEN, folder)
    if place is not None:
        rows = _table(place, ["sentence", "number", "n_attractors", "verb_index"])
    else:
        rows = _from_public(Path(cache) if cache else cache_folder() / "agreement")
    found = (
        Sentence(tuple(text.split()[: int(verb)]), int(number == "plural"), int(attractors))
        for text, number, attractors, verb in rows
    )
    return [*{each.words: each for each in found}.values()]


def gulordava(folder: str | Path | None = None) -> dict[str, list[Sentence]]:
    """The sentences of Gulordava et al., "original" and "generated"; empty if there is no file."""
    place = _folder(GULORDAVA, folder)
    if place is None:
        return {}
    found = dict[str, list[Sentence]]()
    for kind, text, number, attractors in _table(place, ["type", "prefix", "number", "n_attractors"]):
        sentence = Sentence(tuple(text.lower().split()), int(number == "plural"), int(attractors))
        found.setdefault(kind, []).append(sentence)
    return found


def _folder(name: str, folder: str | Path | None) -> Path | None:
    place = folder_with(
        [""], folder, kind="agreement", holds=lambda at: _files(at, name), files=f"{name}.tsv[.gz]"
    )
    return None if place is None else _files(place, name)[0]


def _files(folder: Path, name: str) -> list[Path]:
    return [file for end in (".tsv", ".tsv.gz") if (file := folder / f"{name}{end}").is_file()]


def _table(file: Path, columns: list[str]) -> list[tuple[str, ...]]:
    table = read_tsv(file)
    if missing := [name for name in columns if name not in table]:
        raise ValueError(f"{file} should have the columns {columns}; it lacks {missing}")
    return list(zip(*(table[name] for name in columns), strict=True))


def _from_public(cache: Path) -> list[tuple[str, ...]]:
    gold, text = (
        _PUBLIC[f"linzen.{end}"].read(cache, _INSTEAD).decode().splitlines() for end in ("gold", "text")
    )
    rows: list[tuple[str, ...]] = []
    for line, sentence in zip(gold, text, strict=True):
        verb, right, wrong, attractors = line.split("\t")
        if right.islower() and right != wrong:  # the rest are the parser's mistakes, such as titles of books
            number = "plural" if _is_plural(right, wrong) else "singular"
            rows.append((sentence, number, attractors, verb))
    return rows


def _is_plural(form: str, other: str) -> bool:
    """Whether the first of two forms of a verb is the plural one, which is the one without an s."""
    if form in _IRREGULAR or other in _IRREGULAR:
        return other in _IRREGULAR
    return len(form) < len(other)
