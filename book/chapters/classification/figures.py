"""Numbers with their intervals by group and way of counting: a forest plot."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import PercentFormatter

from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.panels import finished, looks, points
from attnlib.plots.style import formulas
from attnlib.plots.themes import COLUMN, colour
from attnlib.plots.words import by_group

SIGNS: Mapping[str, str] = {"chance": "|"}
"""Of marks: a stroke for chance, a cross for all others."""


@drawing
def forest(rows: pd.DataFrame, panel: str, of: str, by: str, marks: pd.DataFrame | None = None) -> Drawn:
    """Shares with their intervals, a panel per metric, a line per group, a shape and colour per way.

    Args:
        rows: columns `value`, `low`, `high` and those named below; where an end of an interval is NaN, there
            is the point alone.
        panel: the column that panels tell apart; names of scores in it are set as formulas.
        of: the column whose values stand down the side.
        by: the column that shapes and colours tell apart.
        marks: shares without an interval to compare with, columns `panel`, `of`, `value` and `mark` (what
            they are); those of groups that are not in `rows` are left out.
    """
    metrics, groups, ways = (list(rows[name].unique()) for name in (panel, of, by))
    size = (COLUMN, 1.3 + 0.13 * len(groups) * (len(ways) + 1))
    figure, grid = plt.subplots(1, len(metrics), figsize=size, sharey=True, squeeze=False)
    beside = marks[marks[panel].isin(metrics) & marks[of].isin(groups)] if marks is not None else None
    for axis, metric in zip(grid[0], metrics, strict=True):
        here = rows[rows[panel] == metric]
        for number, (way, look) in enumerate(zip(ways, looks(), strict=False)):
            part = here[here[by] == way]
            part = part.assign(low=part["low"].fillna(part["value"]), high=part["high"].fillna(part["value"]))
            apart = 0.8 * ((number + 0.5) / len(ways) - 0.5)
            points(axis, part, [groups.index(group) + apart for group in part[of]], look, str(way))
        if beside is not None:
            for name, part in beside[beside[panel] == metric].groupby("mark", sort=False):
                places = [groups.index(group) for group in part[of]]
                sign = SIGNS.get(str(name), "x")
                how = {"ms": 11 if sign == "|" else 6, "color": colour("faint"), "label": str(name)}
                axis.plot(part["value"], places, sign, **how)
        axis.set(title=formulas(str(metric)), xlim=(0, 1), ylim=(len(groups) - 0.5, -0.5))
        axis.set_yticks(range(len(groups)), groups)
        axis.xaxis.set_major_formatter(PercentFormatter(1, symbol=""))
        axis.set_xlabel("percent")
        axis.grid(axis="x", alpha=0.3)
        for line in range(1, len(groups)):
            axis.axhline(line - 0.5, color=colour("faint"), lw=0.3, alpha=0.5)
    fullest = max(grid[0], key=lambda axis: len(axis.get_legend_handles_labels()[1]))
    figure.legend(*fullest.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    drawn = rows if beside is None else pd.concat([rows, beside], ignore_index=True)
    return finished(figure), drawn, f"Points with intervals, a panel each. {by_group(rows, panel, [of, by])}."
