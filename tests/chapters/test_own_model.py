"""Sentences of the page on a reader's own model."""

import pytest

from book.chapters.own_model.own_model import agreement_clause, learned_clause, sink_clause


def test_a_sentence_on_the_first_token_says_whether_it_is_a_sink() -> None:
    assert sink_clause(0.99).endswith("and an attention sink adds to it.")
    assert sink_clause(0.13) == "An attention sink would have more than half."


@pytest.mark.parametrize(
    ("tau", "said"),
    [(0.4, "partly as"), (0.004, "independently"), (float("nan"), "independently"), (-0.6, "in reverse")],
)
def test_a_sentence_on_two_rankings_says_whether_they_agree(tau: float, said: str) -> None:
    assert said in agreement_clause(tau)


def test_a_model_that_learned_nothing_is_said_to() -> None:
    assert "has learned nothing yet: its likeliest next token has only 6 %" in learned_clause(0.06, 104)
    assert learned_clause(0.31, 49152) == "The model gives its next token a probability of 31 %."
