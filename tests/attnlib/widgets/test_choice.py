"""A figure with a choice: live in JupyterLab, and plain in a page."""

from functools import cache

import numpy as np
import pytest

from attnlib import plots
from attnlib.widgets import Choice
from attnlib.widgets.choice import VIEW

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


def test_a_person_gets_the_list_beside_the_plain_figure() -> None:
    bundle = choice()._repr_mimebundle_()
    assert set(bundle.pop(VIEW)) >= {"model_id"}
    assert bundle == of_token(1)._repr_mimebundle_()


def test_what_is_shown_first_is_one_of_the_options() -> None:
    with pytest.raises(ValueError, match=r"^value must"):
        Choice(of_token, [("a", 0)], 1, "paths of")
