"""Who has learned, and when; grades of heads, by the study's rules, and what predicts them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from scipy import stats as scipy_stats
from sklearn.metrics import roc_auc_score

from book.chapters.copying import tables
from book.chapters.copying.tables import OF_BASES, SECOND, STAYS_GOOD, of_bases, over_bases


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
    times = tables.learned_at(curves({"a": [[0, 0.95, 0.2], [0, 0.5, 0.9]], "b": [[1.0, 1.0, 1.0]]}), 0.95)
    assert times.to_numpy().tolist() == [["a", 0, True, 10], ["a", 1, False, 20], ["b", 0, True, 0]]


def test_shares_count_up_to_the_budget_and_have_exact_intervals():
    shares = tables.shares_learned(BOTH, [50, 80, 100]).set_index(["task", "budget"])
    counts = shares["count"].unstack("budget")[[50, 80, 100]]
    assert counts.loc[["hard", "easy"]].to_numpy().tolist() == [[0, 3, 3], [8, 10, 10]]
    low, high = scipy_stats.beta.ppf([0.025, 0.975], [3, 4], [8, 7])
    row = shares.loc["hard", 80]
    assert (row["value"], row["low"], row["high"], row["n"]) == pytest.approx((0.3, low, high, 10))
    assert shares.loc[("hard", 50), "low"] == 0 and shares.loc[("easy", 100), "high"] == 1


def test_a_budget_beyond_training_is_unknown_unless_all_have_learned():
    shares = tables.shares_learned(BOTH, [200])
    assert shares["task"].tolist() == ["easy"]


def test_differences_are_barnards_and_newcombes():
    shares = tables.shares_learned(BOTH, [50, 100])
    found = tables.differences_learned(shares, "hard").set_index("budget")
    assert found["task"].tolist() == ["easy", "easy"] and found["n"].tolist() == [20, 20]
    assert found["value"].tolist() == pytest.approx([0.8, 0.7])
    exact = scipy_stats.barnard_exact([[8, 0], [2, 10]]).pvalue
    assert found.loc[50, "p"] == pytest.approx(exact) and exact < 0.001
    assert (found["p_holm"] >= found["p"]).all()
    # Newcombe 1998, his table II, example (a): 56 of 70 less 48 of 80
    example = pd.DataFrame({"task": ["x", "y"], "budget": 1, "count": [48, 56], "n": [80, 70]})
    row = tables.differences_learned(example, "x").iloc[0]
    assert (row["value"], row["low"], row["high"]) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


@pytest.mark.parametrize("count", [0, 5])
def test_nothing_is_different_where_all_are_alike(count):
    same = pd.DataFrame({"task": ["x", "y"], "budget": 1, "count": [count, count], "n": [5, 5]})
    assert tables.differences_learned(same, "x")["p"].tolist() == [1.0]


def test_without_a_reference_there_is_nothing_to_compare():
    assert tables.differences_learned(tables.shares_learned(BOTH, [50]), "other").empty


def test_survival_curves_are_the_shares_that_are_left():
    left = tables.not_yet_learned(BOTH)
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
    left = tables.not_yet_learned(times)
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
    first, second = tables.curves_over_seeds(pd.DataFrame(seen), ["auc"]).itertuples()
    assert first.value == pytest.approx(2.99 / 3) and 0.95 < first.low < first.value < first.high == 1
    assert second.value == second.high == 1 and 0.97 < second.low < 1 and second.n == 3


def test_seeds_that_were_looked_at_for_less_time_are_refused():
    times = pd.concat([times_of("x", [90], 1, last=100), times_of("x", [], 1, last=50).assign(seed=5)])
    with pytest.raises(ValueError, match=r"looked at equally long; got \[50, 100\]"):
        tables.not_yet_learned(times)


def test_the_median_is_infinite_where_half_never_learn():
    medians = tables.median_steps(BOTH).set_index("task")
    assert medians.loc["easy", "value"] in (30, 40) and medians.loc["easy", "low"] >= 20
    assert medians.loc["hard", "value"] == np.inf and medians.loc["hard", "high"] == np.inf


@pytest.mark.parametrize(
    ("at", "others", "low", "high"), [(40, [], 40, 40), (40, [60, 60], 40, 40), (40, [60] * 8, 40, 60)]
)
def test_a_median_lies_in_its_interval_where_most_learn_in_one_step(at, others, low, high):
    times = times_of("x", [at] * (20 - len(others)) + others, 0)
    assert tables.median_steps(times).loc[0, ["value", "low", "high"]].tolist() == [at, low, high]


def test_the_log_rank_test_tells_early_from_late():
    assert tables.log_rank(BOTH, ("hard", "easy")) < 0.001
    again = pd.concat([BOTH[BOTH["task"] == "easy"], BOTH[BOTH["task"] == "easy"].assign(task="same")])
    assert tables.log_rank(again, ("easy", "same")) > 0.9
    nobody = pd.concat([times_of("x", [], 3), times_of("y", [], 3)])
    at_once = pd.concat([times_of("x", [10, 10], 0), times_of("y", [10], 0)])
    assert tables.log_rank(nobody, ("x", "y")) == tables.log_rank(at_once, ("x", "y")) == 1.0


def curve(*accuracy, head=0, order=0):
    return pd.DataFrame(
        {"head": head, "order": order, "step": range(0, 10 * len(accuracy), 10), "accuracy": accuracy}
    )


@pytest.mark.parametrize(
    ("accuracy", "grade"),
    [
        ((0.1, 0.5, 0.951), "good"),
        ((0.1, 0.96, 0.3), "good"),  # once is enough, whatever comes then
        ((0.96, 0.1, 0.1), "good"),  # the original looks before the first step, too
        ((0.1, 0.5, 0.95), "neither"),  # above, not at
        ((0.1, 0.9, 0.599), "bad"),
        ((0.1, 0.3, 0.6), "neither"),  # below, not at
        ((0.1, 0.3, 0.8), "neither"),
    ],
)
def test_a_run_is_good_if_it_ever_passes_and_bad_if_it_ends_low(accuracy, grade):
    single = np.float32(accuracy).astype(float)  # what models are looked at by is in single precision
    for kept in (accuracy, single):
        found = tables.run_grades(curve(*kept).sample(frac=1, random_state=0))
        assert found["grade"].tolist() == [grade]


@pytest.mark.parametrize(
    ("grades", "grade"),
    [
        (["good"] * 3, "good"),
        (["bad"] * 3, "bad"),
        (["good", "good", "bad"], "neither"),
        (["good", "good", "neither"], "neither"),
        (["neither"], "neither"),
        (["good"], "open"),
        (["bad", "bad"], "open"),
        (["bad", "good"], "neither"),
    ],
)
def test_a_heads_runs_have_to_agree(grades, grade):
    runs = pd.DataFrame({"head": 5, "order": range(len(grades)), "grade": grades})
    assert tables.head_grades(runs).to_numpy().tolist() == [[5, grade, len(grades)]]


def test_shares_say_how_much_the_first_run_says_of_the_second():
    given = {0: ["good"] * 3, 1: ["good", "neither"], 2: ["bad"] * 3, 3: ["neither"], 4: ["bad", "good"]}
    rows = [{"head": h, "order": o, "grade": g} for h, runs in given.items() for o, g in enumerate(runs)]
    runs = pd.DataFrame(rows)
    shares = tables.grade_shares(runs, tables.head_grades(runs)).set_index(["grade", "metric"])
    after_good, after_bad = (f"second runs after a {grade} first" for grade in ("good", "bad"))
    wanted = {"heads": [1, 5], after_good: [1, 2], after_bad: [1, 2]}
    for metric, counts in wanted.items():
        assert shares.loc[("good", metric), ["count", "n"]].tolist() == counts
    assert shares.loc[("bad", after_good), "count"] == 0 and shares.loc[("bad", after_bad), "count"] == 1
    exact = scipy_stats.binomtest(1, 5).proportion_ci(method="exact")
    assert shares.loc[("good", "heads"), ["low", "high"]].tolist() == pytest.approx([exact.low, exact.high])


def test_auc_is_the_area_under_the_curve():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, 15), rng.integers(0, 5, 22)  # with ties
    value = tables.auc(x, y).value
    assert value == pytest.approx(roc_auc_score([1] * 15 + [0] * 22, [*x, *y]))
    assert tables.auc(y, x).value == pytest.approx(1 - value)


def test_aucs_interval_keeps_a_width_where_groups_do_not_overlap():
    found = tables.auc([5, 6, 7, 8], [1, 2, 3, 4])
    assert (found.value, found.high, found.n) == (1, 1, 8) and 0.4 < found.low < 0.9
    turned = tables.auc([1, 2, 3, 4], [5, 6, 7, 8])
    assert turned.low == 0 and turned.high == pytest.approx(1 - found.low)


def test_aucs_interval_covers_the_truth():
    rng, covered, n = np.random.default_rng(0), [], 200
    for apart in (0.0, 1.2):
        truth = scipy_stats.norm.cdf(apart / 2**0.5)
        for _ in range(n):
            found = tables.auc(rng.normal(apart, size=8), rng.normal(size=12))
            covered.append(found.low <= truth <= found.high)
    assert 0.92 < np.mean(covered) < 0.99


def test_auc_of_nothing_is_refused():
    with pytest.raises(ValueError, match="both groups should have numbers"):
        tables.auc([np.nan], [1.0])


def test_a_planted_prediction_is_found_and_noise_is_not():
    rng = np.random.default_rng(3)
    grades = ["good"] * 12 + ["bad"] * 12 + ["neither"] * 10
    heads = pd.DataFrame({"head": range(34), "grade": grades, "runs": 3})
    planted = np.array([1.0] * 12 + [0.0] * 22) + rng.normal(0, 0.2, 34)
    numbers = pd.DataFrame({"head": range(34), "planted": planted, "noise": rng.normal(size=34)})
    numbers = numbers.sample(frac=1, random_state=0)  # heads are found by name
    found = tables.predictions(numbers, heads, ["planted", "noise"]).set_index(["metric", "against"])
    assert found.loc[("planted", "bad"), "value"] > 0.95 and found.loc[("planted", "bad"), "p_holm"] < 1e-3
    assert found.loc[("planted", "bad"), "n"] == 24 and found.loc[("planted", "not good"), "n"] == 34
    assert found.loc[("noise", "bad"), "low"] < 0.5 < found.loc[("noise", "bad"), "high"]
    assert tables.predictions(numbers, heads.assign(grade="bad"), ["planted"]).empty


def test_all_pairs_are_compared_once():
    times = pd.DataFrame(
        [
            {"task": task, "seed": seed, "learned": seed < learned, "step": 100 if seed < learned else 200}
            for task, learned in {"4 bad": 0, "3 bad, 1 good": 9, "random": 10}.items()
            for seed in range(12)
        ]
    )
    found = tables.pairs_learned(times, 200).set_index(["than", "task"])
    assert list(found.index) == [("4 bad", "3 bad, 1 good"), ("4 bad", "random"), ("3 bad, 1 good", "random")]
    first = found.loc[("4 bad", "3 bad, 1 good")]
    assert first["value"] == 0.75 and first["p_holm"] < 0.01 and first["log_rank_holm"] < 0.01
    table = [[9, 0], [3, 12]]
    assert first["p"] == pytest.approx(scipy_stats.barnard_exact(table).pvalue)
    assert found.loc[("3 bad, 1 good", "random"), "p_holm"] > 0.3
    assert tables.pairs_learned(times[times["task"] == "random"], 200).empty


def test_heads_are_told_base_by_base_and_over_bases():
    def row(base, metric, value, task="heads", hidden=32):
        setting = f"permutations of 12; GRU; hidden {hidden}, batch 16; base {base}"
        about = {"setting": setting, "task": task, "metric": metric}
        return about | {"value": value, "low": 0.0, "high": 1.0, "n": 9}

    good, bad = (SECOND.format(first) for first in ("good", "bad"))
    rows = [row(0, good, 0.9), row(0, bad, 0.1), row(1, good, 0.7), row(1, bad, 0.2), row(2, good, 0.5)]
    more = "learned, several heads, less 4 bad"
    rows += [row(0, more, 0.3, "3 bad, 1 good"), row(0, more, 0.8, "4 not graded")]
    rows += [row(3, good, 0.0, hidden=256), row(0, good, 0.9)]  # of another size; recorded twice
    found = of_bases(pd.DataFrame(rows))
    assert found.groupby("base").size().to_dict() == {"0": 3, "1": 2, "2": 1}
    means = over_bases(found)
    assert means.loc[STAYS_GOOD, ["value", "n"]].tolist() == pytest.approx([0.65, 2])
    assert means.loc[OF_BASES[good], ["value", "n"]].tolist() == pytest.approx([0.7, 3])
    assert means.loc[OF_BASES[good], "high"] == 1 and means.loc[STAYS_GOOD, "high"] > 1, "shares end at 1"
    assert means.loc[OF_BASES["learned, several heads, less 4 bad"], "value"] == 0.3
    assert over_bases(of_bases(pd.DataFrame())).empty, "none is recorded"


def test_a_symbol_of_the_output_goes_with_any_other_of_a_permutation():
    """By hand: of five symbols, two more of four are drawn beside a given one."""
    often, names = tables.cooccurrence({"permutations": 3, "of five": 5}, length=3)
    assert names[2:5] == ["permutations:\xa03", "of\xa0five:\xa01", "of\xa0five:\xa02"]
    assert often[:3].tolist() == [[1, 1, 1, 0, 0]] * 3
    assert (often[3:] == np.where(np.eye(5), 1, 0.5)).all()
