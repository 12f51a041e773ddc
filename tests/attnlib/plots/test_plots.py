"""Figures and tables: what is drawn is what was given."""

import itertools
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from attnlib import plots
from attnlib.plots.drawing import drawing


def test_the_grid_draws_every_head_and_outlines_every_target():
    attentions = torch.rand(2, 3, 5, 5).softmax(-1)
    target = torch.eye(5, dtype=torch.bool)
    figure = plots.attention_grid({"a": attentions, "b": attentions}, list("abcde"), {(1, 2): target}).figure
    maps = [axis for axis in figure.axes if axis.get_title()]
    assert [axis.get_title() for axis in maps[:3]] == ["a: L0H0", "a: L0H1", "a: L0H2"]
    assert len(maps) == 12
    by_title = {axis.get_title(): axis for axis in maps}
    drawn = by_title["b: L1H2"].collections[0].get_array().reshape(5, 5)
    np.testing.assert_allclose(drawn, attentions[1, 2])
    assert {title: len(axis.patches) for title, axis in by_title.items() if axis.patches} == {
        "a: L1H2": 5,
        "b: L1H2": 5,
    }


def test_learning_curves_have_a_line_per_run():
    history = pd.DataFrame({"step": [1, 2], "accuracy": [0.1, 0.9], "cross_entropy": [2.0, 0.5]})
    figure = plots.learning_curves({"sort": history, "hist": history}).figure
    left, _ = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["sort", "hist"]
    assert len(left.lines) == 2
    np.testing.assert_allclose(left.lines[0].get_ydata(), [0.1, 0.9])


def some_lines(n: int = 2) -> pd.DataFrame:
    """Two groups of two kinds each, in `n` panels."""
    of = itertools.product([f"t{i}" for i in range(n)], ("ID", "OOD"), ("aimed", "random"), (0.0, 1.0))
    rows = pd.DataFrame(of, columns=["task", "split", "onto", "strength"])
    return rows.assign(value=rows["strength"] / 2, low=0.0, high=1.0)


def test_lines_are_told_apart_by_colour_and_stroke():
    drawn = plots.lines(some_lines(), "strength", "split", strokes="onto", panel="task", label="accuracy")
    left, right = drawn.figure.axes
    assert (left.get_title(), left.get_ylabel(), right.get_ylabel()) == ("t0", "accuracy", "")
    assert [line.get_linestyle() for line in left.lines] == ["-", ":"] * 2
    assert len({line.get_color() for line in left.lines}) == 2
    legend = [text.get_text() for text in drawn.figure.legends[0].get_texts()]
    assert legend == ["ID, aimed", "ID, random", "OOD, aimed", "OOD, random"]
    assert "t1: ID, aimed from 0 at 0 to 0.5 at 1" in drawn.alt


def test_lines_of_several_metrics_have_one_look_in_all_panels_and_chance_in_the_last():
    rows = some_lines(3).query("onto == 'aimed'")
    labels = {"t0": "x", "t2": "y"}
    figure = plots.lines(rows, "strength", "split", panel="task", label=labels, chance=0.5).figure
    left, right = figure.axes
    assert [axis.get_ylabel() for axis in figure.axes] == ["x", "y"]
    assert [line.get_color() for line in left.lines] == [line.get_color() for line in right.lines[:2]]
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["ID", "OOD", "chance"]


def test_lines_mark_what_ends_and_what_chance_is_in_each_panel():
    rows = some_lines().query("onto == 'aimed' and split == 'ID'")
    how = {"panel": "task", "label": "accuracy", "at": {"t0": [0.2, 0.4]}, "chance": {"t0": 0.1, "t1": 0.3}}
    left, right = plots.lines(rows, "strength", **how).figure.axes
    assert [line.get_xdata()[0] for line in left.lines[1:3]] == [0.2, 0.4]
    assert [axis.lines[-1].get_ydata()[0] for axis in (left, right)] == [0.1, 0.3]


@pytest.mark.parametrize("n", [1, 5])
def test_at_most_two_panels_stand_side_by_side(n):
    axes = plots.lines(
        some_lines(n), "strength", "split", strokes="onto", panel="task", label="x"
    ).figure.axes
    titled = [axis for axis in axes if axis.get_title()]
    assert len(titled) == n
    assert len({round(axis.get_position().y0, 3) for axis in titled}) == -(-n // 2)


def test_a_table_is_whole_and_the_same_every_time():
    rows = pd.DataFrame(
        {"x": [0.123456], "n": [1000], "note": ["a long text " * 20]}, index=pd.Index(["<b>"], name="run")
    )
    html = plots.table(rows).to_html()
    assert (
        "a long text " * 19 in html and "0.1235" in html and ">1000<" in html and 'class="dataframe"' in html
    )
    assert "text-align: left" in html and " id=" not in html.split("<tbody>")[1], (
        "a rule per column, not per cell"
    )
    assert html == plots.table(rows).to_html()
    assert html != plots.table(rows * 2).to_html()


def test_a_grid_of_many_heads_is_laid_out_once_not_once_a_head(monkeypatch):
    drawn = []
    draw = Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda self, renderer: (drawn.append(1), draw(self, renderer)))
    counts = []
    for n_heads in (1, 3):
        drawn.clear()
        plots.attention_grid({"a": torch.rand(2, n_heads, 4, 4).softmax(-1)}, list("abcd"))
        counts.append(len(drawn))
    assert counts[0] == counts[1]


def test_a_table_leaves_out_numbers_of_rows_and_keeps_an_index_that_says_something():
    rows = pd.DataFrame({"value": [1.0, 2.0, 3.0]})
    assert "index" not in plots.table(rows[rows["value"] > 1]).to_html().replace("index_name", "")
    steps = pd.DataFrame({"value": [1.0, 2.0]}, index=pd.Index([10, 20], name="step"))
    assert ">step<" in plots.table(steps).to_html() and ">20<" in plots.table(steps).to_html()


def test_whole_numbers_have_no_decimals_and_what_is_not_there_is_a_dash():
    rows = pd.DataFrame({"rank": [4.0, None], "share": [1.0, 0.0], "mean": [2.5, 3.0], "note": ["a", None]})
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", plots.table(rows, digits=2).to_html())
    assert cells == ["4", "1.00", "2.50", "a", "–", "0.00", "3.00", "–"]


def test_numbers_among_words_are_rounded_as_the_others_are():
    rows = pd.DataFrame({"more": [0.079107, "not enough data", -0.002328, 3]})
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", plots.table(rows, digits=3).to_html())
    assert cells == ["0.079", "not enough data", "−0.002", "3"]


def test_a_minus_sign_is_no_hyphen_and_a_hyphen_no_minus_sign():
    rows = pd.DataFrame(
        {"alone": [-1.5, -2.0], "rank": [-4.0, None], "text": ["-0.1 [-.20, -.04]", "L0-3, 1-2"]}
    )
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", plots.table(rows, digits=1).to_html())
    assert cells == ["−1.5", "−4", "−0.1 [−.20, −.04]", "−2.0", "–", "L0-3, 1-2"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("A(alpha_t, beta_uf)", "A(αₜ, βᵘᶠ)"),
        ("xi(beta_uf, beta_logistic)", "ξ(βᵘᶠ, βˡᵒᵍⁱˢᵗⁱᶜ)"),
        ("step 50: spread of alpha_t.", "step 50: spread of αₜ."),
        ("A_hat, xi*, beta, embedding", "Â, ξ*, β, embedding"),
        ("alphabet, alpha_tables, alpha.csv, beta_12", "alphabet, alpha_tables, alpha.csv, beta_12"),
    ],
)
def test_scores_are_lettered_where_they_are_shown_and_not_where_they_are_kept(name, shown):
    table = plots.table(pd.DataFrame({"metric": [name], name: [1.0]}))
    assert plots.lettered(name) == shown and plots.lettered(shown) == shown
    assert table.to_html().count(shown) == 2 and name in table.numbers.to_csv()


def test_columns_are_called_in_words_and_nothing_is_minus_0():
    html = plots.table(pd.DataFrame({"p_holm": [0.5], "L0H0_x": [-0.001]}, index=[0]), digits=2).to_html()
    assert ">p holm</th>" in html and ">L0H0_x</th>" in html and ">0.00</td>" in html


def test_a_table_without_rows_says_so():
    rows = pd.DataFrame({"value": [1.0]})
    assert plots.table(rows).captioned("x", "All of it.").words == "All of it."
    assert plots.table(rows[:0]).captioned("x", "All of it.").words.endswith("This run has no such rows.")


def test_a_p_value_is_never_shown_as_nothing():
    rows = pd.DataFrame({"p": [0.0, 4e-4], "p_holm": [0.0012, None], "value": [0.0, 4e-4]})
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", plots.table(rows, digits=3).to_html())
    assert cells == ["&lt; 0.001", "0.001", "0.000", "&lt; 0.001", "–", "0.000"]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>"])
def test_a_table_escapes_what_it_shows(text):
    assert text not in plots.table(pd.DataFrame({"x": [text]})).to_html()


NOT_MATHEMATICS = "$\\x$"


def test_names_and_tokens_with_dollars_are_no_mathematics():
    tokens, attention = [NOT_MATHEMATICS, "a b"], torch.full((1, 1, 2, 2), 0.5)
    grid = plots.attention_grid({NOT_MATHEMATICS: attention}, tokens).figure.axes[0]
    assert grid.get_title().startswith(r"\$\x\$") and grid.get_xticklabels()[1].get_text() == "a␣b"
    history = pd.DataFrame({"step": [1, 2], "accuracy": [0.1, 0.2], "cross_entropy": [2.0, 1.0]})
    plots.learning_curves({NOT_MATHEMATICS: history}).html()
    rows = pd.DataFrame({"value": [0.5], "low": [0.4], "high": [0.6], "of": [NOT_MATHEMATICS]})
    plots.estimates(rows.assign(by=NOT_MATHEMATICS), "of", "by", "share").html()


def test_bands_of_shares_end_where_shares_do():
    rows = pd.DataFrame(
        {"step": [1, 2], "value": [0.9, 1.0], "low": [0.7, 0.9], "high": [1.1, 1.2], "what": "accuracy"}
    )
    told = plots.lines(rows, "step", panel="what", label="share").data
    assert told["high"].tolist() == [1, 1] and told["low"].tolist() == [0.7, 0.9]
    assert plots.lines(rows, "step", panel="what", label="nats", ylim=None).data["high"].tolist() == [
        1.1,
        1.2,
    ]


def test_a_logarithmic_axis_is_numbered_as_one_writes():
    history = pd.DataFrame({"step": [1, 2, 3], "accuracy": 0.5, "cross_entropy": [2.0, 0.05, 0.004]})
    figure = plots.learning_curves({"a": history}).figure
    figure.draw_without_rendering()
    numbers = {label.get_text() for label in figure.axes[1].get_yticklabels()}
    assert {"0.01", "0.1", "1"} <= numbers and not any("e" in number for number in numbers)


def test_a_figure_grows_by_its_legend():
    history = pd.DataFrame({"step": [1, 2], "accuracy": 0.5, "cross_entropy": [2.0, 1.0]})
    few, many = (
        plots.learning_curves({f"a model with a long name {i}": history for i in range(n)}).figure
        for n in (1, 10)
    )
    assert many.get_figheight() > few.get_figheight() + 0.5


def test_a_heat_map_says_what_its_colours_are_of():
    cells = torch.rand(2, 3)
    named, bare = (
        plots.token_map(cells, ["a", "b"], ["c", "d", "e"], scale=scale).figure for scale in ("flow", "")
    )
    assert named.axes[0].child_axes[0].get_title(loc="left") == "flow\n(square-root scale)"
    assert not bare.axes[0].child_axes


def test_a_legend_names_every_series_of_panels_that_have_different_ones():
    rows = some_lines(2).query("onto == 'aimed'")
    rows["split"] = rows["split"].where(rows["task"] == "t0", rows["split"] + ", long")
    how = {"x": "strength", "by": "split", "panel": "task", "label": "accuracy"}
    figure = plots.lines(rows, **how).figure
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ["ID", "OOD", "ID, long", "OOD, long"]
    with pytest.raises(AssertionError, match="'OOD, long' is drawn and not named"):
        drawing(partial(without_its_last_name, rows, how))()


def without_its_last_name(rows, how):
    drawn = plots.lines.__wrapped__(rows, **how)
    drawn[0].legends[0].texts.pop()
    drawn[0].legends[0].legend_handles.pop()
    return drawn
