"""Which tokens a score puts first, within equal budgets; and whether two scores rank tokens alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from book.chapters.attribution_benchmark.measures import first_tokens, order_of, rank_agreement, tokens_of

CANDIDATES = np.array([[True] * 10 + [False] * 2, [True] * 3 + [False] * 9])


def test_a_budget_is_a_share_rounded_up_or_a_number():
    assert tokens_of(0.1, CANDIDATES).tolist() == [1, 1]
    assert tokens_of(0.5, CANDIDATES).tolist() == [5, 2]
    assert tokens_of(0.7, CANDIDATES).tolist() == [7, 3]  # though .7 * 10 is a little more in floating point
    assert tokens_of(1, CANDIDATES).tolist() == [1, 1]
    assert tokens_of(4, CANDIDATES).tolist() == [4, 3]


@pytest.mark.parametrize("budget", [0, 1.5])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(ValueError, match=f"or a number of tokens; got {budget}"):
        tokens_of(budget, CANDIDATES)


@settings(max_examples=50)
@given(seed=st.integers(0, 1000), budgets=st.lists(st.sampled_from([0.1, 0.3, 0.5, 1, 4]), min_size=1))
def test_every_score_gets_the_same_number_of_tokens_and_the_largest(seed, budgets):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 3, CANDIDATES.shape).astype(float)
    scores[rng.random(scores.shape) < 0.2] = np.nan
    chosen = first_tokens(scores, CANDIDATES, budgets)
    assert not (chosen & ~CANDIDATES[:, None]).any()
    for item, budget in np.ndindex(2, len(budgets)):
        assert chosen[item, budget].sum() == tokens_of(budgets[budget], CANDIDATES)[item]
        values = np.nan_to_num(scores[item], nan=-np.inf)
        taken, left = values[chosen[item, budget]], values[CANDIDATES[item] & ~chosen[item, budget]]
        assert taken.min() >= left.max(initial=-np.inf)


def test_ties_are_ordered_by_a_coin_that_is_the_same_for_all_scores():
    candidates = np.ones((500, 4), bool)
    first = order_of(np.zeros((500, 4)), candidates)
    assert np.bincount(first.argmin(1), minlength=4).min() > 90
    np.testing.assert_array_equal(first, order_of(np.full((500, 4), 7.0), candidates))
    assert (first != order_of(np.zeros((500, 4)), candidates, seed=1)).any()
    assert (np.sort(first, axis=1) == np.arange(4)).all()


def test_agreement_is_spearmans_over_the_candidates():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 2, 12))
    found = rank_agreement(first, second, CANDIDATES)
    for item in range(2):
        there = CANDIDATES[item]
        expected = spearmanr(first[item][there], second[item][there]).statistic
        assert found[item] == pytest.approx(expected)


def test_a_constant_score_says_nothing_and_a_constant_standard_asks_nothing():
    rising = np.arange(12.0)[None].repeat(2, 0)
    even, nan = np.zeros((2, 12)), np.where(np.arange(12) == 1, np.nan, rising)
    assert rank_agreement(even, rising, CANDIDATES).tolist() == [0, 0]
    assert np.isnan(rank_agreement(rising, even, CANDIDATES)).all()
    assert np.isnan(rank_agreement(nan, rising, CANDIDATES)).all()
    outside = np.where(CANDIDATES, rising, np.nan)
    assert rank_agreement(outside, rising, CANDIDATES) == pytest.approx(1)
