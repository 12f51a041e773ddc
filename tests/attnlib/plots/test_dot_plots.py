"""A dot plot: what is drawn is what was given."""

import numpy as np
import pandas as pd

from attnlib import plots

ROWS = pd.DataFrame(
    [
        {"metric": metric, "task": task, "way": way, "value": 0.4, "low": 0.3, "high": 0.6}
        for metric in ("A(alpha, beta_uf)", "A(delta, beta_uf)")
        for task in ("IMDB", "SST")
        for way in ("held out", "as published")
    ]
)


def drawn(**more):
    return plots.estimates(ROWS, "task", "way", "percent", panel="metric", **more).figure


def test_every_way_has_its_own_shape_and_place_on_the_line_of_its_group():
    figure = drawn()
    assert [axis.get_title() for axis in figure.axes] == [
        "A(α, βᵘᶠ)",
        "A(Δ, βᵘᶠ)",
    ]
    first, second = (container.lines[0] for container in figure.axes[0].containers)
    assert first.get_marker() != second.get_marker()
    assert [[round(y) for y in each.get_ydata()] for each in (first, second)] == [[0, 1], [0, 1]]
    assert not set(first.get_ydata()) & set(second.get_ydata())
    (bars,) = figure.axes[0].containers[0].lines[2]
    np.testing.assert_allclose(bars.get_segments()[0][:, 0], [0.3, 0.6])


def test_marks_stand_where_their_group_is_and_what_only_they_have_behind():
    marks = pd.DataFrame({"task": ["SST", "Furd", "SST"], "value": [0.2, 0.9, 0.05]})
    marks = marks.assign(metric="A(alpha, beta_uf)", mark=["the authors'", "the authors'", "chance"])
    left, right = drawn(marks=marks, notes={"Furd": "not run here"}).axes
    assert [each.get_text() for each in left.get_yticklabels()] == ["IMDB", "SST", "Furd\n"]
    assert [each.get_text() for each in left.texts if each.get_text()] == ["not run here"]
    assert left.texts[-1].xy == (0, 2) and not right.texts
    found = {line.get_label(): line.get_data() for line in left.lines}
    assert [each.tolist() for each in found["the authors'"]] == [[0.2, 0.9], [1, 2]]
    assert found["chance"][0].tolist() == [0.05]
    assert "chance" not in {line.get_label() for line in right.lines}


def test_a_note_stands_below_the_last_line_of_a_name():
    names = {"IMDB": "IMDB,\nin its\nwhole length", "SST": "SST"}
    notes = {names["IMDB"]: "as written", "SST": "sentences of films,\nand their parts"}
    figure = plots.estimates(ROWS.replace({"task": names}), "task", "way", "percent", notes=notes).figure
    axis = figure.axes[0]
    figure.canvas.draw()
    for label, note in zip(axis.get_yticklabels(), axis.texts, strict=True):
        whole, below = label.get_window_extent(), note.get_window_extent()
        lines, own = label.get_text().count("\n") + 1, label.get_text().rstrip("\n").count("\n") + 1
        line = whole.height / lines
        assert below.y1 <= whole.y1 - line * own + 0.35 * line and below.y1 > whole.y1 - line * (own + 1)


def test_a_number_without_an_interval_is_a_point():
    rows = ROWS.assign(low=np.nan, high=np.nan)
    figure = plots.estimates(rows, "task", "way", "percent", panel="metric").figure
    (bars,) = figure.axes[0].containers[0].lines[2]
    np.testing.assert_allclose(bars.get_segments()[0][:, 0], [0.4, 0.4])


def test_a_cross_hides_no_point_and_a_stroke_stands_on_its_line():
    rows = ROWS[ROWS["way"] == "held out"]
    marks = pd.DataFrame({"task": "SST", "value": [0.4, 0.2], "mark": ["the authors'", "chance"]})
    marks = marks.assign(metric="A(alpha, beta_uf)")
    axis = plots.estimates(rows, "task", "way", "percent", panel="metric", marks=marks).figure.axes[0]
    found = {line.get_label(): list(line.get_ydata()) for line in axis.lines}
    dots = list(axis.containers[0].lines[0].get_ydata())
    assert dots == [0, 1] and found["chance"] == [1]
    assert 1.1 < found["the authors'"][0] < 1.5


def test_numbers_that_crowd_below_the_best_are_drawn_apart():
    rows = ROWS.assign(value=[99, 98] * 4, low=90, high=100)
    axis = plots.estimates(
        rows, "task", "way", "percent", panel="metric", xlim=(50.0, 100.0), best=100
    ).figure.axes[0]
    place = axis.transData.transform
    near, far = (place((a, 0))[0] - place((b, 0))[0] for a, b in ((100, 99), (80, 79)))
    assert near > 5 * far
    assert {60, 80, 90, 95, 99, 100} <= {round(tick) for tick in axis.get_xticks()}
    assert axis.get_xlim()[1] > 100  # a mark at the best is whole


def test_two_kinds_of_crosses_are_told_apart_in_every_panel():
    marks = pd.DataFrame({"task": "SST", "value": [0.2, 0.3]})
    marks = marks.assign(metric=["A(alpha, beta_uf)", "A(delta, beta_uf)"])
    marks["mark"] = ["the authors'", "the authors' (uncertain)"]
    left, right = drawn(marks=marks).axes
    sure, unsure = (
        next(line.get_marker() for line in axis.lines if str(line.get_label()).startswith("the authors'"))
        for axis in (left, right)
    )
    assert sure != unsure
