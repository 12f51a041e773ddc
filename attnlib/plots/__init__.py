"""Figures and tables that chapters share. Each function returns one, for a cell to show.

A figure (`Drawing`) is drawn for light and for dark pages; it and a table carry the numbers that they show.
"""

from attnlib.plots.classification import over_training, relevance_scatter, with_intervals
from attnlib.plots.copying import curves_by_task, dose_response, survival_curves
from attnlib.plots.curves import accuracy_by_length, estimates, learning_curves, shares_by_layer
from attnlib.plots.drawing import Drawing
from attnlib.plots.flow import agreement_by_layer
from attnlib.plots.forest import forest
from attnlib.plots.heat_maps import attention_grid, token_map, token_maps
from attnlib.plots.lens import accuracy_over_training, head_table, heads_grid, looks_over_training
from attnlib.plots.paths import paths
from attnlib.plots.reasoning import (
    accuracy_by_position,
    extrapolation,
    masses,
    plateaus,
    reinforcement_curves,
)
from attnlib.plots.style import Table, table, visible
from attnlib.plots.tells import measures_by_setting, measures_ranked

__all__ = [
    "Drawing",
    "Table",
    "accuracy_by_length",
    "accuracy_by_position",
    "accuracy_over_training",
    "agreement_by_layer",
    "attention_grid",
    "curves_by_task",
    "dose_response",
    "estimates",
    "extrapolation",
    "forest",
    "head_table",
    "heads_grid",
    "learning_curves",
    "looks_over_training",
    "masses",
    "measures_by_setting",
    "measures_ranked",
    "over_training",
    "paths",
    "plateaus",
    "reinforcement_curves",
    "relevance_scatter",
    "shares_by_layer",
    "survival_curves",
    "table",
    "token_map",
    "token_maps",
    "visible",
    "with_intervals",
]
