"""The picture of rollout's paths: what is drawn is what is there."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from attnlib import plots
from attnlib.plots.themes import colour

MIXED = np.array([[[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]], [[1, 0, 0], [0, 1, 0], [0.25, 0, 0.75]]])


def test_edges_have_their_weights_and_only_those_below_the_query_are_coloured():
    (axis,) = plots.paths(MIXED, ["a", "b", "c"]).figure.axes
    assert len(axis.lines) == np.count_nonzero(MIXED)
    coloured = [line for line in axis.lines if line.get_color() == colour("accent")]
    edges = {(*line.get_xdata(), *line.get_ydata()) for line in coloured}
    assert edges == {(2, 0, 2, 1), (2, 2, 2, 1), (0, 0, 1, 0), (2, 1, 1, 0), (2, 2, 1, 0)}
    assert sorted(text.get_text() for text in axis.texts if "/" in text.get_text()) == [
        "1/2",
        "1/2",
        "1/4",
        "3/4",
    ]
    weights = [MIXED[line.get_ydata()[0] - 1, *line.get_xdata()] for line in axis.lines]
    widths = [line.get_linewidth() for line in axis.lines]
    assert np.corrcoef(weights, widths)[0, 1] == pytest.approx(1), "an edge is as wide as its weight"
    assert to_hex(coloured[0].get_color()) != to_hex(axis.lines[0].get_color())


def test_another_token_has_other_paths():
    (axis,) = plots.paths(MIXED, ["a", "b", "c"], query=0).figure.axes
    assert sum(line.get_color() == colour("accent") for line in axis.lines) == 2
