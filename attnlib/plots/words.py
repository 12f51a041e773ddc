"""Alternative texts: the content of a figure in words, with its main numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import SupportsFloat

import numpy as np
import pandas as pd

MOST = 8
"""The most lines, groups or panels that are described one by one; the others are only counted."""


def short(value: SupportsFloat) -> str:
    """A number with two significant digits, or from 100 on rounded to a whole number."""
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 99.5 else f"{number:.2g}"


def place(x: SupportsFloat) -> str:
    """A value on the horizontal axis as text: a step, a length, a strength."""
    return f"{float(x):,.6g}"


def plain(text: str) -> str:
    """A label without the markup of formulas, which cannot be read aloud."""
    return re.sub(r"\$|\\mathrm|[\\{}]", "", text).replace("^", " ")


def listed(parts: Iterable[str]) -> str:
    """The first `MOST` parts of a description, joined, and the number of the others."""
    every = list(parts)
    more = [f"and {len(every) - MOST} more"] if len(every) > MOST else []
    return "; ".join([*every[:MOST], *more]) or "no numbers"


def courses(rows: pd.DataFrame, x: str, by: str | Sequence[str], value: str = "value") -> str:
    """The course of each line: its first and last value, and a maximum or minimum beyond these."""
    names = [by] if isinstance(by, str) else list(by)
    known = rows.dropna(subset=[value]).sort_values(x, kind="stable")
    order = rows[names].drop_duplicates().itertuples(index=False, name=None)
    parts = dict(iter(known.groupby(names, sort=False)))
    return listed(
        f"{', '.join(map(str, key))} {course(parts[key][x], parts[key][value])}"
        for key in order
        if key in parts
    )


def course(x: pd.Series, values: pd.Series) -> str:
    """The course of one line, as `courses` describes it."""
    first, last = values.iloc[0], values.iloc[-1]
    said = f"from {short(first)} at {place(x.iloc[0])} to {short(last)} at {place(x.iloc[-1])}"
    if len(values) == 1:
        return f"{short(first)} at {place(x.iloc[0])}"
    for word, extreme, at in (
        ("highest", values.max(), values.argmax()),
        ("lowest", values.min(), values.argmin()),
    ):
        if short(extreme) not in (short(first), short(last)):
            said += f", {word} {short(extreme)} at {place(x.iloc[at])}"
    return said


def extremes(rows: pd.DataFrame, of: str | Sequence[str], value: str = "value") -> str:
    """The highest and the lowest number, with their values in the columns `of`."""
    known = rows.dropna(subset=[value]).reset_index(drop=True)
    if known.empty:
        return "no numbers"

    def named(row: pd.Series) -> str:
        return ", ".join(str(row[name]) for name in ([of] if isinstance(of, str) else of))

    numbers = known[value].to_numpy(float)
    high, low = known.iloc[int(numbers.argmax())], known.iloc[int(numbers.argmin())]
    if len(known) == 1:
        return f"{named(high)} {short(high[value])}"
    return f"highest {named(high)} {short(high[value])}, lowest {named(low)} {short(low[value])}"


def by_group(rows: pd.DataFrame, by: str, of: str | Sequence[str], value: str = "value") -> str:
    """The highest and the lowest number of every group; see `extremes`."""
    return listed(f"{name}: {extremes(part, of, value)}" for name, part in rows.groupby(by, sort=False))


def peaks(maps: Mapping[str, np.ndarray], rows: Sequence[str], columns: Sequence[str]) -> str:
    """The largest value of each heat map, [row column], with the names of its row and column.

    The first row of causal attention is left out, since it has only one key.
    """

    def strongest(name: str, values: np.ndarray) -> str:
        causal = values.shape[0] == values.shape[1] > 1 and not np.triu(values, 1).any()
        row, column = map(int, np.unravel_index(np.nanargmax(values[causal:]), values[causal:].shape))
        row += causal
        where = f"row {row + 1} ({rows[row]}) and column {column + 1} ({columns[column]})"
        return f"{name} strongest in {where}, {short(float(values[row, column]))}"

    return listed(strongest(name, values) for name, values in maps.items())
