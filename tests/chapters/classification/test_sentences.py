"""Clauses that the sentences of the chapter on classification quote."""

import pandas as pd
import pytest

from book.chapters.classification.sentences import early_clause, paper_clause, sets_clause


@pytest.mark.parametrize(
    ("shown", "said"), [(8, "all 8 data sets"), (4, "4 of 8 data sets"), (0, "none of 8 data sets")]
)
def test_a_count_of_data_sets_is_said_in_words(shown, said):
    assert sets_clause(pd.Series([True] * shown + [False] * (8 - shown))) == said


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (0.3, "significantly higher than"),
        (0.5, "not significantly different from"),
        (0.7, "significantly lower than"),
    ],
)
def test_a_number_is_compared_with_the_papers_by_its_interval(theirs, said):
    assert paper_clause(pd.Series({"low": 0.4, "high": 0.6}), theirs) == said


def test_both_agreements_are_of_the_last_step_with_nearly_uniform_attention():
    curves = {
        "spread of alpha_t": [1.0, 0.99, 0.9],
        "A(beta_t, beta_uf)": [0.1, 0.36, 0.5],
        "A(alpha_t, beta_uf)": [0.05, 0.27, 0.48],
    }
    stages = [
        {"step": step, "metric": metric, "value": value}
        for metric, curve in curves.items()
        for step, value in zip((0, 50, 100), curve, strict=True)
    ]
    assert early_clause(pd.DataFrame(stages)) == (
        "attention is still nearly uniform at step 50, where relevance agrees with KTIW in 36 % of the "
        "documents and attention in 27 %"
    )
