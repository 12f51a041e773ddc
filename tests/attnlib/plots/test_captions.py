"""What figures and tables say of themselves: name, caption, and what is to be seen."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.text import Text

from attnlib import plots
from attnlib.plots import words
from attnlib.plots.captions import SAID
from attnlib.plots.themes import COLUMN, POINTS
from book.chapters.lens import figures

ROWS = pd.DataFrame({"x": [1, 2], "value": [0.25, 0.5]})


def test_a_table_shows_its_caption_and_carries_it():
    bundle = plots.table(ROWS).captioned("some-rows", "Rows of `x` < 3.")._repr_mimebundle_()
    assert (
        '<caption><b id="some-rows">Table some-rows.</b> Rows of <code>x</code> &lt; 3.</caption>'
        in bundle["text/html"]
    )
    said = json.loads(bundle[SAID])
    assert said == {"kind": "Table", "name": "some-rows", "caption": "Rows of `x` < 3.", "alt": ""}
    assert SAID not in plots.table(ROWS)._repr_mimebundle_()


def test_a_figure_shows_its_caption_under_a_picture_that_can_be_read_out():
    rows = ROWS.assign(of=["a<b", "c"], by="all", low=0.1, high=0.9)
    drawn = plots.estimates(rows, "of", "by", "share").captioned("some-points", "Points.")
    html = drawn._repr_mimebundle_()["text/html"]
    assert html.index("<img") < html.index('<b id="some-points">Figure some-points.</b> Points.')
    assert 'alt="Points with intervals, share. all: highest c 0.5, lowest a&lt;b 0.25."' in html


@pytest.mark.parametrize(
    ("name", "caption", "wrong"),
    [("Two Words", "Rows.", "a name must"), ("rows", "Rows", "a caption must")],
)
def test_what_is_no_name_and_no_sentence_is_refused(name, caption, wrong):
    with pytest.raises(ValueError, match=wrong):
        plots.table(ROWS).captioned(name, caption)


def test_a_course_is_told_by_its_ends_and_by_what_is_beyond_them():
    rows = pd.DataFrame({"step": [0, 1, 2, 3], "value": [0.1, 0.9, np.nan, 0.5], "run": "a"})
    assert words.courses(rows, "step", "run") == "a from 0.1 at 0 to 0.5 at 3, highest 0.9 at 1"
    assert words.courses(rows.iloc[[2]], "step", "run") == "no numbers"
    many = pd.concat([rows.assign(run=str(number)) for number in range(words.MOST + 2)])
    assert words.courses(many, "step", "run").endswith("; and 2 more")


def test_a_heat_map_is_told_by_its_strongest_cell():
    values = np.array([[0.0, 0.25], [0.5, 0.1]])
    assert words.peaks({"L0H1": values}, ["p", "q"], ["a", "b"]) == (
        "L0H1 strongest in row 2 (q) and column 1 (a), 0.5"
    )
    causal = np.array([[1.0, 0.0], [0.75, 0.25]])  # the first row has no choice
    assert words.peaks({"it": causal}, ["p", "q"], ["a", "b"]) == (
        "it strongest in row 2 (q) and column 1 (a), 0.75"
    )


def test_a_formula_is_told_without_its_marks():
    assert words.plain(r"agreement $A(\alpha_t, \beta^{\mathrm{uf}})$") == "agreement A(alpha_t, beta uf)"


@pytest.mark.parametrize(("n", "word"), [(5, "word"), (30, "a"), (80, "word")])
def test_lettering_of_heat_maps_is_never_small_and_labels_never_meet(n, word):
    tokens, maps = [word] * n, torch.rand(1, 2, n, n).softmax(-1)
    for drawn in (
        plots.attention_grid({"model": maps}, tokens),
        figures.heads_grid(maps, tokens),
        plots.token_map(maps[0, 0], tokens, tokens),
    ):
        figure = drawn.figure
        assert figure.get_figwidth() <= COLUMN + 0.01
        texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
        assert texts and min(text.get_fontsize() for text in texts) >= POINTS
        for axis in figure.axes:
            for labels, along in ((axis.get_xticklabels(), "x"), (axis.get_yticklabels(), "y")):
                boxes = [
                    each.get_window_extent() for each in labels if each.get_text() and each.get_visible()
                ]
                ends = sorted((getattr(box, f"{along}0"), getattr(box, f"{along}1")) for box in boxes)
                assert all(first[1] <= second[0] for first, second in pairwise(ends))
