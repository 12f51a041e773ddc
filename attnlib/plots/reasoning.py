"""Where algorithmic answers go wrong, where attention was meanwhile, and what pushing it does."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlib.plots.panels import name_rows, panels


def accuracy_by_position(rows: pd.DataFrame) -> Figure:
    """Accuracy at every place of the answer, a panel per task and a line per split.

    Args:
        rows: of `stats.error_positions`, with columns `task` and `split`.
    """
    figure, axes = panels(rows["task"].nunique())
    for axis, (name, part) in zip(axes, rows.groupby("task", sort=False), strict=True):
        for (split, line), colour in zip(part.groupby("split", sort=False), _colours(), strict=False):
            axis.plot(line["position"], line["value"], marker="o", ms=3, color=colour, label=split)
            axis.fill_between(line["position"], line["low"], line["high"], color=colour, alpha=0.2, lw=0)
        axis.set(title=name, xlabel="place in the answer", ylim=(-0.03, 1.03))
    name_rows(axes, "accuracy per token")
    return _finished(figure, axes)


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
        for number, (measure, colour) in enumerate(zip(measures, _colours(), strict=False)):
            line = part[part["measure"] == measure].set_index(groups).reindex(things)
            place = [i + 0.25 * (number - (len(measures) - 1) / 2) for i in range(len(things))]
            spread = [line["value"] - line["low"], line["high"] - line["value"]]
            axis.errorbar(
                line["value"], place, xerr=spread, fmt="o", ms=4, capsize=2, color=colour, label=measure
            )
            uniform = f"{measure}, uniform"
            axis.plot(line["uniform"], place, "|", ms=9, mew=1.5, color=colour, alpha=0.6, label=uniform)
        axis.set(title=name, xlabel="reference mass", yticks=range(len(things)), yticklabels=things)
        axis.set_xlim(left=0)
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()  # shared: all of them
    return _finished(figure, axes)


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
    colours = dict(zip(rows["split"].unique(), _colours(), strict=False))
    for axis, (name, part) in zip(axes, rows.groupby("task", sort=False), strict=True):
        for (split, onto), line in part.groupby(["split", "onto"], sort=False):
            look = {"color": colours[split], "ls": targets[onto], "label": f"{split}, {onto}"}
            axis.plot(line["strength"], line["value"], marker="o", ms=3, **look)
            axis.fill_between(
                line["strength"], line["low"], line["high"], color=colours[split], alpha=0.15, lw=0
            )
        axis.set(title=name, xlabel="strength", ylim=(-0.03, 1.03))
    name_rows(axes, "accuracy per token" if metric == "accuracy" else metric)
    return _finished(figure, axes)


def _colours() -> list[tuple[float, float, float]]:
    return sns.color_palette("colorblind")


def _finished(figure: Figure, axes: list[Axes]) -> Figure:
    handles = axes[-1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", frameon=False)
    sns.despine(figure)
    plt.close(figure)
    return figure
