"""Measures beside each other, setting by setting: one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from attnlib.colours import BASELINE, NOTHING, SIGNED
from attnlib.plots.panels import colours, finished, points

LEFT_OUT = "cannot be given, or not asked"
"""What the legend calls a cell without a number."""

MARKERS = "osD^"
"""Of questions in one panel, which colours alone should not tell apart."""

_LIGHT_FROM = 0.6  # numbers on darker cells are white


def measures_by_setting(
    tables: Mapping[str, pd.DataFrame], rankings: Mapping[str, pd.DataFrame], also: Sequence[str] = ()
) -> Figure:
    """Normalised numbers of every measure and setting as a heat map; beside it their means with intervals.

    Args:
        tables: of `stats.normalised`, by what a panel is to be called: columns `setting`, `method`, `value`.
        rankings: of `stats.method_ranking`, by the same names: columns `method`, `value`, `low`, `high`.
        also: measures that have a row even if they have no number.
    """
    names = list(tables)
    known = [name for ranking in rankings.values() for name in ranking["method"]]
    order = list(dict.fromkeys([*known, *also]))
    settings = {name: list(dict.fromkeys(table["setting"])) for name, table in tables.items()}
    widths = [1.2 + 0.52 * max(map(len, settings.values())), 2.1]
    size = (sum(widths) + 2.2, (1.9 + 0.26 * len(order)) * len(names))
    figure, axes = plt.subplots(len(names), 2, figsize=size, squeeze=False, width_ratios=widths)
    for name, (cells, means) in zip(names, axes, strict=True):
        _cells(cells, tables[name], order, settings[name])
        _means(means, rankings[name], order)
        cells.set_title(name, fontsize=9, loc="left")
        cells.set(yticks=range(len(order)), yticklabels=order)
        means.set_yticks([])
        for axis in (cells, means):
            axis.set_ylim(len(order) - 0.5, -0.5)
    gap = Patch(facecolor=NOTHING, hatch="////", edgecolor=BASELINE, lw=0, label=LEFT_OUT)
    figure.legend(handles=[gap], loc="outside lower center", frameon=False, fontsize=8)
    return finished(figure, axes=False)


def measures_ranked(rankings: Mapping[str, pd.DataFrame]) -> Figure:
    """Means over settings with intervals, a row per measure that all settings have, best of the first above.

    Args:
        rankings: of `stats.method_ranking`, by what the legend calls them.
    """
    tables = {name: table[table["rank"].notna()].set_index("method") for name, table in rankings.items()}
    order = list(next(iter(tables.values())).index)
    figure, axis = plt.subplots(figsize=(6.5, 1 + 0.25 * len(order)))
    axis.axvline(0, color=BASELINE, lw=0.8, ls=":")
    for number, ((name, table), marker) in enumerate(zip(tables.items(), MARKERS, strict=False)):
        rows = table.reindex(order)
        heights = np.arange(len(order)) + 0.24 * (number - (len(tables) - 1) / 2)
        spread = [rows["value"] - rows["low"], rows["high"] - rows["value"]]
        look = {"marker": marker, "color": colours()[number], "ms": 4, "lw": 1}
        axis.errorbar(rows["value"], heights, xerr=spread, ls="", label=name, **look)
    axis.set(yticks=range(len(order)), yticklabels=order, ylim=(len(order) - 0.4, -0.6))
    axis.set_xlabel("from chance (0) to perfect (1), mean over settings")
    axis.tick_params("y", length=0)
    axis.grid(axis="x", alpha=0.3)
    axis.legend(loc="lower right", frameon=False)
    return finished(figure)


def _cells(axis: Axes, table: pd.DataFrame, order: list[str], settings: list[str]) -> None:
    values = table.pivot(index="method", columns="setting", values="value")
    values = values.reindex(index=order, columns=settings).astype(float)
    numbers = table["value"].dropna().tolist()
    norm: Normalize = TwoSlopeNorm(0, vmin=min([-0.5, *numbers]), vmax=max([1.0, *numbers]))
    scale = LinearSegmentedColormap.from_list("signed", SIGNED)
    axis.set_facecolor(NOTHING)
    axis.patch.set(hatch="////", edgecolor=BASELINE, lw=0)
    axis.pcolormesh(
        np.arange(len(settings) + 1) - 0.5, np.arange(len(order) + 1) - 0.5, values, norm=norm, cmap=scale
    )
    for (row, column), value in np.ndenumerate(values.to_numpy()):
        if not np.isnan(value):
            ink = SIGNED[len(SIGNED) // 2] if abs(2 * norm(value) - 1) > _LIGHT_FROM else SIGNED[-1]
            axis.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6, color=ink)
    axis.set(xticks=range(len(settings)), xticklabels=settings)
    axis.tick_params("x", labelrotation=60, labelsize=7)
    axis.tick_params("y", labelsize=7)
    axis.tick_params(length=0)
    for label in axis.get_xticklabels():
        label.set(ha="right", rotation_mode="anchor")
    for side in axis.spines.values():
        side.set_visible(False)


def _means(axis: Axes, ranking: pd.DataFrame, order: list[str]) -> None:
    rows = ranking.set_index("method").reindex(order)
    whole = rows["rank"].notna()
    some = rows["value"].notna() & ~whole
    axis.axvline(0, color=BASELINE, lw=0.8, ls=":")
    for part, colour, label in ((whole, colours()[0], "all settings"), (some, BASELINE, "some settings")):
        if part.any():
            points(axis, rows[part], np.flatnonzero(part).astype(float).tolist(), colour, label)
    axis.set_xlabel("mean over settings", fontsize=8)
    axis.tick_params("x", labelsize=7)
    axis.tick_params("y", length=0)
    axis.grid(axis="x", alpha=0.3)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
