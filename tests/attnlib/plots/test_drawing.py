"""Figures and tables carry the numbers that they show, and are drawn for light and for dark pages."""

import base64
import io
import re

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.image import imread

from attnlib import plots
from attnlib.colours import THEMES
from attnlib.plots.drawing import CSV, DARK, NPZ, as_csv, drawing
from attnlib.plots.panels import SHAPES, STROKES, looks
from attnlib.plots.themes import COLUMN, ink_on

ROWS = pd.DataFrame(
    {"method": ["a", "b"] * 2, "among": ["x", "x", "y", "y"], "value": [1 / 3, 0.5, 0.25, 1.0]}
    | {"low": [0.1, 0.2, 0.1, 0.7], "high": [0.6, 0.8, 0.5, 1.0]}
)


def estimates():
    return plots.estimates(ROWS, of="method", by="among", label="share")


@pytest.fixture(scope="module")
def bundle():
    return estimates()._repr_mimebundle_()


def test_a_figure_carries_the_rows_that_it_was_drawn_from_whole(bundle):
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(bundle[CSV])), ROWS)
    output = nbformat.v4.new_output("display_data", bundle)
    nbformat.validate(output, "display_data", version=4)


def test_a_heat_map_carries_its_attention_and_tokens():
    attention = torch.rand(2, 1, 3, 3).softmax(-1)
    target = torch.eye(3, dtype=torch.bool)
    bundle = plots.attention_grid({"m": attention}, ["<bos>", "a", "b"], {(1, 0): target})._repr_mimebundle_()
    with np.load(io.BytesIO(base64.b64decode(bundle[NPZ]))) as kept:
        np.testing.assert_array_equal(kept["m"], attention.numpy())
        np.testing.assert_array_equal(kept["target L1H0"], target.numpy())
        assert kept["tokens"].tolist() == ["<bos>", "a", "b"]


def test_heat_maps_take_arrays_and_tensors_of_any_precision():
    attention, words = torch.rand(2, 1, 3, 3).softmax(-1).bfloat16(), list("abc")
    for given in (attention, attention.float().numpy()):
        drawn = plots.attention_grid({"m": given}, words, {(1, 0): np.eye(3, dtype=bool)})
        np.testing.assert_array_equal(drawn.data["m"], attention.float().numpy())
        for one in (plots.token_map(given[0, 0], words, words), plots.paths(given[:, 0], words)):
            assert next(iter(one.data.values())).dtype == np.float32
        assert plots.token_maps({"m": given[0, 0]}, words, words).data["m"].shape == (3, 3)


@pytest.mark.parametrize(
    "draw",
    [
        lambda words: plots.attention_grid({"m": torch.rand(2, 1, 3, 3)}, words),
        lambda words: plots.token_map(torch.rand(3, 3), words, words),
        lambda words: plots.token_maps({"m": torch.rand(3, 3)}, words, words),
        lambda words: plots.paths(torch.rand(2, 3, 3), words),
    ],
)
def test_words_are_as_many_as_rows_and_columns(draw):
    with pytest.raises(ValueError, match=r"^values must be of the shape .*2, 2\); got .*3, 3\)"):
        draw(["a", "b"])


def test_a_figure_that_cannot_be_drawn_is_closed():
    def draw():
        figure = plt.figure()
        raise ValueError(f"not {figure.number}")

    mine = plt.figure()
    with pytest.raises(ValueError, match="not"):
        drawing(draw)()
    assert plt.get_fignums() == [mine.number]
    plt.close(mine)


def test_a_table_carries_its_numbers_unrounded():
    rows = pd.DataFrame({"x": [1 / 3]}, index=pd.Index(["<b>"], name="run"))
    bundle = plots.table(rows, digits=2)._repr_mimebundle_()
    assert "0.33" in bundle["text/html"] and "0.333" not in bundle["text/html"]
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(bundle[CSV])), rows.reset_index())


def test_a_table_of_nothing_is_shown_and_carries_nothing():
    shown = plots.table(pd.DataFrame()).captioned("empty", "What was not run.")._repr_mimebundle_()
    assert not shown["text/csv"].strip() and "What was not run." in shown["text/html"]


def test_a_table_of_intervals_carries_the_numbers_that_its_texts_were_written_from():
    rows = ROWS.rename(columns={"method": "metric"}).iloc[:2].assign(n=7, low=[np.nan, 0.2])
    texts = plots.with_intervals({"x": rows, "y": rows.iloc[:1]})
    numbers = pd.concat([rows.assign(of="x"), rows.iloc[:1].assign(of="y")], ignore_index=True)
    numbers = numbers[["metric", "of", "value", "low", "high", "n"]]
    for shown in (texts, texts.T, texts.rename_axis("record")):
        bundle = plots.table(shown)._repr_mimebundle_()
        assert "0.500 [0.200, 0.800]" in bundle["text/html"]
        pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(bundle[CSV])), numbers)
    more = plots.table(texts.T.rename_axis("of").assign(log_rank=[np.nan, 0.01]))._repr_mimebundle_()[CSV]
    last = pd.read_csv(io.StringIO(more)).iloc[-1]
    assert last[["metric", "of", "value"]].tolist() == ["log_rank", "y", 0.01], "a column more"


def test_numbers_in_texts_are_plain_numbers_in_the_csv():
    cells = ["47 % [44.5, 50]", "+3 points [-10, +47]", "0.5 [no interval; n = 1]", "not run", "IMDB [code]"]
    rows = pd.read_csv(io.StringIO(as_csv(pd.DataFrame({"x": cells, "y": range(5)}))))
    assert rows["x"].tolist() == ["47", "3", "0.5", "not run", "IMDB [code]"]
    assert rows["x, low"].tolist()[:2] == [44.5, -10] and rows["x, high"].isna().sum() == 3
    assert list(rows) == ["x", "x, low", "x, high", "y"]


@pytest.mark.parametrize("text", ["=1+cmd|'/C calc'!A0", '=HYPERLINK("x")', "@SUM(1)", "-2+3+f(1)", "\t=f()"])
def test_a_text_is_no_formula_in_a_spreadsheet(text):
    rows = pd.DataFrame({text: [text, "=", "-", "+3 points", "a (b)"], "y": [-1.5, 2, 3, 4, 5]})
    read = pd.read_csv(io.StringIO(as_csv(rows)), dtype={"y": float})
    assert list(read) == [f"'{text}", "y"] and read["y"].tolist() == [-1.5, 2, 3, 4, 5]
    assert read[f"'{text}"].tolist() == [f"'{text}", "=", "-", "+3 points", "a (b)"]


def test_names_of_columns_with_several_levels_are_joined():
    rows = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("run", ""), ("top", 5)]))
    assert as_csv(rows) == 'run,"top, 5"\n1,2\n'


def test_a_text_with_brackets_is_no_interval_and_large_and_small_numbers_are() -> None:
    texts = ["the film was great . [SEP]", "he is 25 [MASK] old"]
    assert pd.read_csv(io.StringIO(as_csv(pd.DataFrame({"x": texts}))))["x"].tolist() == texts
    numbers = pd.read_csv(
        io.StringIO(as_csv(pd.DataFrame({"x": ["1,234 [1,200, 1,300]", "1e-05 [1e-06, 1e-04]"]})))
    )
    assert numbers.values.tolist() == [[1234, 1200, 1300], [1e-5, 1e-6, 1e-4]]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_figure_is_as_wide_as_the_column_and_has_the_colours_of_its_theme(bundle, theme):
    svg = bundle[DARK if theme == "dark" else "image/svg+xml"]
    other = THEMES["dark" if theme == "light" else "light"]
    assert re.search(r'<svg[^>]* width="([\d.]+)pt"', svg)[1] == str(round(72 * COLUMN, 1))
    for name in ("ink", "accent"):
        assert THEMES[theme][name] in svg and other[name] not in svg
    assert svg == estimates().svg(theme), "the same figure has the same bytes"
    assert (f"fill: {THEMES[theme]['page']}" in svg) == (theme == "light"), "on dark pages it has no ground"


def test_groups_are_told_apart_without_colour():
    first = [look for look, _ in zip(looks(), range(len(STROKES)), strict=False)]
    assert len({look.shape for look in first}) == len({str(look.stroke) for look in first}) == len(STROKES)
    many = [look[1:] for look, _ in zip(looks(), range(len(SHAPES) * len(STROKES)), strict=False)]
    assert len(set(map(str, many))) == len(many)


def test_help_says_what_a_function_returns_and_takes():
    from inspect import signature

    told = signature(plots.estimates)
    assert list(told.parameters)[:4] == ["rows", "of", "by", "label"] and told.return_annotation == "Drawing"
    with pytest.raises(KeyError, match="among"):
        plots.estimates(ROWS.drop(columns="among"), of="method", by="among", label="share")


@pytest.mark.parametrize(("ground", "ink"), [("#ffffff", "#000000"), ("#08285a", "#ffffff")])
def test_ink_is_what_is_read_better(ground, ink):
    assert ink_on(ground) == ink


def test_what_is_laid_out_is_whole_in_the_picture_of_a_live_page_too():
    rows = pd.DataFrame({"task": ["a"], "way": "b", "value": 0.5, "low": 0.4, "high": 0.6})
    notes = {"a": "seeds 50 % or seeds 100 % of what the original has"}
    shown = plots.estimates(rows, "task", "way", "share", notes=notes).html()
    picture = imread(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]*)", shown)[1])))
    left = picture[:, :3]
    assert np.ptp(left, axis=(0, 1)).max() == 0  # nothing is cut off at the rim
