"""Files of lines, and tables of them: a line ends at a line feed, a field at a tab, and nothing else does."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd


def split_lines(data: bytes) -> list[str]:
    """Lines end at a line feed and at nothing else, so that no other sign can shift one side."""
    lines = data.decode("utf-8").split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, gzipped if its name says so.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        data = path.read_bytes()
        return split_lines(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} should be UTF-8 text; {type(error).__name__}: {error}") from error


def read_tsv(path: Path) -> pd.DataFrame:
    r"""A table of text: its first line names the columns, tabs part them, and there is no quoting.

    Line ends may be Windows' own (a carriage return, then a line feed); any other carriage return is text.

    Raises:
        ValueError: it cannot be read, is empty, two columns have one name, or a line has more or fewer fields
            than the first.
    """
    lines = [line.removesuffix("\r").split("\t") for line in read_lines(path)]
    header = [name.removeprefix("\ufeff") for name in lines[0]] if lines else []
    if not header or len({*header}) < len(header):
        raise ValueError(
            f"{path} should be a UTF-8 table, tab-separated, whose first line names each column once; it "
            f"names {', '.join(map(repr, header)) or 'none'}"
        )
    for number, fields in enumerate(lines[1:], 2):
        if len(fields) != len(header):
            raise ValueError(
                f"{path} is not aligned from line {number} on: it has {len(fields)} fields, where the first "
                f"line has {len(header)}"
            )
    return pd.DataFrame(lines[1:], columns=header, dtype=str)
