"""Figures of algorithmic reasoning: a panel per task, a line per group, nothing where there are no data."""

import itertools

import numpy as np
import pandas as pd
import pytest

from book.chapters.reasoning import figures


def panels(figure):
    return [axis for axis in figure.axes if axis.get_title()]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_accuracy_by_position_draws_each_split():
    rows = pd.DataFrame(
        [
            {"task": task, "split": split, "position": i, "value": v, "low": v - 0.1, "high": v + 0.1}
            for task in ("addition", "reversal")
            for split, v in (("ID", 0.9), ("OOD", 0.2))
            for i in range(3)
        ]
    )
    figure = figures.accuracy_by_position(rows).figure
    assert [axis.get_title() for axis in panels(figure)] == ["addition", "reversal"]
    assert [list(line.get_ydata()) for line in panels(figure)[0].lines] == [[0.9] * 3, [0.2] * 3]
    assert legend(figure) == ["ID", "OOD"]


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


def test_reinforcement_curves_have_a_line_per_split_and_target():
    rows = pd.DataFrame(
        [
            {"task": "t", "split": s, "onto": o, "strength": x, "metric": m, "value": x, "low": 0, "high": 1}
            for s, o, x, m in itertools.product(
                ("ID", "OOD"), ("reference", "random"), (0.0, 1.0), ("accuracy", "exact match")
            )
        ]
    )
    figure = figures.reinforcement_curves(rows).figure
    lines = panels(figure)[0].lines
    assert len(lines) == 4 and len(legend(figure)) == 4
    assert {line.get_linestyle() for line in lines} == {"-", ":"}


@pytest.mark.parametrize("n", [1, 4, 5, 7])
def test_at_most_two_panels_stand_side_by_side(n):
    rows = pd.DataFrame(
        {"task": [f"t{i}" for i in range(n)], "split": "ID", "position": 0, "value": 1.0, "low": 1, "high": 1}
    )
    figure = figures.accuracy_by_position(rows).figure
    assert len(panels(figure)) == n
    assert len({round(axis.get_position().y0, 3) for axis in panels(figure)}) == -(-n // 2)
