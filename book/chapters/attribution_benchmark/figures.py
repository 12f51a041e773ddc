"""Figures of attribution methods, setting by setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from attnlib.plots.drawing import Drawn, drawing, labelled
from attnlib.plots.panels import Look, finished, legend_of, looks, points
from attnlib.plots.themes import COLUMN, POINTS, colour, ink_on, signed
from attnlib.plots.words import by_group, extremes, listed
from book.chapters.display import display_name, display_names

LEFT_OUT = "not supported, or not asked"
"""The legend's label of a cell without a number."""

MANY = 20
"""The number of columns above which the numbers in cells have a smaller font."""

FULL, ABOVE, BELOW = "●", "▲", "▼"
LONG = {FULL: ("o", 1.0, "100, perfect"), ABOVE: ("^", 1.0, "above 100"), BELOW: ("v", 0.0, "below -99")}
"""Symbols for numbers wider than a cell: the legend's marker, the cell's place on the scale, the label."""


@drawing
def measures_by_setting(
    tables: Mapping[str, pd.DataFrame], rankings: Mapping[str, pd.DataFrame], also: Sequence[str] = ()
) -> Drawn:
    """A heat map of normalised numbers, a row per method, and beside it the means over settings."""
    tables = {name: display_names(table) for name, table in tables.items()}
    rankings = {name: display_names(ranking) for name, ranking in rankings.items()}
    names = list(tables)
    known = [name for ranking in rankings.values() for name in ranking["method"]]
    order = list(dict.fromkeys([*known, *map(display_name, also)]))
    settings = {name: list(dict.fromkeys(table["setting"])) for name, table in tables.items()}
    widths = [0.6 + 0.2 * max(map(len, settings.values())), 1.1]
    size = (COLUMN, (1.9 + 0.2 * len(order)) * len(names) + 0.3)
    figure, axes = plt.subplots(len(names), 2, figsize=size, squeeze=False, width_ratios=widths)
    for name, (cells, means) in zip(names, axes, strict=True):
        _cells(cells, tables[name], order, settings[name])
        _means(means, rankings[name], order)
        cells.set_title(name, loc="left")
        cells.set(yticks=range(len(order)), yticklabels=order)
        means.set_yticks([])
        if means is not axes[0, 1]:
            means.sharex(axes[0, 1])
        means.xaxis.set_major_formatter(PercentFormatter(1, symbol=""))  # in hundredths, as cells
        for axis in (cells, means):
            axis.set_ylim(len(order) - 0.5, -0.5)
    gap = Patch(facecolor=colour("field"), hatch="////", edgecolor=colour("faint"), lw=0, label=LEFT_OUT)
    shown = {text.get_text() for axis in axes[:, 0] for text in axis.texts}
    legend_of(figure, also=[*(_sign(sign) for sign in LONG if sign in shown), gap])
    means = labelled(rankings, "panel").assign(setting="mean over settings")
    cells, over = labelled(tables, "panel"), by_group(means, "panel", "method")
    alt = f"Coloured numbers, a row per method and a column per setting. Means over settings: {over}. "
    alt += f"Cells: {by_group(cells, 'panel', ['method', 'setting'])}."
    return finished(figure, axes=False), pd.concat([cells, means], ignore_index=True), alt


@drawing
def measures_ranked(rankings: Mapping[str, pd.DataFrame]) -> Drawn:
    """Means over settings with intervals, a row per method that all settings have; the best is on top."""
    rankings = {name: display_names(table[table["rank"].notna()]) for name, table in rankings.items()}
    tables = {name: table.set_index("method") for name, table in rankings.items()}
    order = list(next(iter(tables.values())).index)
    figure, axis = plt.subplots(figsize=(COLUMN, 1 + 0.25 * len(order)))
    axis.axvline(0, color=colour("faint"), lw=0.8, ls=":")
    points_beside(axis, tables, order, 0.24)
    axis.set_xlabel("from noise (0) to ground truth (1), mean over settings")
    legend_of(figure)
    seen = listed(f"{name}: {extremes(table.reset_index(), 'method')}" for name, table in tables.items())
    alt = f"Points with intervals, a row per method. {seen}."
    return finished(figure), labelled(rankings, "question"), alt


@drawing
def found_by_way(rows: pd.DataFrame) -> Drawn:
    """A panel per task, a row per method, and in each row a point with its interval for each of `WAYS`."""
    rows = display_names(rows)
    measures, tasks = list(rows["method"].unique()), list(rows["run"].unique())
    size = (COLUMN, 1.2 + 0.45 * len(measures))
    figure, axes = plt.subplots(1, len(tasks), figsize=size, squeeze=False, sharex=True)
    for axis, task in zip(axes[0], tasks, strict=True):
        here = rows[rows["run"] == task]
        ways = {str(way): part.set_index("method") for way, part in here.groupby("way", sort=False)}
        axis.axvline(0, color=colour("faint"), lw=0.8, ls=":")
        points_beside(axis, ways, measures, 0.24)
        axis.set_title(task, loc="left")
    for axis in axes[0, 1:]:
        axis.set_yticklabels([])
    axes[0, len(tasks) // 2].set_xlabel("from chance (0) to perfect (1)")  # a legend stands on a supxlabel
    legend_of(figure)
    panels = rows.assign(panel=rows["run"] + ", " + rows["way"])
    alt = f"Points with intervals, a row per method. {by_group(panels, 'panel', 'method')}."
    return finished(figure), rows, alt


def points_beside(axis: Axes, tables: Mapping[str, pd.DataFrame], rows: list[str], apart: float) -> None:
    """Draw points with intervals in `rows`, the tables' index; tables are `apart` from each other."""
    for number, ((name, table), look) in enumerate(zip(tables.items(), looks(), strict=False)):
        heights = np.arange(len(rows)) + apart * (number - (len(tables) - 1) / 2)
        points(axis, table.reindex(rows), heights.tolist(), look, name)
    axis.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.4, -0.6))
    axis.tick_params("y", length=0)
    axis.grid(axis="x", alpha=0.3)


def numbers_in_cells(
    axis: Axes, values: pd.DataFrame, norm: Normalize, narrow: bool = False, **how: Any
) -> None:
    """Draw coloured cells with their numbers in hundredths; `narrow` cells show symbols for wide numbers."""
    scale, (n_rows, n_columns) = signed(), values.shape
    size = POINTS - 2 * (n_columns > MANY)
    axis.pcolormesh(
        np.arange(n_columns + 1) - 0.5, np.arange(n_rows + 1) - 0.5, values, norm=norm, cmap=scale, **how
    )
    for (row, column), value in np.ndenumerate(values.to_numpy()):
        if not np.isnan(value):
            text, ink = f"{100 * value:z.0f}", ink_on(scale(norm(value)))
            if narrow and len(text.lstrip("-")) > 2:
                text = FULL if text == "100" else ABOVE if value > 0 else BELOW
            axis.text(column, row, text, ha="center", va="center", fontsize=size, color=ink)
    axis.set(xticks=range(n_columns), xticklabels=values.columns)
    axis.tick_params("x", labelrotation=60)
    axis.tick_params(length=0)
    plt.setp(axis.get_xticklabels(), ha="right", rotation_mode="anchor")
    axis.spines[:].set_visible(False)


def _sign(sign: str) -> Line2D:
    """The legend's entry for one of the symbols `LONG`, on the colour of its cell."""
    marker, place, name = LONG[sign]
    cell = signed()(place)
    return Line2D([], [], marker=marker, ls="", ms=7, mec=cell, mew=2.5, mfc=ink_on(cell), label=name)


def _cells(axis: Axes, table: pd.DataFrame, order: list[str], settings: list[str]) -> None:
    values = table.pivot(index="method", columns="setting", values="value")
    values = values.reindex(index=order, columns=settings).astype(float)
    norm: Normalize = TwoSlopeNorm(0, vmin=-1, vmax=1)  # numbers beyond have the last colour
    axis.set_facecolor(colour("field"))
    axis.patch.set(hatch="////", edgecolor=colour("faint"), lw=0)
    numbers_in_cells(axis, values, norm, narrow=True, rasterized=True)


def _means(axis: Axes, ranking: pd.DataFrame, order: list[str]) -> None:
    rows = ranking.set_index("method").reindex(order)
    whole = rows["rank"].notna()
    some = rows["value"].notna() & ~whole
    axis.axvline(0, color=colour("faint"), lw=0.8, ls=":")
    first, second = Look(colour("accent"), "o", "-"), Look(colour("faint"), "D", "-")
    for part, look, label in ((whole, first, "all settings"), (some, second, "some settings")):
        if part.any():
            points(axis, rows[part], np.flatnonzero(part).astype(float).tolist(), look, label)
    axis.set_xlabel("their mean")
    axis.tick_params("y", length=0)
    axis.grid(axis="x", alpha=0.3)
    axis.spines[["top", "right", "left"]].set_visible(False)
