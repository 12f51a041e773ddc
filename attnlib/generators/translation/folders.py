"""Sentences and their translations from a folder: tables, or files of lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attnlib.generators.folders import folder_with
from attnlib.generators.lines import read_lines, read_tsv
from attnlib.generators.translation.sources import DATASETS, Lines, aligned

SPLITS = {
    "train": ("train",),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test",),
    "all": ("all",),
}
"""How the name of a split's file begins: `train_10k.tsv.gz` is of "train"; "all" has yet to be split."""


def find_folder(name: str, folder: str | Path | None) -> Path | None:
    """The folder with a data set's files, or `None`: the public source; see `folder_with`."""
    recipe = DATASETS.get(name)
    subfolders = [name] if recipe is None else [recipe.folder, name]
    files = (
        "train*.tsv[.gz] or all*.tsv[.gz] (and validation*, test*), or files of lines such as train.de and "
        "train.en"
    )
    return folder_with(subfolders, folder, kind="translation", holds=_readable, files=files)


def _readable(folder: Path) -> list[Path]:
    """A folder's files that may hold sentences, by name."""
    beginnings = tuple(beginning for each in SPLITS.values() for beginning in each)
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [file for file in files if file.is_file() and file.name.startswith(beginnings)]


def read_folder(folder: Path, languages: tuple[str, str], files: Mapping[str, str]) -> dict[str, Lines]:
    """The sentences of every split that a folder has: of a TSV file, or of two files of lines.

    Args:
        folder: with `train.tsv` or, for German and English, with `train.de` and `train.en`; `.gz` or not.
        languages: source and target.
        files: how the names of a split's files begin, where that is not as in `SPLITS`.

    Raises:
        ValueError: two files are of one split, a language is missing, or files are not aligned.
    """
    found = {}
    beginnings = {split: (files[split],) for split in files} or SPLITS
    for split, begins in beginnings.items():
        mine = [file for file in _readable(folder) if file.name.startswith(begins)]
        tables = [file for file in mine if file.name.removesuffix(".gz").endswith(".tsv")]
        if len(tables) > 1:
            raise ValueError(
                f"{folder} should hold one file for {split}; it has {', '.join(file.name for file in tables)}"
            )
        if tables:
            found[split] = read_table(tables[0], languages)
            continue
        sides = [[f for f in mine if f.name.removesuffix(".gz").endswith(f".{code}")] for code in languages]
        if any(sides):
            missing = [code for code, side in zip(languages, sides, strict=True) if len(side) != 1]
            if missing:
                raise ValueError(
                    f"{folder} should hold one file of {split} for each of {' and '.join(languages)}, line "
                    f"by line; it has {', '.join(file.name for file in mine)}, so not one for "
                    f"{' or '.join(missing)}"
                )
            (source,), (target,) = sides
            found[split] = aligned(read_lines(source), read_lines(target), source.name, target.name)
    if not found:
        there = ", ".join(file.name for file in _readable(folder))
        raise ValueError(f"{folder} should have sentences in {' and '.join(languages)}; it has {there}")
    return found


def read_table(path: Path, languages: tuple[str, str]) -> Lines:
    """Two columns of a TSV file, named by language; see `read_tsv`.

    Raises:
        ValueError: it cannot be read, or lacks a language.
    """
    table = read_tsv(path)
    if missing := [code for code in languages if code not in table]:
        raise ValueError(
            f"{path} should have the columns {' and '.join(languages)}; it has "
            f"{', '.join(table.columns)}: there is no {' and no '.join(missing)}"
        )
    return [(source.strip(), target.strip()) for source, target in table[[*languages]].to_numpy()]
