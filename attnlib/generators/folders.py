"""Where the files of a data set are: a folder of the reader's, or one below `$ATTNLIB_DATA`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

DATA_VARIABLE = "ATTNLIB_DATA"
"""The environment variable that may name a folder whose subfolders (`classification`, ...) hold data sets."""


def folder_with(
    subfolders: Sequence[str],
    folder: str | Path | None,
    *,
    kind: str,
    holds: Callable[[Path], object],
    files: str,
) -> Path | None:
    """The folder with a data set's files: `folder` itself, or a subfolder of it with the set's name.

    Without `folder`, a subfolder of `$ATTNLIB_DATA/<kind>`, or of `$ATTNLIB_DATA`, if there is one, else
    `None`: the public source.

    Args:
        subfolders: the names that the set goes by.
        folder: where to look.
        kind: of data set.
        holds: whether a folder has such files.
        files: what they are called, in words.

    Raises:
        FileNotFoundError: `folder` is not there, or holds no such data.
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
            f"{folder} should hold {files}, or a subfolder {' or '.join(subfolders)} that does; {there}"
        )
    return found


def unknown_set(name: str, allowed: Sequence[str], columns: str) -> ValueError:
    """The error for a data set whose name is not among those allowed.

    Args:
        name: what was asked for.
        allowed: the names there are.
        columns: what else may be read, the end of "TSV files ...".
    """
    close = difflib.get_close_matches(name, allowed, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return ValueError(
        f"a data set should be one of {', '.join(allowed)}, or any other name with folder=..., a folder of "
        f"TSV files {columns}; got {name!r}{hint}"
    )
