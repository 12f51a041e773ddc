"""A figure with a choice: live in JupyterLab, and plain in a page."""

from functools import cache

import nbformat
import numpy as np
import pytest
from traitlets import TraitError

from attnlib import plots
from attnlib.widgets import Choice
from attnlib.widgets.choice import VIEW
from book.pipeline.execute import stays, without_address

MIXED = np.array([[[1, 0], [0.5, 0.5]], [[1, 0], [0.25, 0.75]]])


@cache
def of_token(query: int) -> plots.Drawing:
    return plots.paths(MIXED, ["a", "b"], query).captioned("some-paths", "Paths of one token.")


def choice() -> Choice:
    return Choice(of_token, [("a", 0), ("b", 1)], 1, "paths of")


def test_a_choice_draws_the_figure_anew() -> None:
    made = choice()
    assert made.control.description == "paths of" and made.picture.value == of_token(1).html()
    made.control.value = 0
    assert made.picture.value == of_token(0).html() != of_token(1).html()
    assert made.shown.alt == of_token(0).alt


def test_a_page_shows_the_plain_figure() -> None:
    """What the pipeline keeps of an executed chapter is, byte for byte, the figure without a choice."""
    bundle = choice()._repr_mimebundle_()
    assert set(bundle[VIEW]) >= {"model_id"}
    kept, plain = (
        without_address(nbformat.v4.new_output("display_data", each))
        for each in (bundle, of_token(1)._repr_mimebundle_())
    )
    assert stays(kept) and kept == plain


def test_what_is_shown_first_is_one_of_the_options() -> None:
    with pytest.raises(TraitError):
        Choice(of_token, [("a", 0)], 1, "paths of")
