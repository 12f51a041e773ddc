"""A classifier's attention and relevance against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Integer

from attnlib.plots.drawing import Drawn, drawing
from attnlib.plots.panels import SHAPES, finished, legend_of, row_of_panels
from attnlib.plots.style import lettered
from attnlib.plots.themes import colour, colours
from attnlib.plots.words import listed, short

MOST = 4000
"""The most dots in a scatter plot; from more tokens, evenly spaced ones are shown."""


@drawing
def relevance_scatter(
    alpha: Float[np.ndarray, " token"],
    betas: Mapping[str, Float[np.ndarray, " token"]],
    kinds: Integer[np.ndarray, " token"] | None = None,
    names: Sequence[str] = (),
) -> Drawn:
    """Attention against relevance, a dot per token and a panel per relevance."""
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
        # Thousands of dots: a raster image takes less space than vector graphics.
        dots = {"s": 10, "lw": 0, "alpha": 0.6, "rasterized": True, "legend": axis is axes[-1]}
        sns.scatterplot(x=beta[some], y=alpha[some], ax=axis, **look, **dots)
        axis.set(yscale="log", xlabel=f"relevance {lettered(name)}", ylabel="attention α")
    if hue is not None:
        legend_of(figure, markerscale=2)
        axes[-1].legend().remove()
    drawn = pd.DataFrame({"alpha": alpha[some], **{name: beta[some] for name, beta in betas.items()}})
    ranks = drawn.rank().corr()["alpha"]
    seen = listed(f"{name}, rank correlation {short(ranks[name])}" for name in betas)
    alt = (
        f"{len(some):,} dots in each panel, relevance to the right, attention upwards (logarithmic): {seen}."
    )
    return finished(figure), drawn if hue is None else drawn.assign(kind=hue), alt
