"""Clauses of the page that come out in several ways."""

import pytest

from book.chapters.generative.sentences import chance_clause


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.5, 0.6, "more often than chance"),
        (0.1, 0.2, "less often than chance"),
        (0.3, 0.5, "no more often than chance"),
    ],
)
def test_a_share_beside_chance_is_said_in_words(low, high, said):
    assert chance_clause({"low": low, "high": high}, {"value": 0.4}) == said
    assert (
        chance_clause(None, {"value": 0.4}) == chance_clause({"low": low, "high": high}, None) == "(not run)"
    )
