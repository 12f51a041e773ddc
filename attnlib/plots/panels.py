"""Panels of a figure, with few side by side so that they stay legible, and the elements drawn in them."""

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
"""The numbers that a figure accepts: of numpy or torch, on any device and of any precision."""

ACROSS = 2
"""The default number of panels side by side."""

BESIDE: Mapping[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False}
"""The place of a legend that is too long for its panel: to the right."""

SHAPES = "osD^vPX"
"""Markers of points, which tell groups apart without colours."""

LINE = 1.2
"""The room that a label takes along an axis, in heights of its letters."""

STROKES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)), (0, (2, 1)))
"""Styles of lines, which tell groups apart without colours."""


class Look(NamedTuple):
    """The look of one group: its colour, and a marker and a line style that work without colours."""

    colour: str
    shape: str
    stroke: Any


def looks() -> Iterator[Look]:
    """A look per group: the first 210 are distinct, and the first five differ in colour, shape and stroke."""
    return map(Look, cycle(colours()), cycle(SHAPES), cycle(STROKES))


def panels(n: int, across: int = ACROSS, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    """A figure with `n` axes that share the vertical scale, `height` inches each, and `across` in a row."""
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
    """Label the vertical axis once per row of panels."""
    for axis in axes[::across]:
        axis.set_ylabel(label)


def label_some(
    axis: Axes, side: Literal["x", "y"], labels: Sequence[str], inches: float | int, first: float | int
) -> None:
    """Label a side of an axis: all labels if there is room for them, else every second, third, ...

    The side is `inches` long; the middle of the first label is at `first`, and the others follow at
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
    """The numbers of a heat map as numpy; raises a ValueError unless each row and column has a label."""
    check_shape((*values.shape[:-2], len(rows), len(columns)), "[row column]", values=values)
    return numpy_of(values)


def outline(axis: Axes, cells: Sequence[Sequence[int]], corner: float = 0.0, width: float = 0.8) -> None:
    """Draw borders around cells [query, key] of a heat map, each shifted by `corner` along both axes."""
    for query, key in cells:
        place = (key + corner, query + corner)
        axis.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=colour("reference"), linewidth=width))


def series(axes: Iterable[Axes]) -> tuple[list[Any], list[str]]:
    """The handles and labels for a common legend of panels: every series of any panel, once per label."""
    found: dict[str, Any] = {}  # artists, and containers of them
    for axis in axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    return [*found.values()], [*found]


def legend_of(figure: Figure, title: str | None = None, also: Sequence[Artist] = (), **how: Any) -> None:
    """Draw one legend for all panels, below them; the figure grows by the legend's rows.

    The legend lists the series of all panels (`series`), then `also`, artists with labels.
    """
    handles, labels = series(figure.axes)
    drawn: list[Any] = [*handles, *also]  # matplotlib's annotation leaves out containers, as of error bars
    labels = [*labels, *(str(each.get_label()) for each in also)]
    columns = max(1, min(len(labels), int(100 / (8 + max(map(len, labels), default=0)))))
    how = {"title": title, "ncols": columns, "loc": "outside lower center", "frameon": False} | how
    figure.set_figheight(figure.get_figheight() + 0.18 * (ceil(len(labels) / columns) - 1))
    figure.legend(drawn, labels, **how)


def in_words(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers; within two powers of ten, also at 2 and 5 of each."""
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
