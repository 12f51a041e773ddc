"""The figure of all measures and settings."""

import pandas as pd

from book.chapters.attribution_benchmark.figures import (
    ABOVE,
    BELOW,
    FULL,
    LEFT_OUT,
    measures_by_setting,
    measures_ranked,
)

TABLE = pd.DataFrame(
    {
        "setting": ["s", "t", "s", "t"],
        "method": ["rollout", "rollout", "flow", "flow"],
        "value": [1.0, -0.25, 0.5, None],
    }
)
RANKING = pd.DataFrame(
    {
        "method": ["rollout", "flow"],
        "value": [0.375, 0.5],
        "low": [0.2, 0.4],
        "high": [0.5, 0.6],
        "rank": [1, None],
    }
)


def test_every_cell_with_a_number_shows_it_and_what_is_missing_is_named():
    figure = measures_by_setting(
        {"plausibility": TABLE, "faithfulness": TABLE},
        {"plausibility": RANKING, "faithfulness": RANKING},
        ["ALTI"],
    ).figure
    cells, means, other, _ = figure.axes
    assert [label.get_text() for label in cells.get_yticklabels()] == ["rollout", "flow", "ALTI"]
    assert [label.get_text() for label in other.get_xticklabels()] == ["s", "t"]
    assert sorted(text.get_text() for text in cells.texts) == ["-25", "50", FULL]
    named = [title.get_text() for title in figure.legends[0].get_texts()]
    assert named == ["all settings", "some settings", "100, perfect", LEFT_OUT]
    assert len(means.containers) == 2  # those with a rank, and those without
    assert cells.get_title(loc="left") == "plausibility"


def test_a_number_too_wide_for_its_cell_is_a_sign_that_the_legend_names_and_perfect_has_the_last_colour():
    table = TABLE.assign(value=[1.0, 1.55, -1.2, 0.99])
    figure = measures_by_setting({"known": table}, {"known": RANKING}).figure
    cells = figure.axes[0]
    assert sorted(text.get_text() for text in cells.texts) == sorted(["99", FULL, ABOVE, BELOW])
    assert cells.collections[0].norm(1.0) == 1
    named = [title.get_text() for title in figure.legends[0].get_texts()]
    assert named[2:] == ["100, perfect", "above 100", "below -99", LEFT_OUT]


def test_measures_that_all_settings_have_are_ranked_by_the_first_question():
    second = RANKING.assign(rank=1.0)
    figure = measures_ranked({"plausibility": RANKING, "faithfulness": second}).figure
    (axis,), (legend,) = figure.axes, figure.legends
    assert [label.get_text() for label in axis.get_yticklabels()] == ["rollout"]
    assert [text.get_text() for text in legend.get_texts()] == ["plausibility", "faithfulness"]
    first, other = (container.lines[0] for container in axis.containers)
    assert first.get_xdata().tolist() == other.get_xdata().tolist() == [0.375]
    assert first.get_marker() != other.get_marker()
