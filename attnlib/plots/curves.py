"""Numbers over training, over layers, and with their intervals."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from attnlib.colours import BASELINE
from attnlib.plots.panels import (
    ACROSS,
    BESIDE,
    colours,
    finished,
    legend_of,
    line,
    panels,
    points,
    row_of_panels,
)

IN_A_ROW = 3
"""So many wide panels stand side by side; more stand in rows of narrow ones."""


def learning_curves(histories: Mapping[str, pd.DataFrame], metric: str = "accuracy") -> Figure:
    """A metric and the loss over training, one line per run.

    Args:
        histories: `History.table` of each run, by what the legend is to call it.
        metric: the evaluated value on the left; the loss is on the right.
    """
    rows = pd.concat([table.assign(run=name) for name, table in histories.items()], ignore_index=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    for axis, column in ((left, metric), (right, "cross_entropy")):
        sns.lineplot(rows, x="step", y=column, hue="run", marker="o", ms=4, legend=axis is right, ax=axis)
        axis.set_xlabel("training step")
    left.set_ylabel(f"{metric} (validation)")
    right.set(ylabel="cross entropy (training)", yscale="log")
    right.legend(**BESIDE)
    return finished(figure)


def shares_by_layer(rows: pd.DataFrame) -> Figure:
    """Shares that add up to 1 in every layer, a panel per model.

    Args:
        rows: columns `model`, `layer` (from 1), `kind` and `value`.
    """
    models = list(rows["model"].unique())
    figure, axes = plt.subplots(
        1, len(models), figsize=(3.2 * len(models) + 1, 3), sharey=True, squeeze=False
    )
    for axis, model in zip(axes[0], models, strict=True):
        shares = rows[rows["model"] == model].pivot(index="layer", columns="kind", values="value")
        shares = shares[list(rows["kind"].unique())]
        axis.stackplot(shares.index, shares.T, labels=shares.columns, colors=colours())
        axis.set(title=model, xlabel="layer", xlim=(shares.index.min(), shares.index.max()), ylim=(0, 1))
    axes[0, 0].set_ylabel("share of the rollout")
    axes[0, -1].legend(**BESIDE)
    return finished(figure, axes=False)


def accuracy_by_length(rows: pd.DataFrame, panel: str, by: str) -> Figure:
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
        for thing, colour in zip(things, colours(), strict=False):
            part = rows[(rows[panel] == kind) & (rows[by] == thing)]
            line(axis, part, "up_to", colour, alpha=0.12, label=str(thing))
        for length in rows.loc[rows[panel] == kind, "length"].unique():
            axis.axvline(length, color=BASELINE, ls=":", lw=1)
        axis.set(title=str(kind), xlabel="length of test sequences, up to", ylim=(0, 1.02))
    for axis in axes[:: len(axes) if len(kinds) <= IN_A_ROW else ACROSS]:
        axis.set_ylabel("accuracy per token")
    legend_of(axes[-1], by)
    return finished(figure)


def estimates(rows: pd.DataFrame, of: str, by: str, label: str) -> Figure:
    """Numbers with their intervals, a line of points per group.

    Args:
        rows: columns `value`, `low`, `high`, and those named below.
        of: the column whose values stand down the side.
        by: the column that colours tell apart.
        label: what the numbers are.
    """
    things, groups = list(rows[of].unique()), list(rows[by].unique())
    figure, axis = plt.subplots(figsize=(6.5, 0.8 + 0.42 * len(things)))
    for number, (group, colour) in enumerate(zip(groups, colours(), strict=False)):
        part = rows[rows[by] == group].set_index(of).loc[things]
        places = [index + 0.18 * (number - (len(groups) - 1) / 2) for index in range(len(things))]
        points(axis, part, places, colour, str(group))
    axis.set(yticks=range(len(things)), yticklabels=things, xlabel=label, xlim=(0, 1))
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    axis.legend(title=by, **BESIDE)
    return finished(figure)
