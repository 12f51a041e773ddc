"""Attention as heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import seaborn as sns
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from attnlib.colours import WEIGHTS
from attnlib.generators.base import Head
from attnlib.plots.panels import finished, outline
from attnlib.plots.style import visible


def attention_grid(
    attentions: Mapping[str, Float[Tensor, "layer head query key"]],
    tokens: Sequence[str],
    targets: Mapping[Head, Bool[Tensor, "query key"]] | None = None,
) -> Figure:
    """Every head on one sequence: a row of heat maps per model, a column per head.

    Args:
        attentions: attention of each model, by what its row is to be called; all of one shape.
        tokens: the sequence.
        targets: where a head should look, if known: cells outlined in the heat maps.
    """
    n_layers, n_heads, *_ = next(iter(attentions.values())).shape
    places = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    size = min(3.6, 1.0 + 0.17 * len(tokens))
    shape = (len(attentions), len(places))
    figure, axes = plt.subplots(*shape, figsize=(size * shape[1] + 0.6, size * shape[0]), squeeze=False)
    for (name, maps), line in zip(attentions.items(), axes, strict=True):
        for place, axis in zip(places, line, strict=True):
            _heat_map(axis, maps[place], tokens, (targets or {}).get(place))
            axis.set_title(f"{name}: L{place[0]}H{place[1]}", fontsize=8)
    figure.supxlabel("key", fontsize=8)
    figure.supylabel("query", fontsize=8)
    figure.colorbar(axes[0, 0].collections[0], ax=axes, label="attention", shrink=0.7, aspect=30)
    return finished(figure, axes=False)


def token_map(
    values: Float[Tensor, "row column"],
    rows: Sequence[str],
    columns: Sequence[str],
    labels: tuple[str, str] = ("generated", "prompt"),
) -> Figure:
    """One heat map with tokens (or layers) along both sides, from 0 to the largest value.

    Args:
        values: at least 0.
        rows: what stands beside each row.
        columns: what stands below each column.
        labels: what rows and columns are.
    """
    width = min(11.0, 1.6 + 0.21 * len(columns))
    figure, axis = plt.subplots(figsize=(width, 1.1 + 0.21 * len(rows)))
    data = values.detach().cpu().float().numpy()
    norm = PowerNorm(0.5, vmin=0, vmax=float(data.max()) or 1.0)
    names = [[visible(word) for word in words] for words in (columns, rows)]
    sns.heatmap(data, norm=norm, cmap=WEIGHTS, xticklabels=names[0], yticklabels=names[1], ax=axis)
    axis.set(ylabel=labels[0], xlabel=labels[1])
    axis.tick_params(length=0, labelsize=7)
    axis.tick_params("y", labelrotation=0)
    axis.tick_params("x", labelrotation=90)
    return finished(figure, axes=False)


def _heat_map(
    axis: Axes,
    attention: Float[Tensor, "query key"],
    tokens: Sequence[str],
    target: Bool[Tensor, "query key"] | None,
) -> None:
    labels = list(tokens) if len(tokens) <= 30 else False
    sns.heatmap(
        attention.detach().cpu().float().numpy(),
        norm=PowerNorm(0.5, vmin=0, vmax=1),  # a weight of 1/30 is a weight too: let it be seen
        cmap=WEIGHTS,
        square=True,
        cbar=False,
        xticklabels=labels,
        yticklabels=labels,
        ax=axis,
    )
    axis.tick_params(length=0, labelsize=7)
    axis.tick_params("y", labelrotation=0)
    axis.tick_params("x", labelrotation=90 if max(map(len, tokens)) > 2 else 0)
    outline(axis, target.nonzero().tolist() if target is not None else ())
