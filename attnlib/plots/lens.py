"""A model that does sums: its digits, its heads and what they look at, over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from jaxtyping import Bool, Float
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.colours import BASELINE, GROUPS, LAYERS, WEIGHTS
from attnlib.plots.panels import finished, legend_of, line, name_rows, outline, panels, row_of_panels
from attnlib.plots.style import visible

_THIN = {"ms": 2.5, "lw": 1.2}


def accuracy_over_training(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Accuracy over training, a panel per way of splitting it, a line per part.

    Args:
        tables: by what a panel is called: columns `step`, `value`, `low`, `high`, and first of all the column
            that lines are drawn by.
    """
    figure, axes = row_of_panels(len(tables), height=3.0, sharey=True)
    for axis, (title, rows) in zip(axes, tables.items(), strict=True):
        by = str(rows.columns[0])
        shades = sns.color_palette(GROUPS, rows[by].nunique())
        for (name, part), colour in zip(rows.groupby(by, sort=False), shades, strict=True):
            line(axis, part.sort_values("step"), "step", colour, label=str(name), **_THIN)
        axis.set(title=title, xlabel="training step", ylim=(-0.02, 1.02))
        axis.legend(title=by, frameon=False, fontsize=7, title_fontsize=7)
    axes[0].set_ylabel("accuracy")
    return finished(figure)


def looks_over_training(rows: pd.DataFrame, kinds: Sequence[str]) -> Figure:
    """What answer digits look at, over training: a panel per kind of token, a line per layer.

    Args:
        rows: `attnlib.measures.lens.look_rows` summarised by `step`, `layer` and `kind`, of one model.
        kinds: which of its kinds, in order. Dashed: a query that looks at everything before it equally.
    """
    figure, axes = panels(len(kinds))
    layers = sorted(rows["layer"].unique())
    for axis, kind in zip(axes, kinds, strict=True):
        part = rows[rows["kind"] == kind]
        for layer, colour in zip(layers, sns.color_palette(LAYERS, len(layers)), strict=True):
            of_layer = part[part["layer"] == layer].sort_values("step")
            line(axis, of_layer, "step", colour, label=str(layer), **_THIN)
        axis.axhline(part["uniform"].mean(), ls="--", color=BASELINE, lw=1)
        axis.set(title=kind, xlabel="training step", ylim=(0, 1))
    name_rows(axes, "share of attention")
    legend_of(axes[0], title="layer")
    return finished(figure)


def head_table(looks: pd.DataFrame, costs: pd.DataFrame) -> Figure:
    """Every head: what it looks at (left), and what is lost without it (right).

    Args:
        looks: `look_rows` summarised by `head` and `kind`.
        costs: `ablation_rows` of the same model, by `head` and `column`.
    """
    seen = looks.pivot(index="head", columns="kind", values="value")[list(looks["kind"].unique())]
    lost = 100 * costs.pivot(index="head", columns="column", values="value")[list(costs["column"].unique())]
    size = (0.62 * (seen.shape[1] + lost.shape[1]) + 3, 0.26 * len(seen) + 1.4)
    figure, (left, right) = plt.subplots(1, 2, figsize=size, width_ratios=[seen.shape[1], lost.shape[1]])
    shared = {"annot": True, "annot_kws": {"fontsize": 7}, "cbar": False, "cmap": WEIGHTS}
    sns.heatmap(seen, vmin=0, vmax=1, fmt=".2f", ax=left, **shared)
    sns.heatmap(lost, vmin=0, vmax=100, fmt=".0f", ax=right, yticklabels=False, **shared)
    left.set(title="share of attention", ylabel="", xlabel="")
    right.set(title="points of accuracy lost without it", ylabel="", xlabel="")
    for axis in (left, right):
        axis.tick_params(length=0, labelsize=7)
        axis.tick_params("x", labelrotation=40)
        plt.setp(axis.get_xticklabels(), ha="right")
    left.tick_params("y", labelrotation=0)
    return finished(figure, axes=False)


def heads_grid(
    attentions: Float[Tensor, "layer head query key"],
    tokens: Sequence[str],
    reference: Bool[Tensor, "query key"] | None = None,
) -> Figure:
    """Every head of every layer on one sequence: a row of heat maps per layer.

    Args:
        attentions: of one model.
        tokens: the sequence.
        reference: where the queries should look, if known: outlined.
    """
    n_layers, n_heads = attentions.shape[:2]
    labels, weights = [visible(token) for token in tokens], attentions.detach().cpu().float().numpy()
    size = min(3.4, 0.9 + 0.12 * len(tokens))
    shape = (size * n_heads + 0.8, size * n_layers + 0.3)
    figure, axes = plt.subplots(n_layers, n_heads, figsize=shape, sharex=True, sharey=True, squeeze=False)
    outlined = reference.nonzero().tolist() if reference is not None else []
    for (layer, head), axis in np.ndenumerate(axes):
        picture = axis.imshow(weights[layer, head], norm=PowerNorm(0.5, vmin=0, vmax=1), cmap=WEIGHTS)
        axis.set_title(f"L{layer}H{head}", fontsize=8)
        outline(axis, outlined, corner=-0.5, width=0.7)
    axes[0, 0].set(xticks=range(len(labels)), yticks=range(len(labels)))
    axes[0, 0].set(xticklabels=labels, yticklabels=labels)
    for axis in axes.flat:
        axis.tick_params(length=0, labelsize=6)
        axis.tick_params("x", labelrotation=90)
    figure.supxlabel("key", fontsize=8)
    figure.supylabel("query", fontsize=8)
    figure.colorbar(picture, ax=axes, label="attention", shrink=0.6, aspect=30)
    return finished(figure, axes=False)
