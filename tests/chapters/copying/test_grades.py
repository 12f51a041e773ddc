"""Grades of heads, by the study's rules, and what predicts them."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from sklearn.metrics import roc_auc_score

from book.chapters.copying import learning
from book.chapters.copying.head_results import OF_BASES, SECOND, STAYS_GOOD, of_bases, over_bases


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
        found = learning.run_grades(curve(*kept).sample(frac=1, random_state=0))
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
    assert learning.head_grades(runs).to_numpy().tolist() == [[5, grade, len(grades)]]


def test_shares_say_how_much_the_first_run_says_of_the_second():
    given = {0: ["good"] * 3, 1: ["good", "neither"], 2: ["bad"] * 3, 3: ["neither"], 4: ["bad", "good"]}
    rows = [{"head": h, "order": o, "grade": g} for h, runs in given.items() for o, g in enumerate(runs)]
    runs = pd.DataFrame(rows)
    shares = learning.grade_shares(runs, learning.head_grades(runs)).set_index(["grade", "metric"])
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
    value = learning.auc(x, y).value
    assert value == pytest.approx(roc_auc_score([1] * 15 + [0] * 22, [*x, *y]))
    assert learning.auc(y, x).value == pytest.approx(1 - value)


def test_aucs_interval_keeps_a_width_where_groups_do_not_overlap():
    found = learning.auc([5, 6, 7, 8], [1, 2, 3, 4])
    assert (found.value, found.high, found.n) == (1, 1, 8) and 0.4 < found.low < 0.9
    turned = learning.auc([1, 2, 3, 4], [5, 6, 7, 8])
    assert turned.low == 0 and turned.high == pytest.approx(1 - found.low)


def test_aucs_interval_covers_the_truth():
    rng, covered, n = np.random.default_rng(0), [], 200
    for apart in (0.0, 1.2):
        truth = scipy_stats.norm.cdf(apart / 2**0.5)
        for _ in range(n):
            found = learning.auc(rng.normal(apart, size=8), rng.normal(size=12))
            covered.append(found.low <= truth <= found.high)
    assert 0.92 < np.mean(covered) < 0.99


@pytest.mark.parametrize(("x", "y"), [([], [1.0]), ([1.0], []), ([np.nan], [1.0])])
def test_auc_of_nothing_is_refused(x, y):
    with pytest.raises(ValueError, match="both groups should have numbers"):
        learning.auc(x, y)


def test_a_planted_prediction_is_found_and_noise_is_not():
    rng = np.random.default_rng(3)
    grades = ["good"] * 12 + ["bad"] * 12 + ["neither"] * 10
    heads = pd.DataFrame({"head": range(34), "grade": grades, "runs": 3})
    planted = np.array([1.0] * 12 + [0.0] * 22) + rng.normal(0, 0.2, 34)
    numbers = pd.DataFrame({"head": range(34), "planted": planted, "noise": rng.normal(size=34)})
    numbers = numbers.sample(frac=1, random_state=0)  # heads are found by name
    found = learning.predictions(numbers, heads, ["planted", "noise"]).set_index(["metric", "against"])
    assert found.loc[("planted", "bad"), "value"] > 0.95 and found.loc[("planted", "bad"), "p_holm"] < 1e-3
    assert found.loc[("planted", "bad"), "n"] == 24 and found.loc[("planted", "not good"), "n"] == 34
    assert found.loc[("noise", "bad"), "low"] < 0.5 < found.loc[("noise", "bad"), "high"]
    assert learning.predictions(numbers, heads.assign(grade="bad"), ["planted"]).empty


def test_all_pairs_are_compared_once():
    times = pd.DataFrame(
        [
            {"task": task, "seed": seed, "learned": seed < learned, "step": 100 if seed < learned else 200}
            for task, learned in {"4 bad": 0, "3 bad, 1 good": 9, "random": 10}.items()
            for seed in range(12)
        ]
    )
    found = learning.pairs_learned(times, 200).set_index(["than", "task"])
    assert list(found.index) == [("4 bad", "3 bad, 1 good"), ("4 bad", "random"), ("3 bad, 1 good", "random")]
    first = found.loc[("4 bad", "3 bad, 1 good")]
    assert first["value"] == 0.75 and first["p_holm"] < 0.01 and first["log_rank_holm"] < 0.01
    table = [[9, 0], [3, 12]]
    assert first["p"] == pytest.approx(scipy_stats.barnard_exact(table).pvalue)
    assert found.loc[("3 bad, 1 good", "random"), "p_holm"] > 0.3
    assert learning.pairs_learned(times[times["task"] == "random"], 200).empty


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
