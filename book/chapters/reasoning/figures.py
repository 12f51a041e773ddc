"""Figures of algorithmic reasoning: attention on the reference, redirected attention, and generalization."""

from __future__ import annotations

from itertools import islice
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from attnlib.models.stored import stored_model
from attnlib.plots.curves import IN_A_ROW, SHARES
from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.panels import finished, legend_of, looks, name_rows, panels, points
from attnlib.plots.style import plain
from attnlib.plots.themes import COLUMN, colour
from attnlib.plots.words import by_group

_NUMBERS = ("value", "low", "high", "uniform")
_MASSES = {"above uniform": "rollout above uniform attention", "mass": "rollout", "mass ID": "rollout, ID"}


@drawing
def masses(rows: pd.DataFrame, groups: str = "group") -> Drawn:
    """Reference mass of groups of rows with intervals; a tick marks the mass of uniform attention."""
    rows = rows.assign(**{name: pd.to_numeric(rows[name], errors="coerce") for name in _NUMBERS})
    figure, axes = panels(rows["task"].nunique())
    things = list(rows[groups].unique())
    measures = list(rows["measure"].unique())
    for axis, (name, part) in zip(axes, rows.groupby("task", sort=False), strict=True):
        for number, (measure, look) in enumerate(zip(measures, looks(), strict=False)):
            estimates = part[part["measure"] == measure].set_index(groups).reindex(things)
            places = [i + 0.25 * (number - (len(measures) - 1) / 2) for i in range(len(things))]
            points(axis, estimates, places, look, measure)
            stroke: dict[str, Any] = {"ms": 9, "mew": 1.5, "color": look.colour}
            axis.plot(estimates["uniform"], places, "|", label=f"{measure}, uniform", **stroke)
        axis.set(
            title=plain(name),
            xlabel="reference mass",
            yticks=range(len(things)),
            yticklabels=[*map(plain, things)],
        )
        axis.set_xlim(left=0)
        axis.locator_params("x", nbins=5)
        axis.grid(axis="x", alpha=0.3)
        lacking = part.groupby(groups, sort=False)["value"].count().reindex(things, fill_value=0).eq(0)
        for place in lacking.to_numpy().nonzero()[0]:
            axis.annotate("too few", (0, place), (4, 0), textcoords="offset points", va="center")
    axes[0].invert_yaxis()  # shared: all of them
    legend_of(figure)
    seen = by_group(rows, "task", ["measure", groups])
    return finished(figure), rows, f"Points of reference mass with intervals, a panel per task. {seen}."


@drawing
def verdicts(rows: pd.DataFrame) -> Drawn:
    """The accuracy that models lose out of distribution, and regain by the best intervention on attention."""
    first = ~rows["models"].duplicated().to_numpy()
    places = first.cumsum() + np.arange(float(len(rows)))  # with a line for the name of every family
    names = [*places, *places[first] - 1]
    figure, (shares, gains) = plt.subplots(
        1, 2, figsize=(COLUMN, 0.9 + 0.22 * len(names)), sharey=True, width_ratios=[3, 2]
    )
    change, alone = (look.colour for look in islice(looks(), 2))
    marks: dict[str, tuple[str, dict[str, Any]]] = {
        "in distribution": ("ID", {"marker": "|", "ms": 9, "color": colour("faint")}),
        "longer inputs": ("OOD", {"marker": "o", "ms": 5, "color": alone, "mfc": "none"}),
        "longer, control": ("control", {"marker": "x", "ms": 5, "color": alone}),
        "longer, best change": ("changed", {"marker": "o", "ms": 5, "color": change}),
    }
    shares.hlines(places, rows["OOD"], rows["ID"], color=colour("faint"), lw=1)
    for label, (column, how) in marks.items():
        shares.plot(rows[column], places, ls="", label=label, **how)
    gains.axvline(0, color=colour("faint"), lw=0.8, ls=":")
    points(gains, rows, places.tolist(), next(looks()), "")
    for place, verdict in zip(places, rows["verdict"], strict=True):
        gains.text(1.03, place, verdict, transform=gains.get_yaxis_transform(), va="center")
    shares.set_yticks(names, [*map(plain, rows["kind"]), *rows.loc[first, "models"]])
    for head in shares.get_yticklabels()[len(rows) :]:
        head.set_fontweight("bold")
    shares.set(xlabel="accuracy per token", xlim=(-0.03, 1.05), ylim=(len(names) - 0.4, -0.6))
    gains.set(xlabel="gain", xlim=(-1.05, 1.1))
    for axis in (shares, gains):
        axis.tick_params("y", length=0)
        axis.grid(axis="x", alpha=0.3)
    legend_of(figure)
    seen = by_group(rows, "verdict", ["models", "kind"])
    return finished(figure), rows, f"A row per kind of model: accuracies, and the gain. Gains: {seen}."


@drawing
def extrapolation(models: pd.DataFrame, mass: str = "mass") -> Drawn:
    """Accuracy against attention on the reference, both out of distribution: a point per model."""
    models = models.assign(name=_tests(models))
    figure, axes = panels(models["name"].nunique(), IN_A_ROW)
    look_of = dict(zip(models["model"].unique(), looks(), strict=False))
    for axis, (name, some) in zip(axes, models.groupby("name"), strict=True):
        for model, look in look_of.items():
            part = some[some["model"] == model]
            how: dict[str, Any] = {"ms": 5, "color": look.colour, "label": plain(model)}
            axis.plot(part[mass], part["accuracy"], look.shape, **how)
        axis.axvline(0, color=colour("faint"), lw=0.8, ls=":")
        title = f"{plain(name)}, n = {len(some)}".replace(", ", "\n", 1)
        axis.set(title=title, xlabel=_MASSES[mass], ylim=SHARES)
        axis.locator_params("x", nbins=4)
    name_rows(axes, "accuracy per token", IN_A_ROW)
    legend_of(figure)
    seen = by_group(models, "name", "model", "accuracy")
    alt = (
        f"{len(models)} points, attention on the reference to the right, accuracy upwards, a panel per test. "
    )
    return finished(figure), models, f"{alt}Accuracy: {seen}."


def _tests(models: pd.DataFrame) -> pd.Series:
    """The task of each model, with the ranges where a task was tested on several."""
    several = models.groupby("task")["ranges"].transform("nunique") > 1
    told = models["task"].str.replace("_", " ")
    return told.where(~several, told + ", " + models["ranges"].map(_lengths))


def _lengths(ranges: str) -> str:
    """Changed settings: "length 1-10 to 11-20" for "length 1-10, digits 2; OOD length 11-20, digits 2"."""
    trained, tested = (part.split(", ") for part in ranges.split("; OOD "))
    changed = [(old, new.rpartition(" ")[2]) for old, new in zip(trained, tested, strict=True) if old != new]
    return ", ".join(f"{old} to {new}" for old, new in changed)


TEXTS = ("lookatthelettertocopy", "notnearlyaslong", "dh13h")
"""The texts that the page offers for reversal: 21 letters (training ended at ten), fewer, and few."""


def redirecting() -> dict[str, Any]:
    """Arguments with which a `ModelExplorer` has the slider of the strength on top, at 0 (no redirection)."""
    small = stored_model("algorithmic_reasoning", "string reversal, sinusoidal positions")
    config = small.model.config
    heads = [(layer, head) for layer in range(config.n_layers) for head in range(config.n_heads)]
    shown = {"model": small.model, "task": small.task, "texts": TEXTS, "note": small.note}
    swaps = {f"L{layer}H{head}": "program" for layer, head in heads}
    moved = {"swaps": swaps, "strength": 0.0, "first": "strength"}
    return {"models": {small.name: shown}, "layer": config.n_layers - 1, "head": -1, **moved}
