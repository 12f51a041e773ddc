"""Where algorithmic answers go wrong, where attention was meanwhile, and what pushing it does."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from attnlib.plots.panels import colours, finished, legend_of, line, name_rows, panels, points


def accuracy_by_position(rows: pd.DataFrame) -> Figure:
    """Accuracy at every place of the answer, a panel per task and a line per split.

    Args:
        rows: of `stats.error_positions`, with columns `task` and `split`.
    """
    figure, axes = panels(rows["task"].nunique())
    for axis, (name, part) in zip(axes, rows.groupby("task", sort=False), strict=True):
        for (split, of_split), colour in zip(part.groupby("split", sort=False), colours(), strict=False):
            line(axis, of_split, "position", colour, label=split)
        axis.set(title=name, xlabel="place in the answer", ylim=(-0.03, 1.03))
    name_rows(axes, "accuracy per token")
    legend_of(axes[-1])
    return finished(figure)


def masses(rows: pd.DataFrame, groups: str = "group") -> Figure:
    """Reference mass of groups of rows with intervals; a stroke marks what uniform attention scores on them.

    Args:
        rows: of `stats.mass_table`, with columns `task` and `groups`. Groups without enough data are left
            empty.
        groups: the column whose values stand down the side.
    """
    rows = rows.assign(**{name: pd.to_numeric(rows[name], errors="coerce") for name in _NUMBERS})
    figure, axes = panels(rows["task"].nunique())
    things = list(rows[groups].unique())
    measures = list(rows["measure"].unique())
    for axis, (name, part) in zip(axes, rows.groupby("task", sort=False), strict=True):
        for number, (measure, colour) in enumerate(zip(measures, colours(), strict=False)):
            estimates = part[part["measure"] == measure].set_index(groups).reindex(things)
            places = [i + 0.25 * (number - (len(measures) - 1) / 2) for i in range(len(things))]
            points(axis, estimates, places, colour, measure)
            uniform = f"{measure}, uniform"
            axis.plot(
                estimates["uniform"], places, "|", ms=9, mew=1.5, color=colour, alpha=0.6, label=uniform
            )
        axis.set(title=name, xlabel="reference mass", yticks=range(len(things)), yticklabels=things)
        axis.set_xlim(left=0)
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()  # shared: all of them
    legend_of(axes[-1])
    return finished(figure)


_NUMBERS = ("value", "low", "high", "uniform")


def reinforcement_curves(rows: pd.DataFrame, metric: str = "accuracy") -> Figure:
    """Accuracy against the strength of the push, a panel per task, a line per split and target.

    Args:
        rows: of `stats.answer_accuracy` over `reinforcement_rows`, with columns `task`, `split`, `onto` and
            `strength`.
        metric: which of its metrics.
    """
    rows = rows[rows["metric"] == metric]
    figure, axes = panels(rows["task"].nunique())
    targets = dict(zip(rows["onto"].unique(), ("-", ":"), strict=False))
    colour_of = dict(zip(rows["split"].unique(), colours(), strict=False))
    for axis, (name, part) in zip(axes, rows.groupby("task", sort=False), strict=True):
        for (split, onto), of_both in part.groupby(["split", "onto"], sort=False):
            look = {"alpha": 0.15, "ls": targets[onto], "label": f"{split}, {onto}"}
            line(axis, of_both, "strength", colour_of[split], **look)
        axis.set(title=name, xlabel="strength", ylim=(-0.03, 1.03))
    name_rows(axes, "accuracy per token" if metric == "accuracy" else metric)
    legend_of(axes[-1])
    return finished(figure)
