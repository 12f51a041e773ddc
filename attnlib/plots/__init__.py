"""Figures and tables that chapters share. Each function returns one, for a cell to show.

A figure (`Drawing`) is drawn for light and for dark pages; it and a table carry the numbers that they show.
"""

from typing import TYPE_CHECKING

from attnlib.lazily import lazily

if TYPE_CHECKING:
    from attnlib.plots.attention_paths import paths
    from attnlib.plots.curves import accuracy_by_length, learning_curves, lines, over_training
    from attnlib.plots.dot_plots import estimates
    from attnlib.plots.drawing import Drawing
    from attnlib.plots.heat_maps import attention_grid, token_map, token_maps
    from attnlib.plots.intervals import in_cells, knowing, with_intervals
    from attnlib.plots.style import Table, lettered, table, visible

__all__ = [
    "Drawing",
    "Table",
    "accuracy_by_length",
    "attention_grid",
    "estimates",
    "in_cells",
    "knowing",
    "learning_curves",
    "lettered",
    "lines",
    "over_training",
    "paths",
    "table",
    "token_map",
    "token_maps",
    "visible",
    "with_intervals",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, __file__)
