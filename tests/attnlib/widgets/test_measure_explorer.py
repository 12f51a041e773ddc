"""The explorer of two measures: what it checks, and what it tells its page."""

import numpy as np
import pytest
import torch

from attnlib.widgets import MeasureExplorer

TOKENS = ["a", "b", "c", "=", "b"]
TRUTH = torch.tensor([False, True, False, False, False])


def question(**changes):
    parts = {
        "tokens": TOKENS,
        "scores": {
            "rollout": torch.tensor([0.1, 0.4, 0.3, 0.9, 0.0]),
            "blank-out": np.array([-1.0, -0.5, 0.2, np.nan, 0.0]),
            "even": torch.ones(5),
        },
        "truth": TRUTH,
        "candidates": torch.tensor([True, True, True, False, False]),
        "query": 3,
        "missing": {"flow": "no layers"},
    }
    return parts | changes


def explorer(**settings):
    return MeasureExplorer({"one": question(), "two": question(truth=TRUTH.roll(1))}, **settings)


def test_it_opens_at_the_question_where_the_two_measures_part_most():
    apart = question(truth=TRUTH.roll(-1))  # the first of rollout's three, the last of blank-out's
    apart["scores"] = question()["scores"] | {"rollout": torch.tensor([0.9, 0.4, 0.3, 0.0, 0.0])}
    questions = {"one": question(), "two": apart}
    assert MeasureExplorer(questions).item == 1
    assert MeasureExplorer(questions, first="even").item == 0  # 3rd and 2nd, 3rd and 3rd
    assert MeasureExplorer(questions, item=0).item == 0


def test_a_long_question_is_not_shown_first_for_its_length():
    """Of three places two apart, and of thirty three."""
    short = question(truth=TRUTH.roll(-1))
    short["scores"] = question()["scores"] | {"rollout": torch.tensor([0.9, 0.4, 0.3, 0.0, 0.0])}
    places = torch.arange(30.0)
    scores = {"rollout": places, "blank-out": torch.where(places == 3, 6.5, places), "even": places}
    long = {"tokens": ["a"] * 30, "scores": scores, "truth": places == 3, "query": 29}
    found = MeasureExplorer({"long": long, "short": short})
    assert found.items[0]["found"]["rollout"] == [27] and found.items[0]["found"]["blank-out"] == [24]
    assert found.item == 1


def test_it_tells_the_places_of_what_is_needed_among_the_candidates():
    explorer = MeasureExplorer({"one": question()})
    (shown,) = explorer.items
    assert shown["found"] == {"rollout": [1], "blank-out": [2], "even": [3]}
    assert shown["truth"] == [1] and shown["candidates"] == [0, 1, 2] and shown["query"] == 3
    assert explorer.names == ["rollout", "blank-out", "even", "flow"]
    assert (explorer.first, explorer.second) == ("rollout", "blank-out")
    assert repr(explorer) == "MeasureExplorer: 1 question, measures rollout, blank-out, even, flow"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"truth": TRUTH.int()}, "question 'one': truth"),
        ({"truth": TRUTH.roll(2)}, "truth"),
        ({"query": 5}, "query"),
        ({"scores": {"rollout": torch.full((5,), torch.nan)}}, "score 'rollout'"),
        ({"scores": {}}, "scores"),
        ({"words": 1}, "question 'one'"),
    ],
)
def test_what_is_not_valid_is_named(changes, name):
    with pytest.raises(ValueError, match=f"{name} must "):
        MeasureExplorer({"one": question(**changes)})


def test_there_is_a_word_for_every_question_or_for_none():
    assert explorer(written=["", " a"]).written == ["", " a"] and explorer().written == []
    with pytest.raises(ValueError, match=r"^written must"):
        explorer(written=["a"])
    with pytest.raises(ValueError, match=r"^first must be one of"):
        explorer(first="x")
