"""Figures of the chapter `faithfulness_metrics`."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.colors import TwoSlopeNorm

from attnlib.plots.drawing import Drawing, Drawn, drawing
from attnlib.plots.panels import finished, legend_of
from attnlib.plots.themes import COLUMN, colour
from attnlib.plots.words import by_group
from book.chapters.attribution_benchmark.figures import measures_by_setting, numbers_in_cells, points_beside
from book.chapters.display import display_name, display_names
from book.chapters.faithfulness_metrics import tables
from book.chapters.records import came_with_the_book, counted


def kept() -> tables.Kept:
    """The recorded results, for this chapter's page and for others; empty if there is no record."""
    return tables.pooled(came_with_the_book("faithfulness_metrics"))


def kept_rankings(found: tables.Kept) -> dict[str, pd.DataFrame]:
    """The recorded rankings of methods by ground truth and by the chosen metric; empty without a record."""
    called = {"plausibility": tables.KNOWN, "faithfulness": tables.CHOSEN}
    rankings = {name: found.rankings.get(by, pd.DataFrame()) for name, by in called.items()}
    return {name: ranking for name, ranking in rankings.items() if len(ranking)}


def measures(measured: Mapping[str, pd.DataFrame]) -> Drawing:
    """Measures' numbers in every setting, and means over settings: noise alone is 0, ground truth 100."""
    panels = {f"by {display_name(name)}": each for name, each in measured.items()}
    means = [tables.ranked(each, name) for name, each in measured.items()]
    return measures_by_setting(panels, dict(zip(panels, means, strict=True)))


@drawing
def metric_taus(rows: pd.DataFrame, held: str = "ground truth") -> Drawn:
    """Tau of metrics with its intervals, a colour per group of settings; dotted lines at 0 and at 0.7."""
    rows = display_names(rows[["judge", "settings", "value", "low", "high", "n"]])
    names = list(rows["metric"].unique())
    groups = {
        f"{name} (n = {counted(part['n'])})": part.set_index("metric")
        for name, part in rows.groupby("settings", sort=False)
    }
    figure, axis = plt.subplots(figsize=(COLUMN, 1.3 + 0.5 * len(names)))
    for place in (0.0, 0.7):
        axis.axvline(place, color=colour("faint"), lw=0.8, ls=":")
    points_beside(axis, groups, names, 0.22)
    axis.set_xlabel(f"Kendall's τ with {held}")
    legend_of(figure)
    alt = f"Points with intervals, a row per metric. {by_group(rows, 'settings', 'metric')}."
    return finished(figure), rows, alt


@drawing
def protocol_grid(grid: pd.DataFrame) -> Drawn:
    """Mean tau in hundredths: a row per aggregation, a column per perturbation and readout."""
    grid = grid.set_axis([", ".join(names) for names in grid.columns], axis=1).astype(float)
    grid = grid.rename(index=display_name)
    figure, axis = plt.subplots(figsize=(COLUMN, 1.9 + 0.25 * len(grid)))
    numbers_in_cells(axis, grid, TwoSlopeNorm(0, vmin=-1, vmax=1))
    axis.set(yticks=range(len(grid)), yticklabels=grid.index)
    axis.invert_yaxis()
    cells = (
        grid.rename_axis("aggregation")
        .reset_index()
        .melt("aggregation", var_name="perturbation, readout", value_name="value")
    )
    seen = by_group(cells, "perturbation, readout", "aggregation")
    alt = f"Coloured numbers, a row per aggregation, a column per perturbation and readout. {seen}."
    return finished(figure, axes=False), cells, alt
