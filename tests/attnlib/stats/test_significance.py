"""Comparisons: against the original's figures, against their definitions, and how often they cry wolf."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from attnlib.stats import compare, comparison_table, corrected
from attnlib.stats.significance import NOT_ENOUGH

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "statistics.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["compare"], ids=lambda case: case["name"])
def test_the_published_comparison_is_the_originals(case):
    ours, theirs = compare(case["p1"], case["p2"], as_published=True), case["out"]
    if theirs["p_value"] is None:
        assert (ours.statistic, ours.df, ours.p) == (None, None, None) and "equal" in ours.problem
        return
    found = (ours.statistic, ours.df, ours.p)
    np.testing.assert_allclose(found, [theirs[name] for name in ("t_stat", "df", "p_value")], rtol=1e-9)
    for mean, name in ((ours.first, "percentages1"), (ours.second, "percentages2")):
        assert mean == pytest.approx(theirs.get("statistics", {}).get(name, {}).get("mean", mean))


def test_the_default_is_welch_on_sample_means_with_the_published_beside_it():
    case = GOLDEN["compare"][0]
    found = compare(case["p1"], case["p2"])
    means = [[np.mean(sample) for sample in case[name]] for name in ("p1", "p2")]
    expected = stats.ttest_ind(*means, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue) and found.df == pytest.approx(expected.df)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert found.difference == pytest.approx(np.mean(means[0]) - np.mean(means[1]))
    assert found.samples == (3, 2) and found.rows == (12, 8)
    assert found.published == compare(case["p1"], case["p2"], as_published=True)
    assert found.published.p == pytest.approx(case["out"]["p_value"]) and found.p > 0.2
    assert found.test == "Welch's t-test on sample means"


def test_hedges_g_by_hand():
    first, second = [1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0]
    pooled = np.sqrt((3 * np.var(first, ddof=1) + 2 * np.var(second, ddof=1)) / 5)
    found = compare(first, second)
    assert found.effect == pytest.approx((2.5 - 4) / pooled * (1 - 3 / (4 * 7 - 9)))
    assert found.effect_low < found.effect < found.effect_high


def test_the_effects_interval_covers_as_often_as_it_says():
    rng, true, covered = np.random.default_rng(0), 0.8, 0
    for _ in range(300):
        found = compare(rng.normal(true, 1, 25), rng.normal(0, 1, 25))
        covered += found.effect_low <= true <= found.effect_high
    assert 0.92 <= covered / 300 <= 0.98


def test_paired_runs_are_tested_on_differences():
    rng = np.random.default_rng(0)
    before = rng.random((20, 6))
    after = before + 0.05 + 0.02 * rng.random((20, 6))
    found = compare(after, before, paired=True)
    expected = stats.ttest_rel(after.mean(1), before.mean(1))
    assert found.p == pytest.approx(expected.pvalue) and found.difference == pytest.approx(
        (after - before).mean()
    )
    assert found.p < 1e-6 < 0.01 < compare(after, before).p
    after[3] = np.nan
    assert compare(after, before, paired=True).samples == (19, 19)


def test_all_forms_of_a_run_are_the_same_run():
    rows = [[0.1, 0.2], [0.7], [0.3, 0.5, 0.4], []]
    padded = np.full((4, 4), np.nan)
    for sample, values in enumerate(rows):
        padded[sample, : len(values)] = values
    other = [0.9, 0.8, 0.5]
    forms = [rows, padded, torch.tensor(padded), [torch.tensor(each) for each in rows], pd.Series(rows)]
    found = [compare(form, other) for form in forms]
    assert all(each.p == pytest.approx(found[0].p) and each.samples == (3, 3) for each in found)
    means = [np.mean(each) if each else np.nan for each in rows]
    assert compare(means, other).p == pytest.approx(found[0].p)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ([], [0.5, 0.6], "first group has 0 of at least 2 samples"),
        ([[], [np.nan]], [0.5, 0.6], "first group has 0"),
        ([0.5, 0.6], [[0.1, 0.2]], "second group has 1 of"),
        ([0.5, 0.5], [1.0, 1.0 + 1e-9], "equal"),
    ],
)
def test_too_little_is_said_and_not_computed(first, second, says):
    found = compare(first, second)
    assert found.p is None and found.difference is None and says in found.problem


def test_a_group_without_spread_is_compared_without_a_warning(recwarn):
    assert compare([1.0, 1.0, 1.0], [0.4, 0.5, 0.6]).p < 0.05
    assert not recwarn.list
    paired = compare([0.5, 0.6, 0.7], [0.4, 0.5, 0.6], paired=True)
    assert paired.p is None and "same amount" in paired.problem


def run_of(rng: np.random.Generator, samples: int = 30, rows: int = 20) -> np.ndarray:
    """As much spread between samples as within them."""
    return 0.5 + 0.15 * rng.normal(size=(samples, 1)) + 0.15 * rng.normal(size=(samples, rows))


def test_corrections_by_hand():
    p = np.array([0.01, np.nan, 0.04, 0.03])
    np.testing.assert_allclose(corrected(p), [0.03, np.nan, 0.06, 0.06])
    assert np.isnan(corrected(np.array([np.nan]))).all() and len(corrected(np.zeros(0))) == 0


def test_the_table_shows_both_tests_and_no_nan():
    rng = np.random.default_rng(0)
    comparisons = {
        ("addition", "ID, OOD"): compare(run_of(rng) + 0.2, run_of(rng)),
        ("reversal", "ID, OOD"): compare(run_of(rng), run_of(rng)),
        ("successor", "ID, OOD"): compare([], run_of(rng)),
        ("addition", "right, wrong"): compare(run_of(rng), run_of(rng)),
    }
    table = comparison_table(comparisons, names=["task", "groups"])
    assert not table.isna().any().any()
    assert table["differs"].tolist() == ["yes", "no", NOT_ENOUGH, "no"]
    assert table.loc[0, "p_holm"] == pytest.approx(3 * table.loc[0, "p"])
    assert table.loc[2, "p"] == NOT_ENOUGH and "0 of at least 2" in table.loc[2, "note"]
    first = comparisons["addition", "ID, OOD"]
    assert table.loc[0, "published_p"] == first.published.p and table.loc[0, "published_differs"] == "yes"


def test_two_pairs_have_a_test_and_no_effect():
    found = compare([0.9, 0.8], [0.1, 0.2], paired=True)
    assert 0 < found.p < 0.2 and np.isnan([found.effect, found.effect_low, found.effect_high]).all()
    assert not np.isnan(compare([0.9, 0.8, 0.9], [0.1, 0.2, 0.3], paired=True).effect)


def test_half_precision_is_compared_as_it_is():
    first, second = torch.rand(5, 4).bfloat16(), torch.rand(5, 4).bfloat16()
    assert compare(first, second) == compare(first.float(), second.float())


def test_numbers_whose_squares_are_none_are_refused():
    small, large = (compare(scale * np.arange(1.0, 4), scale * np.arange(2.0, 6)) for scale in (1e-90, 1e90))
    assert small.p == pytest.approx(large.p) and 0 < small.p < 1
    assert compare([0.0, 0.0], [0.0, 0.0]).problem


@pytest.mark.parametrize("paired", [False, True])
def test_numbers_that_nearly_agree_are_not_called_equal(paired):
    offset = 1e6
    first, second = np.array([0.1, 0.2, 0.4]), np.array([0.5, 0.8, 0.7])
    found = compare(offset + first, offset + second, paired=paired)
    assert found.p is None and "up to rounding" in found.problem and "subtract a constant" in found.problem
    assert compare(first, second, paired=paired).p is not None, "as the problem says"
    equal = compare([1.0, 1.0], [2.0, 2.0], paired=paired).problem
    assert "rounding" not in equal
