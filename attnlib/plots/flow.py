"""What agrees with what a prediction depends on, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from attnlib.colours import BASELINE
from attnlib.plots.panels import colours, finished, legend_of, line


def agreement_by_layer(
    tables: Mapping[str, pd.DataFrame], label: str, rivals: Mapping[str, float | int] | None = None
) -> Figure:
    """A number of every way and layer, a panel per table.

    Args:
        tables: columns `way`, `layer` (from 1), `value`, and `low` and `high` if there are intervals; by what
            the panel is called.
        label: what the numbers are.
        rivals: a number without layers that stands in every panel as a dotted line, by name.
    """
    down = -(-len(tables) // 2)
    figure, grid = plt.subplots(down, 2, figsize=(8.5, 2.7 * down), sharex=True, sharey=True, squeeze=False)
    axes = list(grid.flat[: len(tables)])
    for unused in grid.flat[len(tables) :]:
        unused.set_axis_off()
    ways = list(dict.fromkeys(way for table in tables.values() for way in table["way"]))
    for axis, (title, table) in zip(axes, tables.items(), strict=True):
        for way, colour in zip(ways, colours(), strict=False):
            line(axis, table[table["way"] == way], "layer", colour, label=way)
        for name, value in (rivals or {}).items():
            axis.axhline(value, color=BASELINE, ls=":", lw=1)
            axis.text(
                0.99, value, name, ha="right", va="bottom", transform=axis.get_yaxis_transform(), fontsize=8
            )
        axis.axhline(0, color=BASELINE, lw=0.6)
        axis.set(title=title, xlabel="layer")
    for axis in axes[::2]:
        axis.set_ylabel(label)
    legend_of(axes[0])
    return finished(figure)
