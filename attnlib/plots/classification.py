"""A classifier's attention and relevance as they form, and against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Integer

from attnlib.plots.drawing import Drawn, drawing, labelled
from attnlib.plots.panels import SHAPES, finished, legend_of, line, looks, row_of_panels
from attnlib.plots.style import lettered
from attnlib.plots.themes import colour, colours
from attnlib.plots.words import courses, listed, plain, short

MOST = 4000
"""So many dots a scatter has at most: of more tokens, some are drawn evenly from all."""


@drawing
def over_training(
    panels: Sequence[pd.DataFrame], labels: Sequence[str], chance: float | int | None = None
) -> Drawn:
    """Numbers with their intervals over training, a panel per table and a line per metric.

    Args:
        panels: columns `metric`, `step` and `value`; with `low` and `high`, a band around the line.
        labels: what the numbers of each panel are.
        chance: a thin line in the last panel.
    """
    figure, axes = row_of_panels(len(panels))
    each = looks()
    for axis, rows, label in zip(axes, panels, labels, strict=True):
        for metric, part in rows.groupby("metric", sort=False):
            line(axis, part, "step", next(each), label=lettered(str(metric)))
        # Much happens in the first steps and little in the last: a logarithm, of which 0 has one too.
        axis.set_xscale("symlog", linthresh=10)
        axis.set(xlabel="training step", ylabel=label, ylim=(-0.03, 1.03), xlim=(0, None))
    if chance is not None:
        axes[-1].axhline(chance, color=colour("faint"), lw=0.8, label="chance")
    for axis in axes:
        lines = len(axis.get_legend_handles_labels()[0])
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 1 if len(axes) > 1 else 3}
        axis.legend(frameon=False, **(below if lines > 3 else {}))
    seen = listed(
        f"{plain(label)}: {courses(rows, 'step', 'metric')}"
        for label, rows in zip(labels, panels, strict=True)
    )
    drawn = labelled(dict(zip(labels, panels, strict=True)), "panel")
    return finished(figure), drawn, f"Lines over training steps, logarithmic, a panel each. {seen}."


@drawing
def relevance_scatter(
    alpha: Float[np.ndarray, " token"],
    betas: Mapping[str, Float[np.ndarray, " token"]],
    kinds: Integer[np.ndarray, " token"] | None = None,
    names: Sequence[str] = (),
) -> Drawn:
    """Attention against relevance, a dot per token and a panel per relevance.

    Args:
        alpha: attention of each token.
        betas: relevance of each token, by the panel's name.
        kinds: what each token is, as an index into `names`: the colour and the shape.
        names: of the kinds.
    """
    import seaborn as sns

    some = np.linspace(0, len(alpha) - 1, min(MOST, len(alpha))).astype(int)
    hue = None if kinds is None else pd.Categorical.from_codes(kinds[some], categories=pd.Index(list(names)))
    figure, axes = row_of_panels(len(betas), sharey=True)
    if hue is None:
        look: dict[str, Any] = {"color": colour("accent")}
    else:
        look = {
            "hue": hue,
            "style": hue,
            "palette": colours()[: len(names)],
            "markers": list(SHAPES[: len(names)]),
        }
    for axis, (name, beta) in zip(axes, betas.items(), strict=True):
        # Thousands of dots: a picture of them is smaller than a drawing.
        dots = {"s": 10, "lw": 0, "alpha": 0.6, "rasterized": True, "legend": axis is axes[-1]}
        sns.scatterplot(x=beta[some], y=alpha[some], ax=axis, **look, **dots)
        axis.set(yscale="log", xlabel=f"relevance {lettered(name)}", ylabel="attention α")
    if hue is not None:
        legend_of(axes[-1], markerscale=2)
        axes[-1].legend().remove()
    drawn = pd.DataFrame({"alpha": alpha[some], **{name: beta[some] for name, beta in betas.items()}})
    ranks = drawn.rank().corr()["alpha"]
    seen = listed(f"{name}, rank correlation {short(ranks[name])}" for name in betas)
    alt = (
        f"{len(some):,} dots in each panel, relevance to the right, attention upwards (logarithmic): {seen}."
    )
    return finished(figure), drawn if hue is None else drawn.assign(kind=hue), alt
