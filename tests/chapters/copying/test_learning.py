"""Who has learned, and when: counts with exact intervals, and times that may be censored."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from scipy import stats as scipy_stats

from book.chapters.copying import learning


def curves(accuracies, every=10):
    """Curves from `{task: [accuracy at each step, ...] per seed}`."""
    rows = [
        {"task": task, "seed": seed, "step": every * place, "accuracy": value}
        for task, seeds in accuracies.items()
        for seed, values in enumerate(seeds)
        for place, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def times_of(task, learned, censored, last=100):
    rows = [(task, seed, True, step) for seed, step in enumerate(learned)]
    rows += [(task, len(learned) + seed, False, last) for seed in range(censored)]
    return pd.DataFrame(rows, columns=["task", "seed", "learned", "step"])


BOTH = pd.concat(
    [times_of("hard", [60, 80, 80], 7), times_of("easy", [20, 20, 30, 30, 30, 40, 40, 50, 60, 70], 0)]
)


def test_a_seed_has_learned_at_the_first_step_that_reaches_the_threshold():
    times = learning.learned_at(curves({"a": [[0, 0.95, 0.2], [0, 0.5, 0.9]], "b": [[1.0, 1.0, 1.0]]}), 0.95)
    assert times.to_numpy().tolist() == [["a", 0, True, 10], ["a", 1, False, 20], ["b", 0, True, 0]]


def test_shares_count_up_to_the_budget_and_have_exact_intervals():
    shares = learning.shares_learned(BOTH, [50, 80, 100]).set_index(["task", "budget"])
    counts = shares["count"].unstack("budget")[[50, 80, 100]]
    assert counts.loc[["hard", "easy"]].to_numpy().tolist() == [[0, 3, 3], [8, 10, 10]]
    low, high = scipy_stats.beta.ppf([0.025, 0.975], [3, 4], [8, 7])
    row = shares.loc["hard", 80]
    assert (row["value"], row["low"], row["high"], row["n"]) == pytest.approx((0.3, low, high, 10))
    assert shares.loc[("hard", 50), "low"] == 0 and shares.loc[("easy", 100), "high"] == 1


def test_a_budget_beyond_training_is_unknown_unless_all_have_learned():
    shares = learning.shares_learned(BOTH, [200])
    assert shares["task"].tolist() == ["easy"]


def test_differences_are_barnards_and_newcombes():
    shares = learning.shares_learned(BOTH, [50, 100])
    found = learning.differences_learned(shares, "hard").set_index("budget")
    assert found["task"].tolist() == ["easy", "easy"] and found["n"].tolist() == [20, 20]
    assert found["value"].tolist() == pytest.approx([0.8, 0.7])
    exact = scipy_stats.barnard_exact([[8, 0], [2, 10]]).pvalue
    assert found.loc[50, "p"] == pytest.approx(exact) and exact < 0.001
    assert (found["p_holm"] >= found["p"]).all()
    # Newcombe 1998, his table II, example (a): 56 of 70 less 48 of 80
    example = pd.DataFrame({"task": ["x", "y"], "budget": 1, "count": [48, 56], "n": [80, 70]})
    row = learning.differences_learned(example, "x").iloc[0]
    assert (row["value"], row["low"], row["high"]) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


@pytest.mark.parametrize("count", [0, 5])
def test_nothing_is_different_where_all_are_alike(count):
    same = pd.DataFrame({"task": ["x", "y"], "budget": 1, "count": [count, count], "n": [5, 5]})
    assert learning.differences_learned(same, "x")["p"].tolist() == [1.0]


def test_without_a_reference_there_is_nothing_to_compare():
    assert learning.differences_learned(learning.shares_learned(BOTH, [50]), "other").empty


def test_survival_curves_are_the_shares_that_are_left():
    left = learning.not_yet_learned(BOTH)
    hard = left[left["task"] == "hard"]
    assert hard["step"].tolist() == [0, 60, 80, 100]
    assert hard["value"].tolist() == pytest.approx([1, 0.9, 0.7, 0.7])
    easy = left[left["task"] == "easy"]
    assert easy["step"].iloc[-1] == 70 and easy["value"].iloc[-1] == 0
    assert ((left["low"] <= left["value"]) & (left["value"] <= left["high"])).all()


@settings(max_examples=40)
@given(some.lists(some.integers(0, 10).map(lambda step: 10 * step), max_size=8), some.integers(0, 8))
def test_survival_falls_from_one_and_agrees_with_the_shares(learned, censored):
    assume(learned or censored)
    times = times_of("x", learned, censored)
    left = learning.not_yet_learned(times)
    assert left["step"].is_monotonic_increasing and left["step"].is_unique
    assert (left["value"].diff().dropna() <= 0).all()
    for row in left.itertuples():
        assert row.value == pytest.approx(1 - np.mean(times["learned"] & (times["step"] <= row.step)))


def test_means_over_seeds_are_shares_and_equal_seeds_leave_open_what_their_sequences_do():
    nearly, all_right = [1.0, 1.0, 0.99], [1.0, 1.0, 1.0]
    seen = {
        "task": "a",
        "n": 200,
        "seed": [0, 1, 2] * 2,
        "step": [1] * 3 + [2] * 3,
        "auc": nearly + all_right,
    }
    first, second = learning.curves_over_seeds(pd.DataFrame(seen), ["auc"]).itertuples()
    assert first.value == pytest.approx(2.99 / 3) and 0.95 < first.low < first.value < first.high == 1
    assert second.value == second.high == 1 and 0.97 < second.low < 1 and second.n == 3


def test_seeds_that_were_looked_at_for_less_time_are_refused():
    times = pd.concat([times_of("x", [90], 1, last=100), times_of("x", [], 1, last=50).assign(seed=5)])
    with pytest.raises(ValueError, match=r"looked at equally long; got \[50, 100\]"):
        learning.not_yet_learned(times)


def test_the_median_is_infinite_where_half_never_learn():
    medians = learning.median_steps(BOTH).set_index("task")
    assert medians.loc["easy", "value"] in (30, 40) and medians.loc["easy", "low"] >= 20
    assert medians.loc["hard", "value"] == np.inf and medians.loc["hard", "high"] == np.inf


@pytest.mark.parametrize(
    ("at", "others", "low", "high"), [(40, [], 40, 40), (40, [60, 60], 40, 40), (40, [60] * 8, 40, 60)]
)
def test_a_median_lies_in_its_interval_where_most_learn_in_one_step(at, others, low, high):
    times = times_of("x", [at] * (20 - len(others)) + others, 0)
    assert learning.median_steps(times).loc[0, ["value", "low", "high"]].tolist() == [at, low, high]


def test_the_log_rank_test_tells_early_from_late():
    assert learning.log_rank(BOTH, ("hard", "easy")) < 0.001
    again = pd.concat([BOTH[BOTH["task"] == "easy"], BOTH[BOTH["task"] == "easy"].assign(task="same")])
    assert learning.log_rank(again, ("easy", "same")) > 0.9
    nobody = pd.concat([times_of("x", [], 3), times_of("y", [], 3)])
    at_once = pd.concat([times_of("x", [10, 10], 0), times_of("y", [10], 0)])
    assert learning.log_rank(nobody, ("x", "y")) == learning.log_rank(at_once, ("x", "y")) == 1.0
