"""Predictions about random programs: each can come out both ways, by numbers worked out beside it."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from attnlib.benchmarking.metrics import agreement_rows, published_metrics
from attnlib.benchmarking.population import draw
from attnlib.benchmarking.questions import TRUTHS
from attnlib.benchmarking.scoring import COMPARED, features
from book.chapters.findings.finding import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from book.chapters.programs import predictions, sentences
from book.chapters.programs.measures import METRICS, judge
from book.chapters.programs.predictions import PREDICTIONS, answered, welch
from book.chapters.programs.tables import (
    beside_trained,
    by_truth,
    effects,
    gain_of_absolute,
    metric_table,
    orders,
)

SEEDS = range(40)


def made_up(
    means: dict[str, float], noise: float = 0.02, absolute: float = 0.3, seed: int = 0
) -> pd.DataFrame:
    """Rows as `rows_of` gives them, every method about its mean (.5 unless said)."""
    rng = np.random.default_rng(seed)
    found = []
    for method in COMPARED:
        for truth in TRUTHS:
            values = means.get(method, 0.5) + noise * rng.standard_normal(len(SEEDS))
            for sign, more in (("as given", 0.0), ("absolute", absolute)):
                found += [
                    (seed, method, truth, sign, value + more, 8)
                    for seed, value in zip(SEEDS, values, strict=True)
                ]
    return pd.DataFrame(found, columns=["seed", "method", "truth", "sign", "value", "n"])


def metrics_with(first: float) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    better = {predictions.SUPPORTED, "comprehensiveness, mask, log p"}
    return pd.DataFrame(
        [
            (seed, name, truth, (first if name in better else 0.5) + 0.02 * rng.standard_normal(), 8)
            for seed in SEEDS
            for name in METRICS
            for truth in TRUTHS
        ],
        columns=["seed", "metric", "truth", "value", "n"],
    )


def as_expected() -> dict[str, pd.DataFrame]:
    rows = made_up(
        {
            "rollout": 0.6,
            "mean attention": 0.55,
            "raw attention, last layer": 0.3,
            "gradient norm": 0.8,
            "activation patching": 0.9,
        }
    )
    spread = rows["method"].map({name: 0.002 * k for k, name in enumerate(COMPARED)})
    table = features(SEEDS).set_index("seed")
    counts, turned = (rows["seed"].map(table[name]).astype(bool) for name in ("counts", "rotated"))
    rows["value"] += spread - 0.2 * (counts & (rows["method"] == "AttnLRP"))
    rows["value"] -= 0.2 * (turned & (rows["method"] == "ALTI"))
    return {
        "compiled": rows,
        "metrics": metrics_with(0.7),
        "trained": rows.assign(value=rows["value"] - 0.01),
    }


def against() -> dict[str, pd.DataFrame]:
    rows = made_up(
        {
            "rollout": 0.5,
            "mean attention": 0.2,
            "raw attention, last layer": 0.7,
            "gradient norm": 0.3,
            "activation patching": 0.1,
        },
        absolute=0.0,
    )
    table = features(SEEDS).set_index("seed")
    counts, turned = (rows["seed"].map(table[name]).astype(bool) for name in ("counts", "rotated"))
    rows["value"] += 0.2 * (counts & (rows["method"] == "AttnLRP"))
    rows["value"] += 0.2 * (turned & (rows["method"] == "ALTI"))
    place = {name: k for k, name in enumerate(COMPARED)}
    rows.loc[rows["sign"] == "as given", "value"] += rows["method"].map(place) * 0.0001
    upside_down = rows.assign(value=-rows["value"])
    upside_down.loc[upside_down["method"] == "raw attention, last layer", "value"] = 0.9
    upside_down.loc[upside_down["method"] == "activation patching", "value"] = -0.9
    return {"compiled": rows, "metrics": metrics_with(0.3), "trained": upside_down}


SEED_OF_NOISE = 1


def open_still() -> dict[str, pd.DataFrame]:
    rows = made_up({}, noise=1.0, absolute=0.1, seed=SEED_OF_NOISE)
    rows.loc[rows["sign"] == "absolute", "value"] += np.random.default_rng(2).standard_normal(
        (rows["sign"] == "absolute").sum()
    )
    noisy = metrics_with(0.5)
    return {"compiled": rows, "metrics": noisy}


def test_every_prediction_can_be_reproduced() -> None:
    found = [*answered(**as_expected())]
    assert len(found) == len(PREDICTIONS)
    wrong = [each.words for each, answer in found if answer.verdict != REPRODUCED and answer.units != "pairs"]
    assert wrong == []


def test_every_prediction_can_fail() -> None:
    wrong = [each.words for each, answer in answered(**against()) if answer.verdict != NOT_REPRODUCED]
    assert wrong == []


def test_noise_leaves_predictions_open() -> None:
    answers = [answer for _, answer in answered(**open_still()) if answer.units != "pairs"]
    assert {answer.verdict for answer in answers} == {INCONCLUSIVE}


def test_a_lead_is_students_over_programs_of_more_than_one_layer() -> None:
    rows = as_expected()["compiled"]
    answer = PREDICTIONS[0].answer(rows)
    deep = [seed for seed in SEEDS if draw(seed).n_layers > 1]
    plain = rows[(rows["sign"] == "as given") & (rows["truth"] == "reads")]
    wide = plain.pivot(index="seed", columns="method", values="value").loc[deep]
    lead = wide["rollout"] - wide["raw attention, last layer"]
    low, high = scipy.stats.t.interval(0.95, len(lead) - 1, lead.mean(), scipy.stats.sem(lead))
    assert (answer.value, answer.low, answer.high) == pytest.approx((lead.mean(), low, high))
    assert answer.n == len(deep) < len(SEEDS)


def test_pairs_are_counted_after_holms_correction() -> None:
    rows = as_expected()["compiled"]
    plain = rows[(rows["sign"] == "as given") & (rows["truth"] == "reads")]
    wide = plain.pivot(index="seed", columns="method", values="value")
    p = sorted(scipy.stats.ttest_rel(wide[a], wide[b]).pvalue for a, b in combinations(wide, 2))
    passed = 0
    while passed < len(p) and p[passed] * (len(p) - passed) < 0.05:
        passed += 1
    answer = predictions.pairs(rows)
    assert (answer.value, answer.n) == (passed, 253)


def test_the_order_of_methods_is_compared_by_kendalls_tau_of_their_means() -> None:
    compiled = as_expected()["compiled"]
    trained = made_up({name: k / 50 for k, name in enumerate(COMPARED)}, noise=0.3)
    answer = predictions.same_order(trained, compiled)
    chosen = [
        rows[(rows["sign"] == "as given") & (rows["truth"] == "causes")].groupby("method")["value"].mean()
        for rows in (trained, compiled)
    ]
    tau = scipy.stats.kendalltau(chosen[0], chosen[1].reindex(chosen[0].index)).statistic
    assert answer.value == pytest.approx(tau) and answer.low < answer.value < answer.high
    assert predictions.same_order(compiled, compiled).value == 1


def test_welchs_interval() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(1, 1, 30), rng.normal(0, 2, 50)
    test = scipy.stats.ttest_ind(first, second, equal_var=False)
    found = welch(first, second)
    assert found.value == pytest.approx(first.mean() - second.mean()) and found.n == 80
    assert (found.low > 0) == (test.pvalue < 0.05 and found.value > 0)


def test_tables_hold_means_over_programs() -> None:
    rows = as_expected()["compiled"]
    first = by_truth(rows)
    assert first["method"].iloc[0] == "activation patching"
    some = (first["method"] == "rollout") & (first["truth"] == "causes")
    own = rows[(rows["method"] == "rollout") & (rows["truth"] == "causes") & (rows["sign"] == "as given")]
    assert first.loc[some, "value"].item() == pytest.approx(own["value"].mean())
    gains = gain_of_absolute(rows)
    assert np.allclose(gains["value"], 0.3) and set(gains["n"]) == {len(SEEDS)}
    found = effects(rows, ["AttnLRP", "rollout"]).set_index(["method", "feature"])
    assert found.loc[("AttnLRP", "counts"), "value"] == pytest.approx(-0.2, abs=0.03)
    assert abs(found.loc[("rollout", "counts"), "value"]) < 0.03
    both = beside_trained(rows[rows["seed"] < 10], rows)
    assert set(both["n"]) == {10} and set(both["weights"]) == {"compiled", "trained"}


def test_metrics_rank_methods_of_a_program_by_what_they_take_away() -> None:
    chosen = {name: METRICS[name] for name in (predictions.USUAL, predictions.SUPPORTED)}
    rows = agreement_rows([1], partial(judge, metrics=chosen))
    assert set(rows["metric"]) == set(chosen) and set(rows["truth"]) == set(TRUTHS)
    assert rows["value"].between(-1, 1).all() and (rows["value"] != 0).all()


def test_recorded_agreement_of_metrics_is_found_again() -> None:
    now = agreement_rows([1000, 1001], judge)
    before = published_metrics([1000, 1001])
    both = now.merge(before, on=["seed", "metric", "truth"], suffixes=("", "_before"))
    assert len(both) == len(now) == 2 * 24 * 2
    np.testing.assert_allclose(both["value"], both["value_before"], rtol=0, atol=1e-9)


def test_a_table_of_metrics_has_every_form_way_and_truth() -> None:
    table = metric_table(metrics_with(0.7))
    assert len(table) == 6 * 4 * 2
    best = table[table["metric"] == predictions.SUPPORTED]
    assert best["value"].tolist() == pytest.approx([0.7, 0.7], abs=0.02)


def test_clauses_follow_their_numbers() -> None:
    assert set(sentences.ORDER) == {REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE}
    for clause in ("order clause", "order headline", "summary order"):
        assert len({each[clause] for each in sentences.ORDER.values()}) == 3
    same, other = {"reads": "rollout", "causes": "rollout"}, {"reads": "rollout", "causes": "flow"}
    assert sentences.summary_clause(same) != sentences.summary_clause(other)
    scores = pd.Series({"trained": 0.8, "compiled": 0.4})
    with_plain = [pd.concat([scores, pd.Series({"compiled, plain": value})]) for value in (0.42, 0.6, 0.78)]
    plain = [sentences.plain_clause(each) for each in with_plain]
    assert len(set(plain)) == 3 and sentences.plain_clause(scores) == ""
    assert sentences.settings_clause(0, 210, 14) != sentences.settings_clause(3, 210, 14)
    rows = pd.DataFrame({"now": [0.5, 0.25], "recorded": [0.5, 0.25]})
    assert sentences.found_again(rows) == "every score is as recorded"
    assert sentences.found_again(rows.assign(now=[0.5, 0.3])) == "1 of 2 scores are as recorded"
    assert sentences.found_again(rows[:0]) == "none of them is recorded"


def test_orders_of_populations_are_compared_and_the_most_alike_come_first() -> None:
    """Three methods: in one population A, B, C; in the second the same order, in the third the reverse."""
    methods = ["A", "B", "C"]
    first = pd.DataFrame([[0.9, 0.5, 0.1]] * 4, columns=methods)
    second = pd.DataFrame([[0.8, 0.7, 0.6], [0.6, 0.5, 0.4]], columns=methods)
    third = pd.DataFrame([[0.0, 0.1, 0.2]], columns=methods)
    table = orders({"first": first, "second": second, "third": third})
    assert table[["population", "and"]].iloc[0].tolist() == ["first", "second"]
    found = table.set_index(["population", "and"])
    assert found["n"].to_dict() == {("first", "second"): 6, ("first", "third"): 4, ("second", "third"): 2}
    assert found["value"].to_numpy() == pytest.approx([1, -1, -1])
    assert found["low"].to_numpy() == pytest.approx(found["value"].to_numpy())
