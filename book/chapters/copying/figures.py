"""Who has learned to copy, and when."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.ticker import PercentFormatter

from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.panels import BESIDE, finished, looks, row_of_panels
from attnlib.plots.themes import POINTS, colour
from attnlib.plots.words import courses, listed, short


@drawing
def survival_curves(rows: pd.DataFrame) -> Drawn:
    """The share that has not yet learned after every step: a step curve per task, its interval as a band."""
    figure, (axis,) = row_of_panels(1, height=2.8)
    for (name, part), look in zip(rows.groupby("task", sort=False), looks(), strict=False):
        how = {"color": look.colour, "ls": look.stroke, "label": str(name)}
        axis.step(part["step"], part["value"], where="post", **how)
        axis.plot(*part[["step", "value"]].iloc[-1], "_", ms=9, color=look.colour)  # where it ends
        band: dict[str, Any] = {"step": "post", "color": look.colour, "alpha": 0.15, "lw": 0}
        axis.fill_between(part["step"], part["low"], part["high"], **band)
    axis.set(xlabel="training step", ylabel="not yet learned", ylim=(-0.03, 1.03), xlim=(0, None))
    axis.yaxis.set_major_formatter(PercentFormatter(1))
    axis.legend(**BESIDE)
    seen = courses(rows, "step", "task")
    return finished(figure), rows, f"Stairs of the share not yet learned, over training steps: {seen}."


@drawing
def dose_response(points: pd.DataFrame, x: str, y: str, chance: float | int | None = None) -> Drawn:
    """One number against another, a point per row with both intervals and its name."""
    figure, (axis,) = row_of_panels(1)
    across, up = ([points[of] - points[f"{of}_low"], points[f"{of}_high"] - points[of]] for of in "xy")
    axis.errorbar(points["x"], points["y"], up, across, fmt="o", ms=5, capsize=2, color=colour("accent"))
    for place, row in enumerate(points.itertuples()):  # now above, now below: neighbours may be close
        beside = (6, 6) if place % 2 else (6, -12)
        where: dict[str, Any] = {"xytext": beside, "textcoords": "offset points", "fontsize": POINTS}
        axis.annotate(str(row.name), (row.x, row.y), **where)
    if chance is not None:
        axis.axvline(chance, color=colour("faint"), ls=":", label="chance")
        axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.05, 1))
    axis.set(xlabel=x, ylabel=y, ylim=(-0.1, 1.1))
    axis.yaxis.set_major_formatter(PercentFormatter(1))
    places = zip(points["name"], points["x"], points["y"], strict=True)
    seen = listed(f"{name}: {short(right)}, {up:.0%}" for name, right, up in places)
    return finished(figure), points, f"Points, {x} to the right and {y} upwards. {seen}."
