"""Intervals over seeds: how often they cover, and what is judged by them."""

import numpy as np
import pandas as pd
import pytest
import scipy

from attnlib.stats import over_left_out, over_seeds, p_over_seeds, pooled, table_over_seeds

TRIALS = 400


def covered(estimates, truth=0.0):
    """How often intervals hold the truth."""
    return np.mean([each.low <= truth <= each.high for each in estimates])


@pytest.mark.parametrize("seeds", [2, 3, 5, 20])
def test_it_covers_too_where_rows_are_drawn_as_well(seeds):
    """All seeds are evaluated on the same rows: what these have in common no spread of seeds can show."""
    rng = np.random.default_rng(seeds)
    for spread in (0.0, 0.2, 1.0):  # of seeds, where that of rows is 0.2
        found = []
        for _ in range(TRIALS // 2):
            rows = 0.2 * rng.normal()
            draws = rows + 0.2 * rng.normal(size=400)
            found.append(over_seeds(rows + spread * rng.normal(size=seeds), draws))
        assert 0.92 <= covered(found) <= 1.0


@pytest.mark.parametrize("seeds", [3, 5, 20])
@pytest.mark.parametrize("particular", [0.0, 1.0])
def test_pairs_that_share_seeds_are_not_taken_as_independent(seeds, particular):
    """Of every seed with one other, Student's interval covers 84 % with 3, 59 % with 5, 15 % with 20."""
    rng, found, one_other = np.random.default_rng(seeds), [], []
    for _ in range(TRIALS):
        pairs = 0.3 * rng.normal(size=(seeds, 1)) + rng.normal(
            size=seeds
        )  # what a pair's first and second add
        pairs = pairs + particular * rng.normal(size=(seeds, seeds))
        np.fill_diagonal(pairs, np.nan)
        left_out = [np.delete(np.delete(pairs, i, 0), i, 1) for i in range(seeds)]
        found.append(over_left_out([np.nanmean(each) for each in left_out]))
        one_other.append(over_seeds([pairs[0, 1], *pairs[1:, 0]]))
    assert 0.93 <= covered(found) <= (1.0 if particular else 0.97)
    assert covered(one_other) < (0.94 if particular else 0.88)


def test_left_out_one_by_one_a_mean_over_seeds_has_students_interval():
    values = np.array([1.0, 2.0, 4.0])
    assert over_left_out((values.sum() - values) / 2) == pytest.approx(over_seeds(values))


def test_over_seeds_is_students_interval():
    estimate = over_seeds([1.0, 2.0, 3.0])
    assert estimate[:3] == pytest.approx((2.0, 2 - 2.484138, 2 + 2.484138), abs=1e-5)
    assert over_seeds([0.5, 0.5])[:3] == (0.5, 0.5, 0.5)


def test_p_over_seeds_is_students():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"of": np.repeat(["a", "b", "c"], 4), "seed": [*range(4)] * 3, "value": rng.normal(1, 1, 12)}
    )
    found = p_over_seeds(table_over_seeds(rows, ["of"]))
    expected = [scipy.stats.ttest_1samp(each, 0).pvalue for _, each in rows.groupby("of")["value"]]
    assert found == pytest.approx(expected)
    alike = pd.DataFrame({"of": "a", "seed": [0, 1], "value": 0.0})
    assert p_over_seeds(table_over_seeds(alike, ["of"])).tolist() == [1.0]
    assert p_over_seeds(table_over_seeds(alike.assign(value=0.5), ["of"])).tolist() == [0.0]
    assert np.isnan(p_over_seeds(table_over_seeds(alike[:1], ["of"]))).all()


def test_a_share_that_is_never_is_left_out():
    assert over_seeds([0.0, 1.0, np.inf], share=True).n == 3


def test_what_a_seed_adds_to_a_share_may_be_beyond_it():
    assert over_left_out([0.5, 1.0, 1.0], share=True).value == pytest.approx(2.5 / 3)


def test_lots_of_seeds_pooled_are_all_seeds_together() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"of": list("aabbbaab"), "seed": range(8), "value": rng.normal(size=8)})
    rows["lot"] = [0, 0, 0, 1, 1, 1, 1, 2]
    lots = table_over_seeds(rows, ["of", "lot"])
    found, expected = pooled(lots, ["of"]), table_over_seeds(rows, ["of"])
    pd.testing.assert_frame_equal(found, expected, check_exact=False, rtol=1e-9)
    assert found["n"].tolist() == [4, 4] and lots["n"].min() == 1
