"""Figures and tables that several chapters share. Each function returns one, for a cell to show."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pandas.io.formats.style import Styler
from torch import Tensor

from attnlib.generators.base import Head

COLOURS = "Blues"
"""From light to dark in one hue: the same to readers who see red and green alike, and in the explorers."""

sns.set_theme(style="ticks", context="paper", rc={"figure.dpi": 144, "figure.constrained_layout.use": True})


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
    sns.move_legend(right, "center left", bbox_to_anchor=(1, 0.5), title=None, frameon=False)
    sns.despine(figure)
    plt.close(figure)
    return figure


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
    plt.close(figure)
    return figure


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
    sns.heatmap(data, norm=norm, cmap=COLOURS, xticklabels=names[0], yticklabels=names[1], ax=axis)
    axis.set(ylabel=labels[0], xlabel=labels[1])
    axis.tick_params(length=0, labelsize=7)
    axis.tick_params("y", labelrotation=0)
    axis.tick_params("x", labelrotation=90)
    plt.close(figure)
    return figure


def visible(word: str) -> str:
    """A token as a label: blanks and line ends can be seen, and nothing is taken for mathematics."""
    return word.replace("\n", "⏎").replace(" ", "␣").replace("$", r"\$") or "∅"


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
        axis.stackplot(shares.index, shares.T, labels=shares.columns, colors=sns.color_palette("colorblind"))
        axis.set(title=model, xlabel="layer", xlim=(shares.index.min(), shares.index.max()), ylim=(0, 1))
    axes[0, 0].set_ylabel("share of the rollout")
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    plt.close(figure)
    return figure


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
    for number, (group, colour) in enumerate(zip(groups, sns.color_palette("colorblind"), strict=False)):
        part = rows[rows[by] == group].set_index(of).loc[things]
        place = [index + 0.18 * (number - (len(groups) - 1) / 2) for index in range(len(things))]
        spread = [part["value"] - part["low"], part["high"] - part["value"]]
        axis.errorbar(
            part["value"], place, xerr=spread, fmt="o", ms=4, capsize=2, color=colour, label=str(group)
        )
    axis.set(yticks=range(len(things)), yticklabels=things, xlabel=label, xlim=(0, 1))
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    axis.legend(title=by, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    sns.despine(figure)
    plt.close(figure)
    return figure


def table(rows: pd.DataFrame, digits: int = 4) -> Styler:
    """Rows as the pages show them: the index a column like the others, texts whole and to the left."""
    rows = rows if isinstance(rows.index, pd.RangeIndex) else rows.reset_index()
    texts = [name for name in rows if not pd.api.types.is_numeric_dtype(rows[name])]
    style = rows.style.hide(axis="index").format(precision=digits, subset=rows.columns.difference(texts))
    style = style.format(escape="html", subset=texts).format_index(escape="html", axis="columns")
    style = style.set_properties(subset=texts, **{"text-align": "left"})
    identity = hashlib.sha256(rows.to_csv().encode()).hexdigest()[
        :8
    ]  # pandas' own is random: pages would differ
    return style.set_uuid(identity).set_table_attributes('class="dataframe"')


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
        cmap=COLOURS,
        square=True,
        cbar=False,
        xticklabels=labels,
        yticklabels=labels,
        ax=axis,
    )
    axis.tick_params(length=0, labelsize=7)
    axis.tick_params("y", labelrotation=0)
    axis.tick_params("x", labelrotation=90 if max(map(len, tokens)) > 2 else 0)
    for query, key in target.nonzero().tolist() if target is not None else ():
        axis.add_patch(Rectangle((key, query), 1, 1, fill=False, edgecolor="orangered", linewidth=0.8))
