"""Attention as heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm

from attnlib.checks import check_some
from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.panels import Numbers, finished, label_some, of_words, outline
from attnlib.plots.style import plain, visible
from attnlib.plots.themes import COLUMN, POINTS, weights
from attnlib.plots.words import peaks
from attnlib.stats.ragged import numpy_of

ROOT = "{} (square-root scale)"
"""The label of a colour scale: a square-root scale makes small weights, such as 1/30, visible."""


@drawing
def attention_grid(
    attentions: Mapping[str, Float[Numbers, "layer head query key"]],
    tokens: Sequence[str],
    targets: Mapping[tuple[int, int], Bool[Numbers, "query key"]] | None = None,
) -> Drawn:
    """A heat map for every head on one sequence, in a row per model, or several rows for many heads.

    Args:
        attentions: attention weights of each model, by the name in its titles; all of one shape.
        tokens: the tokens of the sequence.
        targets: the cells that a head should attend to, by (layer, head), which are outlined.
    """
    check_some(attentions=attentions)
    shown = {name: of_words(maps, tokens, tokens) for name, maps in attentions.items()}
    n_layers, n_heads, *_ = next(iter(shown.values())).shape
    places = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    across = min(len(places), 4 if len(tokens) <= 10 else 3 if len(tokens) <= 18 else 2)
    across = max(1, min(across, int((COLUMN - 1.2) / (0.08 * (max(map(len, attentions)) + 6)))))  # by titles
    down = -(-len(places) // across)
    size = min(2.6, (COLUMN - 1.2) / across)
    shape = (len(attentions) * down, across)
    figure, axes = plt.subplots(*shape, figsize=(COLUMN, (size + 0.3) * shape[0] + 0.3), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for number, (name, maps) in enumerate(shown.items()):
        for place, axis in zip(places, axes[number * down :].flat, strict=False):
            axis.set_axis_on()
            heat_map(axis, maps[place], tokens, (targets or {}).get(place), size)
            axis.set_title(f"{plain(name)}: L{place[0]}H{place[1]}")
    figure.supxlabel("key", fontsize=POINTS)
    figure.supylabel("query", fontsize=POINTS)
    figure.colorbar(axes[0, 0].collections[0], ax=axes, label=ROOT.format("attention"), shrink=0.7, aspect=30)
    beside = {f"target L{layer}H{head}": target for (layer, head), target in (targets or {}).items()}
    heads = {
        f"{name}, L{layer}H{head}": maps[layer, head].astype(np.float32)
        for name, maps in shown.items()
        for layer, head in places
    }
    alt = f"A heat map per head, rows queries and columns keys. {peaks(heads, tokens, tokens)}."
    return finished(figure, axes=False), arrays(shown, tokens, beside), alt


@drawing
def token_map(
    values: Float[Numbers, "row column"],
    rows: Sequence[str],
    columns: Sequence[str],
    labels: tuple[str, str] = ("generated", "prompt"),
    scale: str = "share of the rollout",
) -> Drawn:
    """One heat map with tokens (or layers) along both sides, from 0 to the largest value.

    Where columns are few, it is narrower than the page's column.

    Args:
        values: at least 0.
        rows: the label of each row.
        columns: the label of each column.
        labels: the labels of the two axes, of the rows and of the columns.
        scale: the label of the colour scale; "" for values 0 or 1 only, which need no scale.
    """
    data = of_words(values, rows, columns).astype(np.float32)
    longest, longest_below = (max(map(len, labels)) for labels in (rows, columns))
    beside = _beside(scale)
    room = COLUMN - beside - 0.085 * longest
    cell = (min(0.3, room / len(columns)), 0.2)
    size = (
        beside + 0.085 * longest + cell[0] * len(columns),
        1.1 + 0.085 * longest_below + cell[1] * len(rows),
    )
    figure, axis = plt.subplots(figsize=(max(size[0], 3.2), max(size[1], 1.6)))
    names = [[visible(word) for word in words] for words in (columns, rows)]
    _to_its_largest(axis, data, names[1], cell, scale)
    axis.set_box_aspect(cell[1] * len(rows) / (cell[0] * len(columns)))
    axis.set(ylabel=labels[0])
    _below(axis, names[0], cell[0], labels[1])
    named = {"rows": np.array(list(rows)), "columns": np.array(list(columns))}
    strongest = peaks({"cells": data}, *reversed(names))
    alt = f"A heat map, {labels[0]} down the side and {labels[1]} below: {strongest}."
    return finished(figure, axes=False), {"values": data, **named}, alt


@drawing
def token_maps(
    maps: Mapping[str, Float[Numbers, "row column"]],
    rows: Sequence[str],
    columns: Sequence[str],
    scale: str = "share",
) -> Drawn:
    """Heat maps of layers by prompt tokens, one above the other, each from 0 to its own largest value.

    Args:
        maps: values of at least 0, by the title of their map.
        rows: the label of each row, a layer.
        columns: the label of each column, a token; drawn below the last map.
        scale: the label of the colour scales.
    """
    data = {name: of_words(values, rows, columns).astype(np.float32) for name, values in maps.items()}
    beside = _beside(scale)
    cell = (min(0.3, (COLUMN - beside) / len(columns)), 0.08)
    below = 0.085 * max(map(len, columns))
    height = len(data) * (cell[1] * len(rows) + 0.6) + below + 0.4
    size = (max(beside + cell[0] * len(columns), 4.2), height)
    figure, axes = plt.subplots(len(data), figsize=size, squeeze=False, sharex=True)
    names = [visible(word) for word in columns]
    for axis, (name, values) in zip(axes[:, 0], data.items(), strict=True):
        _to_its_largest(axis, values, rows, cell, scale)
        axis.set(title=name, ylabel="layer", xlabel="")
    _below(axis, names, cell[0], "prompt")
    named = {"rows": np.array([*rows]), "columns": np.array([*columns])}
    alt = f"Heat maps, layer down the side and prompt below: {peaks(data, [*rows], names)}."
    return finished(figure, axes=False), {**data, **named}, alt


def arrays(
    attentions: Mapping[str, Numbers], tokens: Sequence[str], beside: Mapping[str, Numbers | None]
) -> Mapping[str, np.ndarray]:
    """Attention as arrays by name, those of `beside` that are not None, and the tokens."""
    known = {name: each for name, each in beside.items() if each is not None}
    numbers = {name: numpy_of(each) for name, each in (dict(attentions) | known).items()}
    return {**numbers, "tokens": np.array(list(tokens))}


def _beside(scale: str) -> float:
    """The width in inches that a colour scale and its label take beside a heat map."""
    return 0.8 + 0.07 * max(20, len(scale))


def _to_its_largest(
    axis: Axes,
    values: Float[np.ndarray, "row column"],
    rows: Sequence[str],
    cell: tuple[float, float],
    scale: str,
) -> None:
    """Draws a heat map from 0 to its largest value, `cell` inches per cell, with a colour scale beside it."""
    import seaborn as sns

    norm = PowerNorm(0.5, vmin=0, vmax=float(values.max()) or 1.0)
    how: dict[str, Any] = {"norm": norm, "cmap": weights(), "rasterized": True, "cbar": bool(scale)}
    if scale:
        inch = 1 / (cell[0] * values.shape[1])  # in widths of the map
        how |= {"cbar_ax": axis.inset_axes((1 + 0.12 * inch, 0, 0.14 * inch, 1))}
    sns.heatmap(values, xticklabels=False, yticklabels=False, ax=axis, **how)
    if scale:  # as a title: along the scale, the label would be longer than some maps are high
        how["cbar_ax"].set_title(ROOT.format(scale).replace(" (", "\n("), loc="left")
    label_some(axis, "y", rows, cell[1] * len(rows), first=0.5)
    axis.tick_params(length=0)
    axis.tick_params("y", labelrotation=0)


def _below(axis: Axes, columns: Sequence[str], width: float, label: str) -> None:
    """Labels columns of some width in inches, vertically, and the axis itself."""
    label_some(axis, "x", columns, width * len(columns), first=0.5)
    axis.tick_params("x", labelrotation=90)
    axis.set(xlabel=label)


def heat_map(
    axis: Axes,
    attention: Float[Numbers, "query key"],
    tokens: Sequence[str],
    target: Bool[Numbers, "query key"] | None,
    size: float,
) -> None:
    """Draws one head's attention, from 0 to 1, on an axis of `size` inches; outlines the target's cells."""
    # Without seaborn, which would draw the whole figure once more for every heat map in it.
    axis.pcolormesh(
        numpy_of(attention).astype(np.float32),
        norm=PowerNorm(0.5, vmin=0, vmax=1),
        cmap=weights(),
        rasterized=True,
    )
    axis.set_aspect("equal")
    axis.invert_yaxis()
    axis.spines[:].set_visible(False)
    for side in ("x", "y"):
        label_some(axis, side, [visible(token) for token in tokens], size - 0.5, first=0.5)
    axis.tick_params(length=0)
    axis.tick_params("y", labelrotation=0)
    axis.tick_params("x", labelrotation=90 if max(map(len, tokens)) > 1 else 0)
    outline(axis, np.argwhere(numpy_of(target)).tolist() if target is not None else ())
