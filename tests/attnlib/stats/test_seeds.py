"""Intervals over seeds: how often they cover, and what is judged by them."""

import numpy as np
import pandas as pd
import pytest

from attnlib.stats import layer_claims, over_left_out, over_seeds, paired_over_seeds

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
    with pytest.raises(ValueError, match="a value per seed"):
        over_seeds([])


@pytest.mark.parametrize(("given", "got"), [([90.0, 95.0], "90 to 95"), ([-0.1, 0.5, np.nan], "-0.1 to 0.5")])
def test_shares_are_from_0_to_1(given, got):
    with pytest.raises(ValueError, match=f"shares should be from 0 to 1; got {got} .percent. divide by 100"):
        over_seeds(given, share=True)
    assert over_seeds([0.0, 1.0, np.inf], share=True).n == 3


def test_what_a_seed_adds_to_a_share_may_be_beyond_it():
    assert over_left_out([0.5, 1.0, 1.0], share=True).value == pytest.approx(2.5 / 3)


def looks_of(values):
    """A table with one share per (seed, layer, kind)."""
    return pd.DataFrame(values, columns=["seed", "layer", "kind", "value"])


def test_claims_are_judged_over_seeds():
    rows = []
    for seed in range(5):
        noise = 0.01 * seed
        for layer in range(3):
            rows += [(seed, layer, "local", (0.8 if layer == 0 else 0.2) + noise)]
            rows += [(seed, layer, "operator", 0.3 if layer == 1 else 0.6 + noise)]
            rows += [(seed, layer, "either column", 0.5 + 0.2 * (-1) ** seed * (layer == 2))]
    claims = layer_claims(looks_of(rows)).set_index("claim")
    assert claims["holds"].tolist() == ["yes", "no", "not settled"]
    assert claims["value"].iloc[0] == pytest.approx(0.6) and (claims["n"] == 5).all()
    two = looks_of([row for row in rows if row[1] < 2])
    assert layer_claims(two)["claim"].tolist() == [
        "early layers look local",
        "late layers combine the columns",
    ]
    assert layer_claims(looks_of([row for row in rows if row[1] < 1])).empty
    one = layer_claims(looks_of([row for row in rows if row[0] == 0]))
    assert (one["holds"] == "not settled").all() and one["low"].isna().all()  # one seed has no interval


def test_changes_are_judged_seed_by_seed():
    before = pd.DataFrame({"exact match": [0.5, 0.7, 0.9], "accuracy": [0.8, 0.8, 0.8]})
    after = before.add(pd.DataFrame({"exact match": [0.1] * 3, "accuracy": [0.0, 0.1, -0.1]}))
    table = paired_over_seeds(before, after).set_index("metric")
    assert table.loc["exact match", ["value", "low", "high"]].tolist() == pytest.approx([0.1] * 3)
    assert table.loc["exact match", ["before", "after"]].tolist() == pytest.approx([0.7, 0.8])
    assert table.loc["accuracy", "low"] < 0 < table.loc["accuracy", "high"]
    with pytest.raises(ValueError, match="the same seeds and metrics"):
        paired_over_seeds(before, after[:2])
    assert paired_over_seeds(pd.DataFrame(), pd.DataFrame()).empty
