"""What is to be seen in a figure, in words with its own numbers: alternative texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import SupportsFloat

import numpy as np
import pandas as pd

MOST = 8
"""So many lines, groups or panels are described one by one; of more, how many there are is said."""


def short(value: SupportsFloat) -> str:
    """A number to two digits that count, or whole from 100 on."""
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 99.5 else f"{number:.2g}"


def place(x: SupportsFloat) -> str:
    """Where along a line: a step, a length, a strength."""
    return f"{float(x):,.6g}"


def plain(text: str) -> str:
    """A label without the marks of its formulas, which cannot be read out."""
    return re.sub(r"\$|\\mathrm|[\\{}]", "", text).replace("^", " ")


def listed(parts: Iterable[str]) -> str:
    """Parts of an account, up to `MOST` of them."""
    every = list(parts)
    more = [f"and {len(every) - MOST} more"] if len(every) > MOST else []
    return "; ".join([*every[:MOST], *more]) or "no numbers"


def courses(rows: pd.DataFrame, x: str, by: str | Sequence[str], value: str = "value") -> str:
    """What each line does: where it begins and ends, and what is beyond both between."""
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
    """What one line does, as `courses` says it."""
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
    """The highest and the lowest of some numbers, and what they are of."""
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
    """The highest and the lowest of every group."""
    return listed(f"{name}: {extremes(part, of, value)}" for name, part in rows.groupby(by, sort=False))


def peaks(maps: Mapping[str, np.ndarray], rows: Sequence[str], columns: Sequence[str]) -> str:
    """Where each heat map, [row column], is strongest: the row and the column by their names, with the value.

    The first row of causal attention has one key to look at, and is left out.
    """

    def strongest(name: str, values: np.ndarray) -> str:
        causal = values.shape[0] == values.shape[1] > 1 and not np.triu(values, 1).any()
        row, column = map(int, np.unravel_index(np.nanargmax(values[causal:]), values[causal:].shape))
        row += causal
        where = f"row {row + 1} ({rows[row]}) and column {column + 1} ({columns[column]})"
        return f"{name} strongest in {where}, {short(float(values[row, column]))}"

    return listed(strongest(name, values) for name, values in maps.items())
