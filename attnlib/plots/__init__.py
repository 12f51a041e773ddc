"""Figures and tables that chapters share. Each function returns one, for a cell to show."""

from attnlib.plots.curves import estimates, learning_curves, shares_by_layer
from attnlib.plots.heat_maps import attention_grid, token_map
from attnlib.plots.style import COLOURS, table, visible

__all__ = [
    "COLOURS",
    "attention_grid",
    "estimates",
    "learning_curves",
    "shares_by_layer",
    "table",
    "token_map",
    "visible",
]
