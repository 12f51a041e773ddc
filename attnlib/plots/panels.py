"""Panels of one figure, so few side by side that a page can hold them legibly, and what is drawn in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from math import ceil
from typing import Any, Literal, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jaxtyping import Shaped
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from torch import Tensor

from attnlib.checks import check_shape
from attnlib.plots.style import plain
from attnlib.plots.themes import COLUMN, POINTS, colour, colours
from attnlib.stats.ragged import numpy_of

Numbers = np.ndarray | Tensor
"""What a figure may be given: numbers of numpy or torch, on any device and of any precision."""

ACROSS = 2
"""Panels side by side."""

BESIDE: Mapping[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False}
"""Where a legend stands that is too long for its panel: to the right."""

SHAPES = "osD^vPX"
"""Of points, beside their colours."""

LINE = 1.2
"""Of a label's height: what it takes beside others."""

STROKES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (2, 1)))
"""Of lines, beside their colours."""


class Look(NamedTuple):
    """How one group is told from the others: by its colour, and without."""

    colour: str
    shape: str
    stroke: Any


def looks() -> Iterator[Look]:
    """A look per group; no two of 210 are the same, of the first five no two are in anything."""
    return map(Look, cycle(colours()), cycle(SHAPES), cycle(STROKES))


def panels(n: int, across: int = ACROSS, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    """A figure with `n` axes, `height` inches each and so many in a row, that share the scale of values."""
    across, down = min(n, across), -(-n // across)
    size = (COLUMN, height * down + 0.2)
    figure, grid = plt.subplots(down, across, figsize=size, sharey=True, squeeze=False)
    for unused in grid.flat[n:]:
        unused.set_axis_off()
    return figure, list(grid.flat[:n])


def row_of_panels(n: int, height: float = 3.2, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure with `n` axes side by side, `height` inches high."""
    figure, grid = plt.subplots(1, n, figsize=(COLUMN, height), squeeze=False, sharey=sharey)
    return figure, list(grid[0])


def name_rows(axes: list[Axes], label: str, across: int = ACROSS) -> None:
    """Say what the values are, once per row of panels."""
    for axis in axes[::across]:
        axis.set_ylabel(label)


def label_some(
    axis: Axes, side: Literal["x", "y"], labels: Sequence[str], inches: float | int, first: float | int
) -> None:
    """Labels along a side, as large as elsewhere: all that have room, else every second, third, ...

    The side is so many `inches` long; the middle of the first label is at `first`, and the others follow at
    distances of 1.
    """
    step = max(1, ceil(len(labels) * LINE * POINTS / (72 * inches)))
    getattr(axis, f"set_{side}ticks")(np.arange(0, len(labels), step) + first, list(labels)[::step])


def line(axis: Axes, rows: pd.DataFrame, x: str, look: Look, alpha: float = 0.2, **how: Any) -> None:
    """A line of `value` over the column `x`; with `low` and `high`, a band around it."""
    how = {"color": look.colour, "marker": look.shape, "ls": look.stroke, "ms": 3, "lw": 1.3} | how
    axis.plot(rows[x], rows["value"], **how)
    if "low" in rows:
        axis.fill_between(rows[x], rows["low"], rows["high"], color=look.colour, alpha=alpha, lw=0)


def points(axis: Axes, rows: pd.DataFrame, places: Sequence[float], look: Look, label: str) -> None:
    """A point with its interval for every row, at heights `places`."""
    spread = [rows["value"] - rows["low"], rows["high"] - rows["value"]]
    how: dict[str, Any] = {
        "fmt": look.shape,
        "ms": 4,
        "capsize": 2,
        "color": look.colour,
        "label": plain(label),
    }
    axis.errorbar(rows["value"], places, xerr=spread, **how)


def of_words(
    values: Shaped[Numbers, "*map row column"], rows: Sequence[str], columns: Sequence[str]
) -> Shaped[np.ndarray, "*map row column"]:
    """The numbers of a heat map as numpy has them, if there is a word for each row and column."""
    check_shape((*values.shape[:-2], len(rows), len(columns)), "[row column]", values=values)
    return numpy_of(values)


def outline(axis: Axes, cells: Sequence[Sequence[int]], corner: float = 0.0, width: float = 0.8) -> None:
    """Borders around cells [query, key] of a heat map, whose first corner is at `corner` of its cell."""
    for query, key in cells:
        place = (key + corner, query + corner)
        axis.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=colour("reference"), linewidth=width))


def series(axes: Iterable[Axes]) -> tuple[list[Any], list[str]]:
    """What a legend of these panels lists: every series that any of them draws, once, and its name."""
    found: dict[str, Any] = {}  # artists, and containers of them
    for axis in axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    return [*found.values()], [*found]


def legend_of(figure: Figure, title: str | None = None, also: Sequence[Artist] = (), **how: Any) -> None:
    """The legend of all panels, below them, with what any of them draws; the figure grows by its rows.

    Behind the series it lists `also`, artists with labels.
    """
    handles, labels = series(figure.axes)
    drawn: list[Any] = [*handles, *also]  # matplotlib's annotation leaves out containers, as of error bars
    labels = [*labels, *(str(each.get_label()) for each in also)]
    columns = max(1, min(len(labels), int(100 / (8 + max(map(len, labels), default=0)))))
    how = {"title": title, "ncols": columns, "loc": "outside lower center", "frameon": False} | how
    figure.set_figheight(figure.get_figheight() + 0.18 * (ceil(len(labels) / columns) - 1))
    figure.legend(drawn, labels, **how)


def in_words(axis: Axis) -> None:
    """Numbers on a logarithmic axis as one writes them; within two powers of ten, 2 and 5 of each too."""
    least, most = axis.get_data_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 100 * least else (1,)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def finished(figure: Figure, axes: bool = True) -> Figure:
    """The figure, with axes to the left and below, or none for a heat map."""
    if axes:
        import seaborn as sns

        sns.despine(figure)
    return figure
