"""Clauses that the sentences of the chapter on translation quote."""

import pandas as pd

from book.chapters.translation.sentences import lead_clause


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
