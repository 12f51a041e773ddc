"""Normalised numbers, paired differences, ranks and stability, of rows whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from book.chapters.attribution_benchmark.tables import (
    OVER_MODELS,
    OVER_QUESTIONS,
    method_comparisons,
    method_differences,
    method_ranking,
    normalised,
    over_settings,
    seed_stability,
)

METRIC = "average precision"


def rows(values, setting="s", seed=0, chance=0.2, perfect=1.0, metric=METRIC):
    """Rows of `{method: values of items}`."""
    tables = []
    for method, numbers in values.items():
        about = {"setting": setting, "seed": seed, "method": method, "metric": metric}
        table = pd.DataFrame(
            {"item": range(len(numbers)), "value": numbers, "chance": chance, "perfect": perfect}
        )
        tables.append(table.assign(**about))
    return pd.concat(tables, ignore_index=True)


@pytest.mark.parametrize(
    ("values", "chance", "perfect", "expected"),
    [
        ({"best": [1.0] * 9, "blind": [0.2] * 9, "worse": [0.0] * 9}, 0.2, 1.0, [1, 0, -0.25]),
        ({"a": [1.0, 0.9]}, np.array([0.1, 0.9]), 1.0, [0.9]),  # items weigh by what is possible
        ({"a": [0.0] * 5, "b": [0.3] * 5}, 0.6, 0.0, [1, 0.5]),  # smaller is better
        ({"a": [1.0, np.nan, 0.2]}, 0.2, 1.0, [0.5]),
    ],
)
def test_chance_is_zero_and_perfect_is_one(values, chance, perfect, expected):
    found = normalised(rows(values, chance=chance, perfect=perfect), METRIC)
    assert found["value"].tolist() == pytest.approx(expected)
    assert found["n"].tolist() == [np.isfinite(each).sum() for each in values.values()]


def test_where_chance_is_nearly_perfect_there_is_no_number():
    found = normalised(rows({"a": [1.0] * 5}, chance=0.99), METRIC)
    assert found[["value", "low", "high"]].isna().all(axis=None)
    assert len(method_ranking(rows({"a": [1.0] * 5}, chance=0.99), METRIC).dropna()) == 0


def test_seeds_that_differ_widen_the_interval():
    rng = np.random.default_rng(0)
    alike, apart = [], []
    for seed in range(3):
        noise = rng.normal(0, 0.01, 30)
        alike.append(rows({"a": 0.6 + noise}, seed=seed))
        apart.append(rows({"a": 0.6 + 0.2 * (seed - 1) + noise}, seed=seed))
    one, other = (normalised(pd.concat(each), METRIC).iloc[0] for each in (alike, apart))
    assert one["seeds"] == 3 and one["value"] == pytest.approx(other["value"], abs=0.01)
    assert other["high"] - other["low"] > 10 * (one["high"] - one["low"])


def test_two_measures_are_compared_item_by_item():
    rng = np.random.default_rng(1)
    base = rng.random(40)
    values = {"a": base, "a little better": base + 0.05 * rng.random(40), "other": rng.random(40)}
    found = method_comparisons(rows(values), METRIC).set_index(["first", "second"])
    assert len(found) == 3
    assert found.loc[("a", "a little better"), "p_holm"] < 0.001
    assert found.loc[("a", "other"), "p_holm"] > 0.05
    assert found.loc[("a", "a little better"), "difference"] < 0
    assert (found["p_holm"] >= found["p"]).all()
    only = method_comparisons(rows(values), METRIC, reference="other")
    assert only[["first", "second"]].to_numpy().tolist() == [["a", "other"], ["a little better", "other"]]


def test_of_hits_the_test_is_mcnemars():
    first, second = np.zeros(30), np.zeros(30)
    first[:9], second[9:11] = 1, 1
    found = method_comparisons(rows({"a": first, "b": second}), METRIC)
    assert found["p"].item() == pytest.approx(binomtest(9, 11, 0.5).pvalue, abs=0.005)


def test_measures_that_say_the_same_do_not_differ():
    found = method_comparisons(rows({"a": [0.3, 0.4], "b": [0.3, 0.4]}), METRIC)
    assert found["p"].item() == 1 and found["difference"].item() == 0


def drawn(rng, settings, models, questions, spread, of_models=0.05, of_questions=0.1, sims=200):
    """Rows in which each method is a study of its own, with true numbers of its settings."""
    names = [f"study {number}" for number in range(sims)]
    truth = 0.5 + spread * rng.normal(size=(settings, sims))
    seen = truth + of_models * rng.normal(size=(models, settings, sims))
    easy = of_questions * rng.normal(size=(questions, 1, settings, sims))  # the same for all models
    seen = seen + easy + of_questions * rng.normal(size=(questions, models, settings, sims))
    item, seed, setting, method = (each.ravel() for each in np.indices(seen.shape))
    table = pd.DataFrame({"setting": setting, "seed": seed, "item": item, "value": seen.ravel()})
    about = {"method": np.array(names)[method], "metric": METRIC, "chance": 0.0, "perfect": 1.0}
    return table.assign(**about), pd.Series(truth.mean(0), names)


def test_the_ranking_is_over_settings_and_says_how_sure_it_is():
    rng = np.random.default_rng(0)
    tables = [
        rows({"same": 0.4 + sign * rng.random(30) / 5, "also": 0.4 - sign * rng.random(30) / 5}, setting)
        for setting, sign in zip("stuvwxyz", [1, -1] * 4, strict=True)
    ]
    tables += [rows({"good": 0.8 + 0.1 * rng.random(30)}, setting) for setting in "stuvwxyz"]
    tables += [rows({"only once": [1.0] * 30}, "s")]
    found = method_ranking(pd.concat(tables), METRIC).set_index("method")
    assert found.index[0] == "good" and found.index[-1] == "only once"
    assert found.loc["good", ["rank", "rank_low", "rank_high"]].tolist() == [1, 1, 1]
    assert found.loc["also", ["rank_low", "rank_high"]].tolist() == [2, 3]
    assert np.isnan(found.loc["only once", "rank"]) and found.loc["only once", "settings"] == 1
    assert found.loc["good", "settings"] == 8
    assert found.loc["good", "value"] == pytest.approx((0.85 - 0.2) / 0.8, abs=0.02)


def test_an_interval_over_settings_ends_at_the_most_there_can_be():
    numbers = pd.DataFrame({"setting": [*"stuv"], "method": "a", "value": [0.8, 1.2, 0.7, 1.1]})
    (cut,), (whole,) = (over_settings(numbers, **given).itertuples() for given in ({}, {"most": np.inf}))
    assert cut.high == 1 and whole.high == pytest.approx(2 * whole.value - whole.low) and whole.high > 1
    assert (cut.value, cut.low) == (whole.value, whole.low)


def test_one_setting_has_no_interval_over_settings():
    found = method_ranking(rows({"a": [0.3, 0.5, 0.4], "b": [0.2, 0.1, 0.2]}), METRIC)
    assert found["rank"].tolist() == [1, 2] and (found["these_low"] < found["these_high"]).all()
    assert found[["low", "high", "rank_low", "rank_high"]].isna().all(axis=None)


def test_the_two_intervals_of_a_mean_over_settings_cover_what_they_say():
    rng = np.random.default_rng(0)
    table, truth = drawn(rng, settings=6, models=3, questions=8, spread=0.2)
    found = method_ranking(table, METRIC).set_index("method").loc[truth.index]
    of_these = (found["these_low"] <= truth) & (truth <= found["these_high"])
    over = (found["low"] <= 0.5) & (found["high"] >= 0.5)
    assert 0.91 <= of_these.mean() <= 1 and 0.9 <= over.mean() <= 0.99
    assert set(found["these_over"]) == {OVER_MODELS} and set(found["these_n"]) == {18}
    # neither is the other: questions and models alone miss the mean over all settings
    assert ((found["these_low"] <= 0.5) & (found["these_high"] >= 0.5)).mean() < 0.7


def test_where_questions_leave_nothing_open_the_interval_of_these_settings_is_students():
    models = [rows({"a": [0.4 + 0.1 * seed] * 4}, setting, seed) for seed in range(3) for setting in "st"]
    (found,) = method_ranking(pd.concat(models), METRIC).itertuples()
    half = 2.7764 * (2 * (0.1 / 0.8) ** 2 / (2**2 * 3)) ** 0.5  # of four degrees of freedom, two a setting
    assert (found.these_n, found.value) == (6, pytest.approx(0.375))
    assert (found.these_low, found.these_high) == pytest.approx((0.375 - half, 0.375 + half), rel=1e-4)


def test_of_one_model_per_setting_only_questions_are_drawn_again():
    table, _ = drawn(np.random.default_rng(0), settings=3, models=1, questions=8, spread=0.2, sims=2)
    found = method_ranking(table, METRIC)
    assert set(found["these_over"]) == {OVER_QUESTIONS} and set(found["these_n"]) == {24}


def test_n_is_what_was_drawn_again():
    models = pd.concat([rows({"a": [0.3 + 0.1 * seed, 0.5]}, seed=seed) for seed in range(3)])
    found = normalised(models, METRIC).iloc[0]
    assert (found["over"], found["n"], found["questions"], found["seeds"]) == (OVER_MODELS, 3, 2, 3)
    found = normalised(rows({"a": [0.3, 0.5]}), METRIC).iloc[0]
    assert (found["over"], found["n"], found["questions"], found["seeds"]) == (OVER_QUESTIONS, 2, 2, 1)


def test_no_interval_goes_above_perfect():
    some = pd.concat([rows({"a": [0.4 + 0.3 * seed] * 4}, seed=seed) for seed in range(3)])
    found = normalised(some, METRIC)
    assert found["high"].item() == 1 and found["low"].item() < 0
    apart = pd.concat(
        [rows({"a": [value] * 4}, setting) for setting, value in zip("st", (0.6, 1), strict=True)]
    )
    assert method_ranking(apart, METRIC)["high"].item() == 1


def test_a_difference_is_over_settings_that_have_both_with_the_same_items():
    rng = np.random.default_rng(0)
    luck = rng.random(30)
    more = {"s": 0.06, "t": 0.08, "u": 0.1}
    tables = [rows({"a": luck + more[setting], "b": luck}, setting) for setting in more]
    every = pd.concat([*tables, rows({"a": luck}, "only a")])
    found, back, nowhere = method_differences(every, METRIC, [("a", "b"), ("b", "a"), ("a", "c")])
    half = 4.3027 * 0.025 / 3**0.5
    assert found.n == 3 and found[:3] == pytest.approx((0.1, 0.1 - half, 0.1 + half), rel=1e-4)
    assert back[:3] == pytest.approx((-0.1, -0.1 - half, -0.1 + half), rel=1e-4)
    assert nowhere.n == 0 and np.isnan(nowhere.value)


def test_one_question_to_three_models_is_one_question():
    table, _ = drawn(np.random.default_rng(0), settings=1, models=3, questions=12, spread=0, of_models=0)
    studies = table.assign(value=table["value"] - 0.5)
    nothing = studies[studies["method"] == "study 0"].assign(method="nothing", value=0.0)
    found = method_comparisons(pd.concat([studies, nothing]), METRIC, reference="nothing")
    assert len(found) == 200 and set(found["n"]) == {12}
    assert 0.01 <= (found["p"] < 0.05).mean() <= 0.09


def test_seeds_that_rank_alike_have_a_tau_of_one():
    order = {name: [0.3 + 0.1 * place] * 4 for place, name in enumerate("abc")}
    upside_down = {name: [0.7 - 0.1 * place] * 4 for place, name in enumerate("abc")}
    same = pd.concat([rows(order, seed=0), rows(order, seed=1)])
    other = pd.concat([rows(order, "t", 0), rows(upside_down, "t", 1), rows(order, "t", 2)])
    found = seed_stability(pd.concat([same, other, rows(order, "one seed")]), METRIC).set_index("setting")
    assert found.loc["s", ["value", "least", "pairs", "methods"]].tolist() == [1, 1, 1, 3]
    assert found.loc["t", ["value", "least"]].tolist() == pytest.approx([-1 / 3, -1])
    assert "one seed" not in found.index
