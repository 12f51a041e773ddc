"""Clauses that the sentences of the chapter on translation quote."""

import pandas as pd
import pytest

from book.chapters.translation.sentences import error_clause, lead_clause


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.05, 0.09, "aligns better than attention"),
        (0.09, 0.11, "aligns about as well as attention"),
        (0.13, 0.2, "aligns worse than attention"),
    ],
)
def test_alignment_errors_are_compared_by_their_intervals(low, high, said):
    assert error_clause({"low": low, "high": high}, {"low": 0.1, "high": 0.12}) == said


def test_an_alignment_that_was_not_run_is_compared_with_nothing():
    assert error_clause(None, {"low": 0.1, "high": 0.12}) == "was not run"


def test_both_agreements_are_of_the_step_with_the_largest_lead():
    curves = {"A(beta_t, beta_uf)": [0.1, 0.4, 0.7], "A(alpha_t, beta_uf)": [0.1, 0.2, 0.6]}
    stages = [
        {"step": step, "metric": metric, "value": value}
        for metric, curve in curves.items()
        for step, value in zip((0, 50, 100), curve, strict=True)
    ]
    assert lead_clause(pd.DataFrame(stages)) == (
        "the lead is largest at step 50, where relevance agrees with KTIW for 40 % of the target tokens and "
        "attention for 20 %"
    )
