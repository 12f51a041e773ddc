"""Figures and tables that chapters share. Each function returns one, for a cell to show."""

from attnlib.plots.curves import estimates, learning_curves, shares_by_layer
from attnlib.plots.heat_maps import attention_grid, token_map
from attnlib.plots.reasoning import accuracy_by_position, masses, reinforcement_curves
from attnlib.plots.style import COLOURS, table, visible

__all__ = [
    "COLOURS",
    "accuracy_by_position",
    "attention_grid",
    "estimates",
    "learning_curves",
    "masses",
    "reinforcement_curves",
    "shares_by_layer",
    "table",
    "token_map",
    "visible",
]
