"""Find and read data sets in folders or public sources, and split them in three without duplicates."""

from __future__ import annotations

import gzip
import hashlib
import os
import urllib.request
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from attnlib.checks import check, hint
from attnlib.files import write_atomically
from attnlib.places import has_sha256, make_folder

T = TypeVar("T")

DATA_VARIABLE = "ATTNLIB_DATA"
"""The environment variable that may name a folder whose subfolders (`classification`, ...) hold data sets."""

SPLITS = {"train": ("train",), "validation": ("val", "dev"), "test": ("test",), "all": ("all",)}
"""The file name prefixes of each split: `train_10k.tsv.gz` is a "train" file; "all" is not yet split."""

ORDER = ("test", "validation", "train")
"""The priority of splits: a row found in several stays in the first of these only."""


# ---- folders and files -------------------------------------------------------------------------------


def folder_with(
    subfolders: Sequence[str],
    folder: str | Path | None,
    *,
    kind: str,
    holds: Callable[[Path], object],
    files: str,
) -> Path | None:
    """The folder with a data set's files: `folder` itself, or a subfolder of it with the set's name.

    Without `folder`, the result is a subfolder of `$ATTNLIB_DATA/<kind>` or of `$ATTNLIB_DATA`; if there is
    none, `None`, which stands for the public source. `holds` tells whether a folder has the files. If
    `folder` has none, the `FileNotFoundError` describes them as `files`.
    """
    if folder is None:
        root = os.environ.get(DATA_VARIABLE)
        bases = [] if root is None else [Path(root) / kind, Path(root)]
        return next((base / sub for base in bases for sub in subfolders if holds(base / sub)), None)
    places = [Path(folder), *(Path(folder) / sub for sub in subfolders)]
    found = next((place for place in places if holds(place)), None)
    if found is None:
        there = "there is no such folder" if not Path(folder).is_dir() else "it has none"
        raise FileNotFoundError(
            f"{folder} must hold {files}, or a subfolder {' or '.join(subfolders)} that does; {there}"
        )
    return found


def found_set(
    name: str, folder: str | Path | None, recipes: Mapping[str, Any], *, made: str, columns: str, **where: Any
) -> tuple[str, Any, Path | None]:
    """A data set's name in code, its recipe (`None` if unknown), and its folder (`None`: public source).

    Known names are not case-sensitive. For the error message, `made` is the name of the generated data set,
    and `columns` describes the tables of other sets. `where` is passed on to `folder_with`.
    """
    name = name.lower() if name.lower() in recipes else name
    recipe = recipes.get(name)
    place = folder_with([name] if recipe is None else [recipe.folder, name], folder, **where)
    if recipe is None and place is None:
        allowed = [made, *recipes]
        raise ValueError(
            f"a data set must be one of {', '.join(allowed)}, or any other name with folder=..., a folder "
            f"of TSV or CSV files {columns}; got {name!r}{hint(name, allowed)}"
        )
    return name, recipe, place


def two_different(what: str, given: Sequence[str] | None, are: str) -> tuple[str, str]:
    """The two given texts, if they are two different ones; else a `ValueError` that says what they `are`."""
    fits = given is not None and not isinstance(given, str) and len(given) == 2 and given[0] != given[1]
    check(fits, f"{what} must be two different {are}", given)
    assert given is not None
    return given[0], given[1]


def files_of(folder: Path, beginnings: Mapping[str, tuple[str, ...]] = SPLITS) -> dict[str, list[Path]]:
    """The files of each split in a folder, sorted by name; a split without files is left out."""
    files = sorted(file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else []
    found = {split: [f for f in files if f.name.startswith(begins)] for split, begins in beginnings.items()}
    return {split: mine for split, mine in found.items() if mine}


def with_ending(files: Sequence[Path], ending: str) -> list[Path]:
    """The files whose name ends with `ending`, or with `ending` and `.gz`."""
    return [file for file in files if file.name.removesuffix(".gz").endswith(ending)]


def tables_in(files: Mapping[str, Sequence[Path]]) -> dict[str, Path]:
    """The TSV or CSV file of each split that has one; two files of one split raise `ValueError`."""
    tables = {
        split: [*with_ending(mine, ".tsv"), *with_ending(mine, ".csv")] for split, mine in files.items()
    }
    for split, mine in tables.items():
        check(len(mine) <= 1, f"{split} must be one file", [str(each) for each in mine])
    return {split: mine[0] for split, mine in tables.items() if mine}


def split_lines(data: bytes) -> list[str]:
    """The lines of UTF-8 text. Only line feeds end them, else two files of lines could get out of step."""
    lines = data.decode("utf-8").split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, gzipped if its name says so."""
    try:
        data = path.read_bytes()
        return split_lines(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be UTF-8 text; {type(error).__name__}: {error}") from error


def read_tsv(path: Path) -> dict[str, list[str]]:
    """The columns of a tab-separated table, by the names in its first line; there is no quoting.

    Lines may end with a carriage return and a line feed; any other carriage return is part of the text.
    """
    lines = [line.removesuffix("\r").split("\t") for line in read_lines(path)]
    header = [name.removeprefix("\ufeff") for name in lines[0]] if lines else []
    once = header and len({*header}) == len(header)
    check(once, f"{path} must be a UTF-8 table with tabs, whose first line names each column once", header)
    for number, fields in enumerate(lines[1:], 2):
        if len(fields) != len(header):
            raise ValueError(f"line {number} of {path} must have {len(header)} fields; got {len(fields)}")
    return {name: [fields[place] for fields in lines[1:]] for place, name in enumerate(header)}


def read_columns(path: Path) -> dict[str, list[str]]:
    """The columns of a table: CSV if the file's name ends with `.csv` or `.csv.gz`, else as in `read_tsv`.

    In CSV, commas separate fields; fields with commas, quotes or line ends in them are quoted.
    """
    if not with_ending([path], ".csv"):
        return read_tsv(path)
    try:
        table = pd.read_csv(
            path, dtype=str, keep_default_na=False, encoding="utf-8-sig", index_col=False, header=None
        )
    except (OSError, EOFError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise ValueError(f"{path} must be a table in UTF-8 CSV; {type(error).__name__}: {error}") from error
    header = table.iloc[0].tolist()
    check(len({*header}) == len(header), f"{path} must name each column once in its first line", header)
    return {name: table[place].tolist()[1:] for place, name in enumerate(header)}


@dataclass(frozen=True)
class PublicFile:
    """A public file at a fixed revision, downloaded at most once and always verified by its checksum."""

    url: str
    sha256: str

    def read(self, folder: Path, instead: str) -> bytes:
        """The file's content, cached in `folder`; errors end with `instead`, advice for use offline."""
        kept = folder / f"{self.sha256[:16]}-{self.url.rsplit('/', 1)[-1]}"
        if has_sha256(kept, self.sha256):
            return kept.read_bytes()
        try:
            with urllib.request.urlopen(self.url, timeout=30) as answer:
                data = answer.read()
        except (OSError, HTTPException) as error:  # HTTPException: an incomplete download
            problem = f"{self.url} could not be read ({type(error).__name__}: {error}). {instead}"
            raise ConnectionError(problem) from error
        if (found := hashlib.sha256(data).hexdigest()) != self.sha256:
            raise ConnectionError(
                f"{self.url} is not the file it was: its SHA-256 is {found}, not {self.sha256}. {instead}"
            )
        make_folder(folder)
        write_atomically(kept, data)
        return data


# ---- splits ------------------------------------------------------------------------------------------


def without_copies(
    tables: Mapping[str, Sequence[T]],
    about: dict[str, Any],
    *,
    same: Callable[[T], Hashable],
    copied: Callable[[T], Hashable],
    empty: tuple[str, Callable[[T], bool]],
    wanted: str,
) -> dict[str, list[T]]:
    """The tables without empty rows, and without copies of a row in another split or in its own.

    Two rows in different splits are copies if `same` gives equal values for them; two rows in one split, if
    `copied` does. `empty` is a name for empty rows and a test for them. The numbers of rows left out are
    added to `about`. A `ValueError` says `wanted` if no row is left, or names a split that lost all its rows.
    """
    clean: dict[str, list[T]] = {}
    seen: set[Hashable] = set()
    left = {empty[0]: 0, "copies": 0}
    for split in [split for split in (*ORDER, "all") if split in tables]:
        kept: dict[Hashable, T] = {}
        for row in tables[split]:
            if empty[1](row):
                left[empty[0]] += 1
            elif same(row) in seen or copied(row) in kept:
                left["copies"] += 1
            else:
                kept[copied(row)] = row
        clean[split] = list(kept.values())
        seen |= set(map(same, clean[split]))
    about["left out"] = about.get("left out", {}) | left
    check(any(clean.values()), wanted, f"none of {about['source']}")
    for split, rows in clean.items():
        own = rows or not tables[split]
        check(own, f"{split} must have rows that no other split has", about["source"])
    return clean


def split_in_three(
    tables: Mapping[str, Sequence[T]],
    about: dict[str, Any],
    rng: np.random.Generator,
    shares: Mapping[str, Callable[[int], int]],
    *,
    same: Callable[[T], Hashable],
) -> dict[str, list[T]]:
    """Train, validation and test rows in random order; missing splits are drawn from the other rows.

    `tables` come from `without_copies`; rows of "all" have no split yet. For a missing test or validation
    split, `shares[split](n)` rows are drawn from the `n` others. Remaining rows for which `same` equals that
    of a drawn row are left out, and counted in `about`. A split without rows raises `ValueError`.
    """
    rest = [split for split in ("train", "all") if split in tables]
    parts = {split: _shuffled(tables[split], rng) for split in tables if split not in rest}
    pool = _shuffled([row for split in rest for row in tables[split]], rng)
    for split, share in shares.items():
        if split not in parts:
            n = share(len(pool))
            parts[split], others = pool[:n], pool[n:]
            drawn = {same(row) for row in parts[split]}
            pool = [row for row in others if same(row) not in drawn]
            about["left out"]["copies"] += len(others) - len(pool)
    fits = pool and all(parts.values())
    check(fits, "data must have a file train* or all*, with rows for all splits", list(tables))
    return {**parts, "train": pool}


def _shuffled(rows: Sequence[T], rng: np.random.Generator) -> list[T]:
    return [rows[index] for index in rng.permutation(len(rows))]
