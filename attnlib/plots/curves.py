"""Numbers over training, over layers, and with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import LogFormatter, MaxNLocator

from attnlib.plots.drawing import Drawn, drawing, labelled
from attnlib.plots.panels import (
    ACROSS,
    BESIDE,
    finished,
    legend_of,
    line,
    looks,
    panels,
    points,
    row_of_panels,
)
from attnlib.plots.style import plain
from attnlib.plots.themes import COLUMN, colour, colours
from attnlib.plots.words import by_group, courses, extremes, listed

HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---")
"""Of areas, beside their colours."""

IN_A_ROW = 3
"""So many wide panels stand side by side; more stand in rows of narrow ones."""


@drawing
def learning_curves(histories: Mapping[str, pd.DataFrame], metric: str = "accuracy") -> Drawn:
    """A metric and the loss over training, one line per run.

    Args:
        histories: `History.table` of each run, by what the legend is to call it.
        metric: the evaluated value on the left; the loss is on the right.
    """
    rows = labelled(histories, "run")
    figure, (left, right) = row_of_panels(2, height=3.0)
    for axis, column in ((left, metric), (right, "cross_entropy")):
        for (name, part), look in zip(rows.groupby("run", sort=False), looks(), strict=False):
            line(
                axis, part.assign(value=part[column]).dropna(subset="value"), "step", look, label=plain(name)
            )
        axis.set_xlabel("training step")
    left.set_ylabel(f"{metric.replace('_', ' ')} (validation)")
    right.set(ylabel="cross entropy (training)", yscale="log")
    for which in ("major", "minor"):
        getattr(right.yaxis, f"set_{which}_formatter")(LogFormatter(labelOnlyBase=which == "major"))
    legend_of(right)
    seen = (
        f"{column.replace('_', ' ')}: {courses(rows, 'step', 'run', column)}"
        for column in (metric, "cross_entropy")
    )
    return finished(figure), rows, f"Lines over training steps. {'. '.join(seen)}."


@drawing
def shares_by_layer(rows: pd.DataFrame) -> Drawn:
    """Shares that add up to 1 in every layer, a panel per model.

    Args:
        rows: columns `model`, `layer` (from 1), `kind` and `value`.
    """
    models = list(rows["model"].unique())
    figure, axes = row_of_panels(len(models), height=2.9, sharey=True)
    for axis, model in zip(axes, models, strict=True):
        shares = rows[rows["model"] == model].pivot(index="layer", columns="kind", values="value")
        shares = shares[list(rows["kind"].unique())]
        areas = axis.stackplot(shares.index, shares.T, labels=shares.columns, colors=colours())
        for area, hatch in zip(areas, cycle(HATCHES)):
            area.set(hatch=hatch, hatchcolor=colour("page"), edgecolor=colour("page"), linewidth=0.6)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set(
            title=plain(model), xlabel="layer", xlim=(shares.index.min(), shares.index.max()), ylim=(0, 1)
        )
    axes[0].set_ylabel("share of the rollout")
    legend_of(axes[0])
    ends = {
        f"layer {layer}": rows[rows["layer"] == layer] for layer in (rows["layer"].min(), rows["layer"].max())
    }
    seen = listed(
        f"{model}, {name}: {extremes(part[part['model'] == model], 'kind')}"
        for model in models
        for name, part in ends.items()
    )
    return finished(figure, axes=False), rows, f"Areas that add up to 1 over layers. {seen}."


@drawing
def accuracy_by_length(rows: pd.DataFrame, panel: str, by: str) -> Drawn:
    """Accuracy against the length of test sequences; a dotted line where training sequences ended.

    Args:
        rows: columns `up_to` (the longest of a range), `value`, `low`, `high`, `length` (trained up to), and
            those named below.
        panel: the column that panels tell apart.
        by: the column that colours tell apart.
    """
    kinds, things = list(rows[panel].unique()), list(rows[by].unique())
    figure, axes = row_of_panels(len(kinds), sharey=True) if len(kinds) <= IN_A_ROW else panels(len(kinds))
    for axis, kind in zip(axes, kinds, strict=True):
        for thing, look in zip(things, looks(), strict=False):
            part = rows[(rows[panel] == kind) & (rows[by] == thing)]
            line(axis, part, "up_to", look, alpha=0.12, label=plain(thing))
        for length in rows.loc[rows[panel] == kind, "length"].unique():
            axis.axvline(length, color=colour("faint"), ls=":", lw=1)
        axis.set(title=plain(kind), xlabel="length of test, up to", ylim=(0, 1.02))
    for axis in axes[:: len(axes) if len(kinds) <= IN_A_ROW else ACROSS]:
        axis.set_ylabel("accuracy per token")
    legend_of(axes[-1], by)
    seen = listed(f"{kind}: {courses(rows[rows[panel] == kind], 'up_to', by)}" for kind in kinds)
    return finished(figure), rows, f"Lines of accuracy per token over the length of the test. {seen}."


@drawing
def estimates(rows: pd.DataFrame, of: str, by: str, label: str) -> Drawn:
    """Numbers with their intervals, a line of points per group.

    Args:
        rows: columns `value`, `low`, `high`, and those named below.
        of: the column whose values stand down the side.
        by: the column that colours tell apart.
        label: what the numbers are.
    """
    things, groups = list(rows[of].unique()), list(rows[by].unique())
    figure, axis = plt.subplots(figsize=(COLUMN, 0.8 + 0.42 * len(things)))
    for number, (group, look) in enumerate(zip(groups, looks(), strict=False)):
        part = rows[rows[by] == group].set_index(of).loc[things]
        places = [index + 0.18 * (number - (len(groups) - 1) / 2) for index in range(len(things))]
        points(axis, part, places, look, str(group))
    axis.set(yticks=range(len(things)), yticklabels=[*map(plain, things)], xlabel=label, xlim=(0, 1))
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    axis.legend(title=by, **BESIDE)
    return finished(figure), rows, f"Points with intervals, {label}. {by_group(rows, by, of)}."
