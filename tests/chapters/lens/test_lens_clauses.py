"""Ends of sentences that depend on a number."""

import pandas as pd
import pytest

from book.chapters.lens.tables import difference_clause, more_clause, uniform_clause


@pytest.mark.parametrize(
    ("low", "high", "said", "by"),
    [
        (0.1, 0.3, "as the repository says", "20 points more"),
        (-0.3, -0.1, "the opposite of what the repository says", "20 points less"),
        (-0.1, 0.1, "not significant", "neither significantly more nor less"),
    ],
)
def test_a_difference_is_said_by_its_interval(low, high, said, by):
    difference = pd.Series({"value": (low + high) / 2, "low": low, "high": high})
    assert difference_clause(difference) == said and more_clause(difference) == by


def test_a_difference_that_is_not_recorded_is_not_run():
    assert difference_clause(None) == "not run"


@pytest.mark.parametrize(("share", "said"), [(0.7, "more"), (0.5, "no more")])
def test_a_share_is_said_against_uniform_attention(share, said):
    assert uniform_clause(pd.Series({"value": share, "uniform": 0.6})) == (
        f"{said} than the 60 % of uniform attention"
    )
