"""Spearman's correlation with an interval, also within groups."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from attnlib.stats import rank_correlation


def test_without_groups_it_is_scipys():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 30))
    y = y + x
    y[3] = y[7]
    found = rank_correlation(x, y)
    assert found.value == pytest.approx(spearmanr(x, y).statistic)
    assert found.low < found.value < found.high and found.n == 30
    assert found.low > 0, "they do go together"


def test_what_groups_differ_by_as_a_whole_does_not_count():
    x = [0.1, 0.2, 0.3, 0.6, 0.7, 0.8]
    y = [0.3, 0.2, 0.1, 0.9, 0.8, 0.7]  # within each group, the other way
    groups = ["a"] * 3 + ["b"] * 3
    assert rank_correlation(x, y).value > 0.5
    assert rank_correlation(x, y, groups).value == pytest.approx(-1)


def test_one_thing_of_its_group_says_nothing():
    found = rank_correlation([1, 2, 3, 9], [1, 2, 3, 0], ["a", "a", "a", "b"])
    assert found.value == pytest.approx(1) and found.n == 3
    assert np.isnan([found.low, found.high]).all(), "too few to draw again"
    nothing = rank_correlation([1, 2], [1, 2], ["a", "b"])
    assert nothing.n == 0 and np.isnan(nothing.value)


def test_one_order_has_no_interval_of_no_width():
    found = rank_correlation(range(7), range(7))
    assert found.value == pytest.approx(1) and found.n == 7 and np.isnan([found.low, found.high]).all()


def test_a_number_that_never_changes_has_no_correlation():
    assert np.isnan(rank_correlation([1, 1, 1], [1, 2, 3]).value)


def test_the_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    found = [rank_correlation(*rng.normal(size=(2, 25))) for _ in range(40)]
    assert np.mean([each.low <= 0 <= each.high for each in found]) >= 0.85
