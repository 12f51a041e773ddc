"""Panels of one figure, so few side by side that a page can hold them legibly, and what is drawn in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.colours import GROUPS, OUTLINE

ACROSS = 2
"""Panels side by side."""

BESIDE: Mapping[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False}
"""Where a legend stands that is too long for its panel: to the right."""


def panels(n: int) -> tuple[Figure, list[Axes]]:
    """A figure with `n` axes that share the scale of their values, `ACROSS` side by side."""
    across, down = min(n, ACROSS), -(-n // ACROSS)
    size = (3.1 * across + 1.7, 2.6 * down)
    figure, grid = plt.subplots(down, across, figsize=size, sharey=True, squeeze=False)
    for unused in grid.flat[n:]:
        unused.set_axis_off()
    return figure, list(grid.flat[:n])


def row_of_panels(n: int, height: float = 3.4, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure with `n` wide axes side by side, `height` inches high."""
    figure, grid = plt.subplots(1, n, figsize=(4.6 * n, height), squeeze=False, sharey=sharey)
    return figure, list(grid[0])


def name_rows(axes: list[Axes], label: str) -> None:
    """Say what the values are, once per row of panels."""
    for axis in axes[::ACROSS]:
        axis.set_ylabel(label)


def colours() -> Sequence[tuple[float, float, float]]:
    """Of lines and points, a colour per group."""
    return sns.color_palette(GROUPS)


def line(axis: Axes, rows: pd.DataFrame, x: str, colour: Any, alpha: float = 0.2, **look: Any) -> None:
    """A line of `value` over the column `x`; with `low` and `high`, a band around it."""
    axis.plot(rows[x], rows["value"], color=colour, marker="o", **{"ms": 3} | look)
    if "low" in rows:
        axis.fill_between(rows[x], rows["low"], rows["high"], color=colour, alpha=alpha, lw=0)


def points(
    axis: Axes, rows: pd.DataFrame, places: Sequence[float], colour: Any, label: str, marker: str = "o"
) -> None:
    """A point with its interval for every row, at heights `places`."""
    spread = [rows["value"] - rows["low"], rows["high"] - rows["value"]]
    axis.errorbar(rows["value"], places, xerr=spread, fmt=marker, ms=4, capsize=2, color=colour, label=label)


def outline(axis: Axes, cells: Sequence[Sequence[int]], corner: float = 0.0, width: float = 0.8) -> None:
    """Borders around cells [query, key] of a heat map, whose first corner is at `corner` of its cell."""
    for query, key in cells:
        place = (key + corner, query + corner)
        axis.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=OUTLINE, linewidth=width))


def legend_of(axis: Axes, title: str | None = None) -> None:
    """The legend of all panels, to their right, with what stands in one of them."""
    handles = axis.get_legend_handles_labels()
    axis.figure.legend(*handles, title=title, loc="outside right center", frameon=False)


def finished(figure: Figure, axes: bool = True) -> Figure:
    """The figure, for a cell to show once: with axes to the left and below, or none for a heat map."""
    if axes:
        sns.despine(figure)
    plt.close(figure)
    return figure
