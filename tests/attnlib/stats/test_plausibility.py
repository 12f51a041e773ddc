"""Hit at k and average precision: ties, NaN and chance, against simulation, closed forms and scikit-learn."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.stats.plausibility import (
    average_precision,
    average_precision_by_chance,
    hit_at_k,
    hit_at_k_by_chance,
)


def arrays(*rows):
    return [np.array([row]) for row in rows]


def every_order(scores, truth, number):
    """The mean of a number of a ranking over all orders that sort the scores."""
    n, found = len(scores), []
    for order in itertools.permutations(range(n)):
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order)):
            found.append(number([truth[i] for i in order]))
    return np.mean(found)


def precision(ranked):
    hits = np.cumsum(ranked)
    return sum(hits[p] / (p + 1) for p in range(len(ranked)) if ranked[p]) / sum(ranked)


@st.composite
def ranked_items(draw):
    """At most six tokens with small whole scores, so that many are equal, and at least one right."""
    n = draw(st.integers(1, 6))
    scores = draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    truth = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    return scores, truth


@settings(max_examples=40)
@given(item=ranked_items(), k=st.integers(1, 7))
def test_ties_count_as_the_mean_over_all_their_orders(item, k):
    scores, truth = item
    given_ = arrays(np.array(scores, float), truth, [True] * len(truth))
    assert hit_at_k(*given_, k)[0] == pytest.approx(every_order(scores, truth, lambda r: any(r[:k])))
    assert average_precision(*given_)[0] == pytest.approx(every_order(scores, truth, precision))


@settings(max_examples=40)
@given(item=ranked_items(), k=st.integers(1, 7))
def test_chance_is_what_a_constant_score_gets(item, k):
    truth = np.array([item[1]])
    same = np.zeros(truth.shape), truth, np.ones_like(truth)
    assert hit_at_k_by_chance(*same[1:], k) == pytest.approx(hit_at_k(*same, k))
    assert average_precision_by_chance(*same[1:]) == pytest.approx(average_precision(*same))


def test_what_is_no_candidate_is_not_ranked():
    scores, truth, candidates = arrays([9.0, 1.0, 2.0], [False, True, False], [False, True, True])
    assert average_precision(scores, truth, candidates) == pytest.approx(1 / 2)
    assert hit_at_k(scores, truth, candidates, 1) == pytest.approx(0)
    assert hit_at_k(scores, truth, candidates, 9) == pytest.approx(1)


def test_nan_comes_last_and_is_never_found():
    nan = float("nan")
    every = [True] * 4
    wrong_one, right_one = [nan, 3.0, 2.0, 1.0], [nan, 1.0, 2.0, 3.0]
    scores, truth, candidates = arrays(wrong_one, [False, False, True, False], every)
    assert average_precision(scores, truth, candidates) == pytest.approx(1 / 2)
    scores, truth, candidates = arrays(right_one, [True, False, False, True], every)
    assert average_precision(scores, truth, candidates) == pytest.approx(1 / 2)  # one of two, at the top
    scores, truth, candidates = arrays([nan] * 4, [True, False, False, False], every)
    assert average_precision(scores, truth, candidates) == pytest.approx(0)
    assert hit_at_k(scores, truth, candidates, 4) == pytest.approx(0)


def test_infinite_scores_are_ranked_and_rounding_is_no_difference():
    infinite = [-np.inf, 1.0, np.inf]
    every = [True] * 3
    assert average_precision(*arrays(infinite, [False, False, True], every)) == pytest.approx(1)
    assert average_precision(*arrays(infinite, [True, False, False], every)) == pytest.approx(1 / 3)
    nearly = arrays([1.0, 1.0 + 1e-8, 0.5], [True, False, False], every)
    assert hit_at_k(*nearly, 1) == pytest.approx(1 / 2)


def test_an_item_without_truth_has_no_number():
    scores, truth, candidates = arrays([1.0, 2.0], [False, False], [True, True])
    assert np.isnan(average_precision(scores, truth, candidates)).all()
    assert np.isnan(hit_at_k(scores, truth, candidates, 1)).all()
    assert np.isnan(average_precision_by_chance(truth, candidates)).all()
