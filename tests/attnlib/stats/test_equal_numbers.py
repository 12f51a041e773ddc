"""Where nothing that was drawn differs: what the rest leaves open."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from attnlib.stats import (
    agreement,
    mass_table,
    of_equals,
    over_seeds,
    proportion,
    ratio,
    summarise,
    table_over_seeds,
)


@pytest.mark.parametrize("n", [1, 3, 50, 1000])
@pytest.mark.parametrize("right", [0, 1])
def test_all_right_or_none_is_wilsons_interval_of_the_samples(right, n):
    """Whatever the tokens of a sample are: as exact match of the same samples has it."""
    tokens = np.arange(1, n + 1)
    exact = proportion(right * n, n)
    assert ratio(right * tokens, tokens) == pytest.approx(exact)
    assert exact.high - exact.low >= 0.75 * (1 - 0.025 ** (1 / n)), "beside Clopper and Pearson's"
    rows = pd.DataFrame({"sample": np.repeat(np.arange(n), 2), "value": float(right)})
    assert summarise(rows, unit="sample").loc[0, ["low", "high"]].tolist() == pytest.approx(exact[1:3])


def test_equal_numbers_between_the_ends_leave_something_open_on_both_sides():
    estimate = ratio([1] * 50, [2] * 50)
    assert estimate == of_equals(0.5, 50) and estimate.low < 0.5 < estimate.high
    assert estimate.high - estimate.low == pytest.approx(1 - proportion(50, 50).low)


def test_where_no_bounds_are_known_equal_numbers_stay_as_they_are():
    rows = pd.DataFrame({"value": [0.0] * 20})
    assert summarise(rows, bounds=None).loc[0, ["low", "high"]].tolist() == [0, 0]
    low, high = summarise(rows, bounds=(-1.0, 1.0)).loc[0, ["low", "high"]]
    assert low == -high < 0
    assert ratio([2.0] * 20, [1.0] * 20)[:3] == (2, 2, 2), "out of bounds: not a share"


def test_rows_without_a_value_leave_the_interval_of_equal_ones_as_it_is():
    scores = np.tile([0.1, 0.9], (5, 1))
    alone = agreement(scores, scores)
    none = np.full((35, 2), np.nan)
    beside = agreement(np.vstack([scores, none]), np.vstack([scores, none]))
    assert beside == pytest.approx(alone) and alone.low < 0.6
    groups = agreement(np.vstack([scores, none]), np.vstack([scores, none]), groups=np.arange(40) // 2)
    assert groups.low <= alone.low, "three groups have a value"
    rows = pd.DataFrame({"value": [1.0, 0.5, 1.0], "w": [1.0, np.nan, 1.0]})
    assert summarise(rows, whole="w").loc[0, ["value", "n"]].tolist() == [1, 2]


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_seeds_that_are_all_right_say_what_their_sequences_leave_open(seeds):
    """Three models, right with .99 each on 20 sequences, are so in all of them in half of the trials."""
    rng = np.random.default_rng(seeds)
    shares = rng.binomial(20, 0.99, size=(300, seeds)) / 20
    found = [over_seeds(each, share=True, units=20) for each in shares if each.min() == 1]
    assert len(found) > 60 and all(each.low <= 0.99 and each.high == 1 for each in found)
    assert over_seeds([1.0] * seeds, share=True) == pytest.approx(proportion(seeds, seeds)), "no units"
    assert over_seeds([0.5] * seeds)[:3] == (0.5, 0.5, 0.5), "not said to be shares"


def test_a_table_over_seeds_takes_the_units_from_its_rows_and_ends_where_shares_do():
    rows = pd.DataFrame({"seed": [0, 1, 2] * 2, "n": 50, "task": ["all"] * 3 + ["some"] * 3})
    rows["value"] = [1.0, 1.0, 1.0, 0.9, 1.0, 1.0]
    table = table_over_seeds(rows, ["task"], share=True).set_index("task")
    assert table.loc["all"].tolist() == pytest.approx([*proportion(50, 50)[:3], 3])
    assert table.loc["some", "high"] == 1 < table_over_seeds(rows, ["task"])["high"].max()


def test_of_a_single_seed_its_own_interval_stays():
    rows = pd.DataFrame({"seed": 0, "task": ["a", "b"], "value": [0.5, 0.7], "low": 0.4, "high": 0.8, "n": 9})
    table = table_over_seeds(rows, ["task"], share=True, of_one=True)
    pd.testing.assert_frame_equal(table, rows.drop(columns="seed"))
    assert table_over_seeds(rows, ["task"], share=True)["low"].isna().all()
    named = rows.rename(columns={"value": "accuracy"})
    pd.testing.assert_frame_equal(table_over_seeds(named, ["task"], "accuracy", of_one=True), table)


def test_agreement_in_every_row_has_an_interval_of_its_groups():
    scores = [[0.1, 0.9], [0.5, 0.4, 0.1], [0.2, 0.7], [0.3, 0.1]]
    assert agreement(scores, scores)[1:] == pytest.approx((*proportion(4, 4)[1:3], 4))
    grouped = agreement(scores, scores, groups=np.array([0, 0, 1, 1]))
    assert grouped.low == pytest.approx(proportion(2, 2).low) and grouped.n == 4


def test_the_width_is_wilsons_by_its_own_formula():
    z = stats.norm.ppf(0.975)
    assert of_equals(1.0, 48).low == pytest.approx(48 / (48 + z**2))


@pytest.mark.parametrize("share", [0.1, 0.7, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_equal_seeds_are_told_by_their_numbers_and_not_by_rounding(share, seeds):
    found = over_seeds([share] * seeds, share=True, units=100)
    assert found[1:3] == pytest.approx(of_equals(share, 100)[1:3])


def test_equal_rows_have_an_interval_whose_draws_differ_by_rounding():
    found = agreement([[1.0, 2, 3]] * 7, [[1.0, 3, 2]] * 7, measure="kendall")
    assert found.high - found.low > 0.1


def test_a_mass_that_is_everywhere_as_far_above_chance_may_be_below_it_elsewhere():
    rows = pd.DataFrame({"sample": range(3), "rollout": 0.25, "uniform rollout": 0.5, "referenced": True})
    found = mass_table(rows).iloc[0]
    assert found[["above_low", "above_high"]].tolist() == pytest.approx(
        [*of_equals(-0.25, 3, bounds=(-1.0, 1.0))[1:3]]
    )
