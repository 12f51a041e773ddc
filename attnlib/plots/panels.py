"""Panels of one figure, so few side by side that a page can hold them legibly."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ACROSS = 2
"""Panels side by side."""


def panels(n: int) -> tuple[Figure, list[Axes]]:
    """A figure with `n` axes that share the scale of their values, `ACROSS` side by side."""
    across, down = min(n, ACROSS), -(-n // ACROSS)
    size = (3.1 * across + 1.7, 2.6 * down)
    figure, grid = plt.subplots(down, across, figsize=size, sharey=True, squeeze=False)
    for unused in grid.flat[n:]:
        unused.set_axis_off()
    return figure, list(grid.flat[:n])


def name_rows(axes: list[Axes], label: str) -> None:
    """Say what the values are, once per row of panels."""
    for axis in axes[::ACROSS]:
        axis.set_ylabel(label)
