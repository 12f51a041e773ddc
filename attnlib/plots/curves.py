"""Curves: numbers over training or another quantity, with their confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.ticker import MaxNLocator

from attnlib.plots.drawing import Drawing, Drawn, drawing, labelled
from attnlib.plots.panels import (
    ACROSS,
    BESIDE,
    finished,
    in_words,
    legend_of,
    line,
    looks,
    name_rows,
    panels,
    row_of_panels,
    series,
)
from attnlib.plots.style import lettered, plain
from attnlib.plots.themes import colour
from attnlib.plots.words import courses, listed
from attnlib.plots.words import plain as spoken

IN_A_ROW = 3
"""The most panels of a figure with a single row; more panels are lower, in rows of `ACROSS`."""

SHARES = (-0.03, 1.03)
"""The limits of an axis of shares, which leave lines at 0 and 1 visible."""


@drawing
def learning_curves(histories: Mapping[str, pd.DataFrame], metric: str = "accuracy") -> Drawn:
    """A metric and the loss over training, one line per run.

    Args:
        histories: `History.table` of each run, by its name in the legend.
        metric: the evaluated value on the left, a share; the loss is on the right.
    """
    rows = labelled(histories, "run")
    figure, (left, right) = row_of_panels(2, height=3.0)
    for axis, column in ((left, metric), (right, "cross_entropy")):
        for (name, part), look in zip(rows.groupby("run", sort=False), looks(), strict=False):
            line(
                axis, part.assign(value=part[column]).dropna(subset="value"), "step", look, label=plain(name)
            )
        axis.set_xlabel("training step")
    left.set(ylabel=f"{metric.replace('_', ' ')} (validation)", ylim=SHARES)
    right.set(ylabel="cross entropy in nats (training)", yscale="log")
    in_words(right.yaxis)
    legend_of(figure)
    seen = (
        f"{column.replace('_', ' ')}: {courses(rows, 'step', 'run', column)}"
        for column in (metric, "cross_entropy")
    )
    return finished(figure), rows, f"Lines over training steps. {'. '.join(seen)}."


@drawing
def over_training(
    panels: Sequence[pd.DataFrame], labels: Sequence[str], chance: float | int | None = None
) -> Drawn:
    """Metrics with their confidence intervals over training, a panel per table and a line per metric.

    Args:
        panels: columns `metric`, `step` and `value`; with `low` and `high`, a band around the line.
        labels: the label of each panel's vertical axis.
        chance: the chance level, a thin line in the last panel.
    """
    figure, axes = row_of_panels(len(panels))
    each = looks()
    for axis, rows, label in zip(axes, panels, labels, strict=True):
        for metric, part in rows.groupby("metric", sort=False):
            line(axis, part, "step", next(each), label=lettered(str(metric)))
        # Most changes happen in the first steps: the axis is logarithmic, and linear near 0 to show step 0.
        axis.set_xscale("symlog", linthresh=10)
        axis.set(xlabel="training step", ylabel=label, ylim=SHARES, xlim=(0, None))
    if chance is not None:
        axes[-1].axhline(chance, color=colour("faint"), lw=0.8, label="chance")
    for axis in axes:
        lines = len(axis.get_legend_handles_labels()[0])
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 1 if len(axes) > 1 else 3}
        axis.legend(frameon=False, **(below if lines > 3 else {}))
    seen = listed(
        f"{spoken(label)}: {courses(rows, 'step', 'metric')}"
        for label, rows in zip(labels, panels, strict=True)
    )
    drawn = labelled(dict(zip(labels, panels, strict=True)), "panel")
    return finished(figure), drawn, f"Lines over training steps, logarithmic, a panel each. {seen}."


@drawing
def lines(
    rows: pd.DataFrame,
    x: str,
    by: str | None = None,
    *,
    panel: str,
    label: str | Mapping[str, str],
    xlabel: str | None = None,
    strokes: str | None = None,
    at: Mapping[str, Iterable[float]] | None = None,
    chance: float | int | Mapping[str, float] | None = None,
    ylim: tuple[float, float] | None = SHARES,
    title: str | None = None,
    alpha: float = 0.2,
    across: int = ACROSS,
    height: float = 2.4,
) -> Drawn:
    """Lines of `value` over the column `x`, with intervals as bands: a line per group, a panel per value.

    Args:
        rows: a table with columns `value`, `low` and `high` (for bands, optional), and those named below.
        x: the column of the horizontal axis.
        by: the column with a line per value; None for one line in each panel.
        panel: the column with a panel per value.
        label: the label of the vertical axis, for panels titled with their names; or a label for each panel
            by name, which also chooses the panels and their order.
        xlabel: the label of the horizontal axis; by default the name of the column.
        strokes: a second column, of two values, whose lines are solid and dotted.
        at: values of `x`, by panel, that a dotted vertical line marks.
        chance: the chance level: a dotted line in the last panel, or by panel a dashed one in each.
        ylim: the limits of the vertical axis (for `SHARES`, bands are clipped to [0, 1]); None for automatic
            limits and a line at 0.
        title: the title of the legend.
        alpha: the opacity of the bands.
        across: how many panels with titles stand side by side.
        height: the height of such a panel, in inches.
    """
    apart = isinstance(label, Mapping)
    names = list(label) if isinstance(label, Mapping) else list(rows[panel].unique())
    rows = rows[rows[panel].isin(names)]
    if ylim == SHARES:
        rows = rows.assign(**{end: rows[end].clip(0, 1) for end in ("low", "high") if end in rows})
    xlabel = x.replace("_", " ") if xlabel is None else xlabel
    figure, axes = row_of_panels(len(names), height=3.0) if apart else panels(len(names), across, height)
    groups = [] if by is None else list(rows[by].unique())
    kinds = dict(zip(rows[strokes].unique(), ("-", ":"), strict=True)) if strokes else {}
    for axis, name in zip(axes, names, strict=True):
        here = rows[rows[panel] == name].sort_values(x, kind="stable")
        if by is None:
            line(axis, here, x, next(looks()), alpha)
        for group, look in zip(groups, looks(), strict=False):
            part = here[here[by] == group]
            if not strokes and len(part):
                line(axis, part, x, look, alpha, label=plain(group))
            for kind, stroke in kinds.items():
                how = {"ls": stroke, "label": plain(f"{group}, {kind}")}
                line(axis, part[part[strokes] == kind], x, look, alpha, **how)
        for place in (at or {}).get(name, ()):
            axis.axvline(place, color=colour("faint"), ls=":", lw=1)
        if isinstance(chance, Mapping):
            axis.axhline(chance[name], ls="--", color=colour("faint"), lw=1)
        if ylim is None:
            axis.axhline(0, color=colour("faint"), lw=0.6)
        axis.set(xlabel=xlabel, title="" if apart else plain(name))
        if ylim:
            axis.set_ylim(*ylim)
        if pd.api.types.is_integer_dtype(rows[x]):
            axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    if isinstance(label, Mapping):
        for axis, what in zip(axes, label.values(), strict=True):
            axis.set(ylabel=what, xlim=(0, None))
    else:
        name_rows(axes, label, across)
    if chance is not None and not isinstance(chance, Mapping):
        axes[-1].axhline(chance, color=colour("faint"), ls=":", label="chance")
    if apart:
        axes[-1].legend(*series(axes), **BESIDE)
    elif by is not None:
        legend_of(figure, title)
    of = [each for each in (by, strokes) if each] or [panel]
    told = rows.assign(**{by: f"{title} " + rows[by].astype(str)}) if by and title else rows
    seen = listed(f"{name}: {courses(told[told[panel] == name], x, of)}" for name in names)
    what = "" if isinstance(label, Mapping) else f" of {label}"
    return finished(figure), rows, f"Lines{what} over {xlabel}. {seen}."


def accuracy_by_length(rows: pd.DataFrame, panel: str, by: str) -> Drawing:
    """Accuracy against the length of test sequences; a dotted line where training sequences ended.

    Args:
        rows: a table with columns `up_to` (the longest length of a range), `value`, `low`, `high`, `length`
            (the longest training length), and those named below.
        panel: the column with a panel per value.
        by: the column with a colour per value.
    """
    how: dict[str, Any] = {"label": "accuracy per token", "xlabel": "longest test sequence", "title": by}
    lengths = rows["length"].astype(float).groupby(rows[panel], sort=False)
    ends = {str(name): of_it.unique() for name, of_it in lengths}
    if rows[panel].nunique() <= IN_A_ROW:
        how |= {"across": IN_A_ROW, "height": 3.0}
    return lines(rows, "up_to", by, panel=panel, at=ends, ylim=(0.0, 1.02), alpha=0.12, **how)
