"""Figures of models of arithmetic: their accuracy by digit, their heads, and the heads' attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from jaxtyping import Bool, Float
from matplotlib.colors import PowerNorm
from torch import Tensor

from attnlib.plots.drawing import Drawn, drawing, labelled
from attnlib.plots.heat_maps import ROOT, arrays
from attnlib.plots.panels import finished, label_some, line, looks, outline, row_of_panels
from attnlib.plots.style import plain, visible
from attnlib.plots.themes import COLUMN, POINTS, ink_on, weights
from attnlib.plots.words import courses, extremes, listed, peaks


@drawing
def accuracy_over_training(tables: Mapping[str, pd.DataFrame]) -> Drawn:
    """Accuracy over training: a panel per table, a line per part (such as a digit's column)."""
    figure, axes = row_of_panels(len(tables), height=3.4, sharey=True)
    for axis, (title, rows) in zip(axes, tables.items(), strict=True):
        by = str(rows.columns[0])
        for (name, part), look in zip(rows.groupby(by, sort=False), looks(), strict=False):
            line(axis, part.sort_values("step"), "step", look, label=plain(name))
        axis.set(title=title, xlabel="training step", ylim=(-0.02, 1.02))
        axis.legend(title=by, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    axes[0].set_ylabel("accuracy")
    parts = {title: rows.rename(columns={rows.columns[0]: "part"}) for title, rows in tables.items()}
    seen = listed(f"{title}: {courses(part, 'step', 'part')}" for title, part in parts.items())
    return finished(figure), labelled(parts, "panel"), f"Lines of accuracy over training steps. {seen}."


@drawing
def head_table(shares: pd.DataFrame, costs: pd.DataFrame) -> Drawn:
    """Every head's attention by kind of key (left), and the accuracy lost without the head (right)."""
    seen = shares.pivot(index="head", columns="kind", values="value")[list(shares["kind"].unique())]
    lost = 100 * costs.pivot(index="head", columns="column", values="value")[list(costs["column"].unique())]
    size = (COLUMN, 0.24 * len(seen) + 1.6)
    figure, (left, right) = plt.subplots(1, 2, figsize=size, width_ratios=[seen.shape[1], lost.shape[1]])
    shared = {"annot": True, "annot_kws": {"fontsize": POINTS}, "cbar": False, "cmap": weights()}
    shared |= {"rasterized": True}
    sns.heatmap(seen, vmin=0, vmax=1, fmt=".2f", ax=left, **shared)
    sns.heatmap(lost, vmin=0, vmax=100, fmt=".0f", ax=right, yticklabels=False, **shared)
    left.set(title="share of attention", ylabel="", xlabel="")
    right.set(title="points of accuracy lost without it", ylabel="", xlabel="")
    for axis in (left, right):
        cells = axis.collections[0]
        grounds = cells.cmap(cells.norm(cells.get_array())).reshape(-1, 4)
        for text, ground in zip(axis.texts, grounds, strict=True):
            text.set_color(ink_on(ground[:3]))
        axis.tick_params(length=0)
        axis.tick_params("x", labelrotation=40)
        plt.setp(axis.get_xticklabels(), ha="right")
    left.tick_params("y", labelrotation=0)
    told = {"share of attention": shares, "lost without it": costs.rename(columns={"column": "kind"})}
    alt = f"Coloured numbers, a row per head. Share of attention: {extremes(shares, ['head', 'kind'])}. "
    alt += f"Share of accuracy lost without it: {extremes(costs, ['head', 'column'])}."
    return finished(figure, axes=False), labelled(told, "what"), alt


@drawing
def heads_grid(
    attentions: Float[Tensor, "layer head query key"],
    tokens: Sequence[str],
    reference: Bool[Tensor, "query key"] | None = None,
) -> Drawn:
    """Every head of every layer on one sequence: a row of heat maps per layer."""
    n_layers, n_heads = attentions.shape[:2]
    labels, shown = [visible(token) for token in tokens], attentions.detach().cpu().float().numpy()
    size = min(3.0, (COLUMN - 1.2) / n_heads)
    shape = (COLUMN, size * n_layers + 0.9)
    figure, axes = plt.subplots(n_layers, n_heads, figsize=shape, sharex=True, sharey=True, squeeze=False)
    outlined = reference.nonzero().tolist() if reference is not None else []
    for (layer, head), axis in np.ndenumerate(axes):
        picture = axis.imshow(shown[layer, head], norm=PowerNorm(0.5, vmin=0, vmax=1), cmap=weights())
        axis.set_title(f"L{layer}H{head}")
        outline(axis, outlined, corner=-0.5, width=0.7)
    for side in ("x", "y"):
        label_some(axes[0, 0], side, labels, size - 0.2, first=0)
    for axis in axes.flat:
        axis.tick_params(length=0)
        axis.tick_params("x", labelrotation=90)
    figure.supxlabel("key", fontsize=POINTS)
    figure.supylabel("query", fontsize=POINTS)
    figure.colorbar(picture, ax=axes, label=ROOT.format("attention"), shrink=0.6, aspect=30)
    maps = {f"L{layer}H{head}": shown[layer, head] for layer, head in np.ndindex(n_layers, n_heads)}
    alt = f"A heat map per head, rows queries and columns keys. {peaks(maps, labels, labels)}."
    beside = arrays({"attention": attentions}, tokens, {"reference": reference})
    return finished(figure, axes=False), beside, alt
