"""Dot plots: numbers with their intervals as points, beside numbers to compare them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.panels import ACROSS, BESIDE, finished, legend_of, looks, points
from attnlib.plots.style import lettered, plain
from attnlib.plots.themes import COLUMN, POINTS, colour
from attnlib.plots.words import by_group, listed, short

STROKE, CROSSES = ("|", 11), (("x", 7), ("+", 9), ("1", 10), ("2", 10))
"""Shapes and sizes of marks: a stroke for reference values (`BOUNDS`), crosses for numbers of others."""

BOUNDS = ("chance", "held against", "best possible")

SPACING = 1.4
"""The line spacing in the names of groups, in heights of a letter."""

ROOM = 0.15
"""The height in inches of a point, or of a line of text beside it."""

BELOW = 0.25
"""How far below the point a cross stands in the same group, as a share of the group's height."""

LACKING = (0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1)
"""Ticks of an axis that ends at the best number: the distance to that number, as a share of it."""

WIDE = 60
"""The most letters in a line of titles, over a row of panels."""


@drawing
def estimates(
    rows: pd.DataFrame,
    of: str,
    by: str,
    label: str,
    *,
    panel: str | None = None,
    marks: pd.DataFrame | None = None,
    notes: Mapping[str, str] | None = None,
    xlim: tuple[float, float] | None = (-0.02, 1.02),
    best: float | int | None = None,
    across: int = ACROSS,
) -> Drawn:
    """Numbers with their intervals as points, a line per group; with `panel`, a panel per value of it.

    Args:
        rows: a table with columns `value`, `low`, `high`, and those named below; an end of an interval that
            is NaN is not drawn.
        of: the column whose values name the groups, down the side.
        by: the column with a shape and a colour per value.
        label: the label of the horizontal axis.
        panel: the column with a panel per value; names of scores in it are `lettered`.
        marks: numbers without an interval to compare with, in columns `of`, `panel`, `value` and `mark` (the
            name in the legend). Groups that only `marks` has follow the others; panels that only `marks` has
            are left out, unless there are no rows at all.
        notes: a line of text below a group's name, by group.
        xlim: the limits of the horizontal axes; None for automatic ones, panel by panel.
        best: the largest possible number, if most numbers are close to it: the axis then shows the square
            root of the distance to it.
        across: how many panels stand side by side.
    """
    named = panel is not None or marks is not None
    beside = rows.iloc[:0].assign(mark="") if marks is None else marks
    if panel is None:
        panel, rows, beside = "", rows.assign(**{"": ""}), beside.assign(**{"": ""})
    titles, ways = list(rows[panel].unique()) or list(beside[panel].unique()), list(rows[by].unique())
    beside = beside[beside[panel].isin(titles)]
    groups = list(dict.fromkeys([*rows[of], *beside[of]]))
    others = [mark for mark in beside["mark"].unique() if mark not in BOUNDS]
    said = [(notes or {}).get(group, "") for group in groups]
    words = [plain(group) + "\n" * _lines(note) for group, note in zip(groups, said, strict=True)]
    lines = max(0.75 * len(ways) + 1, *(1.2 * word.count("\n") + 1.6 for word in words))
    across, down = min(len(titles), across), -(-len(titles) // across)
    size = (COLUMN, 0.8 + down * (0.5 + ROOM * lines * len(groups)))
    figure, grid = plt.subplots(down, across, figsize=size, sharey=True, squeeze=False)
    for unused in grid.flat[len(titles) :]:
        unused.set_axis_off()
    for axis, title in zip(grid.flat, titles, strict=False):
        here, theirs = (
            each[each[panel] == title].assign(place=lambda rows: rows[of].map(groups.index))
            for each in (rows, beside)
        )
        alone = len(ways) == 1 or not here["place"].duplicated().any()
        _dots(axis, here, by, ways, alone)
        _crosses(axis, theirs, others, BELOW * (alone and len(here) > 0))
        axis.set(title=lettered(fill(str(title), WIDE // across)), xlabel=label)
        axis.set_ylim(len(groups) - 0.5, -0.5)
        axis.set_yticks(range(len(groups)), words, linespacing=SPACING)
        if axis in grid[:, 0]:
            _below_the_names(axis, words, said)
        if xlim is not None:
            axis.set_xlim(*xlim)
        if best is not None:
            _crowded(axis, best)
        axis.grid(axis="x", alpha=0.3)
        for between in range(1, len(groups)):
            axis.axhline(between - 0.5, color=colour("faint"), lw=0.3, alpha=0.5)
    if named:
        legend_of(figure)
    else:
        grid.flat[0].legend(title=plain(by), **BESIDE)
    seen = by_group(rows, panel, [of, by]) if panel else by_group(rows, by, of)
    held = listed(
        " ".join(filter(None, [each.mark, each[panel], each[of], short(each["value"])]))
        for _, each in beside.iterrows()
    )
    alt = f"Points with intervals, {label}. {seen}." + f" Marks: {held}." * bool(len(beside))
    drawn = pd.concat([rows, beside], ignore_index=True) if len(beside) else rows
    return finished(figure), drawn.drop(columns="", errors="ignore"), alt


def _lines(text: str) -> int:
    return text.count("\n") + bool(text)


def _below_the_names(axis: Axes, words: Sequence[str], notes: Sequence[str]) -> None:
    """Writes the note of each group, smaller than its name, on the empty lines below the name."""
    look: dict[str, Any] = {"size": POINTS - 1, "color": colour("faint"), "ha": "right", "va": "top"}
    look |= {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "linespacing": SPACING}
    for place, (word, note) in enumerate(zip(words, notes, strict=True)):
        below = SPACING * POINTS * (_lines(note) - _lines(word) / 2)
        axis.annotate(note, (0, place), xytext=(-7, below - 3), **look)


def _crowded(axis: Axes, best: float | int) -> None:
    """Scales an axis by the square root of the distance to the best number."""

    def lacking(value: np.ndarray) -> np.ndarray:
        return np.copysign(np.sqrt(np.abs(value - best)), value - best)

    least = axis.get_xlim()[0]
    axis.set_xscale(
        "function", functions=(lacking, lambda place: best + np.copysign(np.square(place), place))
    )
    axis.set_xlim(least, best + 1e-3 * (best - least))  # a mark at the best number is not cut off
    axis.set_xticks([best * (1 - each) for each in LACKING if best * (1 - each) >= least])


def _dots(axis: Axes, rows: pd.DataFrame, by: str, ways: Sequence[str], alone: bool) -> None:
    """Points with intervals at the `place` of their group; unless `alone`, values of `by` are set apart."""
    rows = rows.assign(**{end: rows[end].fillna(rows["value"]) for end in ("low", "high")})
    for number, (way, look) in enumerate(zip(ways, looks(), strict=False)):
        part = rows[rows[by] == way]
        apart = 0.0 if alone else 0.8 * ((number + 0.5) / len(ways) - 0.5)
        points(axis, part, [place + apart for place in part["place"]], look, str(way))


def _crosses(axis: Axes, marks: pd.DataFrame, others: Sequence[str], below: float) -> None:
    """Marks at the `place` of their group; crosses are moved `below` it, so that they hide no point.

    `others` are the names of all marks of the figure that are crosses, in the order of their shapes.
    """
    for name, part in marks.groupby("mark", sort=False):
        sign, size = STROKE if name in BOUNDS else CROSSES[others.index(str(name)) % len(CROSSES)]
        places = part["place"] + below * (name not in BOUNDS)
        axis.plot(part["value"], places, sign, ms=size, mew=1.3, color=colour("ink"), label=plain(name))
