"""A classifier's attention and relevance as they form, and against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from jaxtyping import Float, Integer
from matplotlib.figure import Figure

from attnlib.colours import BASELINE, GROUPS
from attnlib.plots.panels import BESIDE, colours, finished, line, row_of_panels
from attnlib.plots.style import formulas


def over_training(
    panels: Sequence[pd.DataFrame], labels: Sequence[str], chance: float | int | None = None
) -> Figure:
    """Numbers with their intervals over training, a panel per table and a line per metric.

    Lines have as many colours as there are; further ones are broken.

    Args:
        panels: columns `metric`, `step` and `value`; with `low` and `high`, a band around the line.
        labels: what the numbers of each panel are.
        chance: a dotted line in the last panel.
    """
    figure, axes = row_of_panels(len(panels))
    looks = cycle((colour, style) for style in ("-", "--", ":", "-.") for colour in colours())
    for axis, rows, label in zip(axes, panels, labels, strict=True):
        for metric, part in rows.groupby("metric", sort=False):
            colour, style = next(looks)
            line(axis, part, "step", colour, ls=style, label=formulas(str(metric)))
        # Much happens in the first steps and little in the last: a logarithm, of which 0 has one too.
        axis.set_xscale("symlog", linthresh=10)
        axis.set(xlabel="training step", ylabel=label, ylim=(-0.03, 1.03), xlim=(0, None))
    if chance is not None:
        axes[-1].axhline(chance, color=BASELINE, ls=":", label="chance")
    for axis in axes:
        axis.legend(frameon=False, fontsize=8)
    return finished(figure)


def relevance_scatter(
    alpha: Float[np.ndarray, " token"],
    betas: Mapping[str, Float[np.ndarray, " token"]],
    kinds: Integer[np.ndarray, " token"] | None = None,
    names: Sequence[str] = (),
    most: int = 4000,
) -> Figure:
    """Attention against relevance, a dot per token and a panel per relevance.

    Args:
        alpha: attention of each token.
        betas: relevance of each token, by the panel's name.
        kinds: what each token is, as an index into `names`: the colour.
        names: of the kinds.
        most: of so many tokens, drawn evenly from all.
    """
    some = np.linspace(0, len(alpha) - 1, min(most, len(alpha))).astype(int)
    hue = None if kinds is None else pd.Categorical.from_codes(kinds[some], categories=pd.Index(list(names)))
    figure, axes = row_of_panels(len(betas), sharey=True)
    for axis, (name, beta) in zip(axes, betas.items(), strict=True):
        sns.scatterplot(
            x=beta[some],
            y=alpha[some],
            hue=hue,
            s=9,
            lw=0,
            alpha=0.6,
            palette=None if hue is None else GROUPS,
            legend=axis is axes[-1] and hue is not None,
            ax=axis,
        )
        axis.set(yscale="log", xlabel=formulas(name), ylabel=r"attention $\alpha$")
    if hue is not None:
        axes[-1].legend(fontsize=8, **BESIDE)
    return finished(figure)


def with_intervals(tables: Mapping[str, pd.DataFrame], digits: int = 3) -> pd.DataFrame:
    """Tables of numbers side by side, as texts: "0.47 [0.44, 0.50]"; an infinite xi is "never".

    Where a number has no interval, because seeds are too few, it says how many they are.

    Args:
        tables: columns `metric`, `value`, `low`, `high` and `n`, by what the column is to be called.
        digits: behind the point.
    """

    def number(value: float | int) -> str:
        return "never" if np.isinf(value) else f"{value:.{digits}f}"

    def text(row: Any) -> str:
        ends = f"no interval: n = {row.n}" if np.isnan(row.low) else f"{number(row.low)}, {number(row.high)}"
        return f"{number(row.value)} [{ends}]"

    columns = {
        name: pd.Series({row.metric: text(row) for row in rows.itertuples()}) for name, rows in tables.items()
    }
    order = list(dict.fromkeys(metric for rows in tables.values() for metric in rows["metric"]))
    return pd.DataFrame(columns).loc[order].fillna("").rename_axis("metric")
