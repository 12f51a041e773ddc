"""What pages call recorded names."""

import pandas as pd
import pytest

from attnlib.attribution.registry import METHODS
from book.chapters.display import display_name, display_names, significance, standing, tally_clause
from book.chapters.faithfulness_metrics.measures import PROTOCOLS, RUNGS


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("blank-out, untrained", "occlusion, untrained"),
        ("without the first, replace, log p", "top 1, replace, log p"),
        ("without the first 3, mask, p", "top 3, mask, p"),
        ("without the first R, mask, p", "top k, mask, p"),
        ("chosen, not told R = expected", "selected = pre-registered"),
        ("the truth and 0.5 of noise", "ground truth, noise 0.5"),
        ("AttnLRP", "AttnLRP"),
    ],
)
def test_a_recorded_name_has_words_of_the_field(recorded: str, shown: str) -> None:
    assert display_name(recorded) == shown


@pytest.mark.parametrize("names", [METHODS, PROTOCOLS, RUNGS])
def test_no_two_names_are_shown_alike(names) -> None:
    assert len({display_name(name) for name in names}) == len(names)


def test_columns_and_words_of_a_table_are_shown_and_numbers_stay() -> None:
    table = display_names(
        pd.DataFrame({"protocol": ["LDS, mask, p"], "method": ["blank-out"], "value": [0.5]})
    )
    assert table.to_dict("records") == [{"metric": "LDS, mask, p", "method": "occlusion", "value": 0.5}]


@pytest.mark.parametrize(
    ("low", "high", "said", "significant"),
    [
        (0.1, 0.2, "significantly ahead of", "significant"),
        (-0.2, -0.1, "significantly behind", "significant"),
        (-0.1, 0.2, "not significantly different from", "not significant"),
        (float("nan"), float("nan"), "not run", "not run"),
    ],
)
def test_a_difference_is_said_by_its_interval(low, high, said, significant) -> None:
    given = {"low": low, "high": high}
    assert standing(given) == said and significance(given) == significant


def test_what_was_not_run_is_said_so() -> None:
    assert standing(None) == significance(None) == "not run"


def test_a_run_that_decides_no_prediction_says_so():
    said = tally_clause(pd.Series(["yes", "no", "yes", "not settled"]))
    assert said.endswith("2 of 4 were confirmed and 1 refuted")
    assert tally_clause(pd.Series(["not settled", "not asked"])).startswith("This page's run is too small")
