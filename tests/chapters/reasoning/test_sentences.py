"""Clauses of the two pages that come out one way or the other."""

import pandas as pd
import pytest

from book.chapters.reasoning.attention_intervention_sentences import rankings_clause
from book.chapters.reasoning.sentences import (
    in_a_row,
    most_clause,
    places_clause,
    signs_clause,
    solved_clause,
)


@pytest.mark.parametrize(
    ("shares", "said"),
    [([0.0, 0.004], "no answer is right"), ([0.03, 0], "at most 3 % of the answers are right")],
)
def test_the_most_is_said_or_that_there_is_none(shares, said):
    assert most_clause(pd.Series(shares)) == said and most_clause(pd.Series(dtype=float)) == "(not run)"


def test_runs_are_listed_by_the_sign_of_what_is_significant():
    columns = ["run", "difference", "differs"]
    found = [("a", 0.2, "yes"), ("b", 0.1, "yes"), ("c", -0.3, "yes"), ("d", 0.4, "no")]
    tests = pd.DataFrame([*found, ("e", "not enough data", "not enough data")], columns=columns)
    said = "lower in a and b; higher in c; not significantly different in d; without enough data in e"
    assert signs_clause(tests, "lower", "higher") == said
    assert signs_clause(tests[3:4], "lower", "higher") == "not significantly different in d"
    assert signs_clause(tests[:0], "lower", "higher") == "not compared"


def test_names_are_listed_as_in_a_sentence():
    assert [in_a_row("abc"[:n]) for n in range(4)] == ["", "a", "a and b", "a, b, and c"]


@pytest.mark.parametrize(
    ("known", "beyond", "said"),
    [(0.6, 0.1, "what the model has learned is tied to places"), (0.1, 0.1, "the model fails everywhere")],
)
def test_places_are_compared(known: float, beyond: float, said: str) -> None:
    assert places_clause(known, beyond).endswith(f"and {100 * beyond:.0f} % at places beyond: {said}")
    assert places_clause(known, float("nan")) == "there are too few longer answers in this run"


@pytest.mark.parametrize(
    ("correlation", "said"),
    [
        (1.0, "the two rankings are identical"),
        (-1.0, "one ranking reverses the other"),
        (0.6, "the two rankings have a rank correlation of 0.60"),
        (-0.6, "the two rankings have a rank correlation of -0.60"),
    ],
)
def test_rankings_are_compared(correlation: float, said: str) -> None:
    assert rankings_clause({"value": correlation}) == said and rankings_clause(None) == "not run"


def test_flip_flop_is_said_to_be_the_exception_where_it_was_trained():
    inside, outside = pd.Series({"successor": 0.9, "flip flop": 1.0}), pd.Series({"successor": 0.0})
    said = solved_clause(inside, outside)
    assert said.startswith("between 90 % and 100 % of the answers are right")
    assert said.endswith("on longer inputs, no answer is right")
    outside["flip flop"] = 0.5
    assert solved_clause(inside, outside) == f"{said} in any task but flip-flop"
