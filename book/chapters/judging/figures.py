"""Figures of the chapter `judging_measures`."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import TwoSlopeNorm

from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.panels import finished, looks, points
from attnlib.plots.themes import COLUMN, POINTS, colour, ink_on, signed
from attnlib.plots.words import by_group
from book.chapters.judging import tables
from book.chapters.records import came_with_the_book


def kept() -> tables.Kept:
    """What the recorded run says, for this chapter's page and for others; empty where there is none."""
    return tables.of_record(came_with_the_book("judging_measures", questions=120))


def kept_rankings(found: tables.Kept) -> dict[str, pd.DataFrame]:
    """How a record ranks measures by the known answers and by the chosen judge; none where it is empty."""
    called = {"plausibility": tables.KNOWN, "faithfulness": tables.CHOSEN}
    rankings = {name: found.rankings.get(by, pd.DataFrame()) for name, by in called.items()}
    return {name: ranking for name, ranking in rankings.items() if len(ranking)}


@drawing
def judges(rows: pd.DataFrame) -> Drawn:
    """Tau of protocols with its intervals, a colour per group of settings; dotted lines at 0 and at .7.

    Args:
        rows: of `predictions.halves`, with the `judge` as the text calls it.
    """
    names, groups = list(rows["judge"].unique()), list(rows["settings"].unique())
    figure, axis = plt.subplots(figsize=(COLUMN, 1.3 + 0.5 * len(names)))
    for place in (0.0, 0.7):
        axis.axvline(place, color=colour("faint"), lw=0.8, ls=":")
    for number, (group, look) in enumerate(zip(groups, looks(), strict=False)):
        part = rows[rows["settings"] == group].set_index("judge").reindex(names)
        heights = np.arange(len(names)) + 0.22 * (number - (len(groups) - 1) / 2)
        points(axis, part, heights.tolist(), look, group)
    axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.4, -0.6))
    axis.set_xlabel("Kendall's tau with the known answers")
    axis.tick_params("y", length=0)
    axis.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=len(groups), frameon=False)
    return (
        finished(figure),
        rows,
        f"Points with intervals, a row per judge. {by_group(rows, 'settings', 'judge')}.",
    )


@drawing
def protocol_grid(grid: pd.DataFrame) -> Drawn:
    """Mean tau as coloured numbers, in hundredths: a row per form, a column per reading and operator.

    Args:
        grid: of `tables.grid`.
    """
    columns = [", ".join(names) for names in grid.columns]
    values, scale, norm = grid.to_numpy(float), signed(), TwoSlopeNorm(0, vmin=-1, vmax=1)
    figure, axis = plt.subplots(figsize=(COLUMN, 1.9 + 0.25 * len(grid)))
    axis.pcolormesh(
        np.arange(len(columns) + 1) - 0.5, np.arange(len(grid) + 1) - 0.5, values, norm=norm, cmap=scale
    )
    for (row, column), value in np.ndenumerate(values):
        ink = ink_on(scale(norm(value)))
        axis.text(column, row, f"{100 * value:z.0f}", ha="center", va="center", fontsize=POINTS, color=ink)
    axis.set(xticks=range(len(columns)), xticklabels=columns, yticks=range(len(grid)), yticklabels=grid.index)
    axis.tick_params(length=0)
    axis.tick_params("x", labelrotation=60)
    axis.invert_yaxis()
    for label in axis.get_xticklabels():
        label.set(ha="right", rotation_mode="anchor")
    for side in axis.spines.values():
        side.set_visible(False)
    cells = grid.set_axis(columns, axis=1).rename_axis("form").reset_index()
    cells = cells.melt("form", var_name="taken away, read", value_name="value")
    seen = by_group(cells, "taken away, read", "form")
    alt = f"Coloured numbers, a row per form and a column per way. {seen}."
    return finished(figure, axes=False), cells, alt
