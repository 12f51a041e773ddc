"""Figures of algorithmic reasoning: a panel per task, a line per group, nothing where there are no data."""

import numpy as np
import pandas as pd

from book.chapters.reasoning import figures


def panels(figure):
    return [axis for axis in figure.axes if axis.get_title()]


def test_masses_leave_out_groups_without_data():
    columns = ["task", "group", "measure", "value", "low", "high", "uniform"]
    table = [
        ["t", "right", "rollout", 0.4, 0.3, 0.5, 0.1],
        ["t", "wrong", "rollout", *["not enough data"] * 4],
    ]
    figure = figures.masses(pd.DataFrame(table, columns=columns)).figure
    points, uniform = panels(figure)[0].lines[0], panels(figure)[0].lines[-1]
    np.testing.assert_array_equal(np.asarray(points.get_xdata(), float), [0.4, np.nan])
    np.testing.assert_array_equal(np.asarray(uniform.get_xdata(), float), [0.1, np.nan])
    assert [label.get_text() for label in panels(figure)[0].get_yticklabels()] == ["right", "wrong"]
