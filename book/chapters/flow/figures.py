"""What agrees with what a prediction depends on, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import MaxNLocator

from attnlib.plots.drawing import Drawn, drawing, labelled
from attnlib.plots.panels import finished, legend_of, line, looks
from attnlib.plots.style import plain
from attnlib.plots.themes import COLUMN, POINTS, colour
from attnlib.plots.words import courses, listed, short


@drawing
def agreement_by_layer(
    tables: Mapping[str, pd.DataFrame], label: str, rivals: Mapping[str, float | int] | None = None
) -> Drawn:
    """A number of every way and layer, a panel per table.

    Args:
        tables: columns `way`, `layer` (from 1), `value`, and `low` and `high` if there are intervals; by what
            the panel is called.
        label: what the numbers are.
        rivals: a number without layers that stands in every panel as a dotted line, by name.
    """
    down = -(-len(tables) // 2)
    size = (COLUMN, 2.4 * down + 0.4)
    figure, grid = plt.subplots(down, 2, figsize=size, sharex=True, sharey=True, squeeze=False)
    axes = list(grid.flat[: len(tables)])
    for unused in grid.flat[len(tables) :]:
        unused.set_axis_off()
    ways = list(dict.fromkeys(way for table in tables.values() for way in table["way"]))
    for axis, (title, table) in zip(axes, tables.items(), strict=True):
        for way, look in zip(ways, looks(), strict=False):
            line(axis, table[table["way"] == way], "layer", look, label=plain(way))
        for name, value in (rivals or {}).items():
            axis.axhline(value, color=colour("faint"), ls=":", lw=1)
            where = {"ha": "right", "va": "bottom", "transform": axis.get_yaxis_transform()}
            axis.text(0.99, value, name, fontsize=POINTS, **where)
        axis.axhline(0, color=colour("faint"), lw=0.6)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set(title=title, xlabel="layer")
    for axis in axes[::2]:
        axis.set_ylabel(label)
    legend_of(axes[0])
    beside = [pd.DataFrame({"way": list(rivals), "value": list(rivals.values())})] if rivals else []
    seen = [f"{title}: {courses(table, 'layer', 'way')}" for title, table in tables.items()]
    seen += [f"dotted, {name} {short(value)}" for name, value in (rivals or {}).items()]
    drawn = pd.concat([labelled(tables, "panel"), *beside], ignore_index=True)
    return finished(figure), drawn, f"Lines of {label} over layers. {listed(seen)}."
