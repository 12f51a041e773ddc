"""Agreement of two scores: by definition, as the original has it, and as scipy does."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from attnlib.stats import Ragged, agreement, chance_agreement, kendall_tau, spearman, top_match, xi
from attnlib.stats.agreements import expected_chance, shuffled_agreements
from attnlib.stats.rank_measures import PAIRWISE, match_chance_rows, places
from attnlib.stats.resampling import resampled_means

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "agreement.json").read_text())


def ragged(seed, lengths, ties=False, checkpoints=None, dtype=float):
    """Random rows, with ties and infinities if asked for."""
    rng = np.random.default_rng(seed)
    shape = (sum(lengths),) if checkpoints is None else (checkpoints, sum(lengths))
    values = rng.integers(-2, 3, shape).astype(dtype) if ties else rng.normal(size=shape).astype(dtype)
    if ties:
        values[rng.random(shape) < 0.05] = -np.inf
    return Ragged(values, np.array(lengths, dtype=np.int64))


def plain_match(alpha, beta, fraction=0.05):
    """As one would say it."""
    best = max(range(len(alpha)), key=lambda index: alpha[index])
    return float(sum(value > beta[best] for value in beta) < math.ceil(round(fraction * len(beta), 9)))


rows_of_lengths = st.lists(st.integers(1, 40), min_size=1, max_size=12)


@pytest.mark.parametrize("case", GOLDEN["pairs"], ids=lambda case: f"{case['kind']} {case['n']}")
def test_pairs_agree_as_in_the_original(case):
    for percent in (1, 5, 10):
        assert top_match(case["alpha"], case["beta"], percent / 100) == case[f"top{percent}"]
    for measure, name in ((kendall_tau, "kendall"), (spearman, "spearman")):
        theirs = math.nan if case[name] is None else case[name]
        assert measure(case["alpha"], case["beta"]) == pytest.approx(theirs, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("case", GOLDEN["passing_idx"])
def test_xi_is_read_at_the_first_checkpoint_above_the_threshold(case):
    accuracies = np.arange(len(case["series"])) / 10
    theirs = None if case["idx"] is None else accuracies[case["idx"]]
    assert xi(case["series"], accuracies, case["threshold"]) == theirs


def test_xi_averages_over_runs():
    agreements, accuracies = [[0.1, 0.5, 0.9], [0.1, 0.3, 0.9]], [[0.5, 0.7, 0.9], [0.5, 0.8, 0.9]]
    assert xi(agreements, accuracies, 0.35) == pytest.approx(0.75)
    assert xi(agreements, accuracies, 0.4) == pytest.approx(0.9)  # equal is not better
    assert xi([0.1 + 0.2, 0.5], [0.7, 0.9], 0.3) == 0.9  # nor is what rounding makes larger


@settings(max_examples=40)
@given(rows_of_lengths, st.integers(0, 10**6), st.booleans(), st.sampled_from([0.05, 0.3, 1.0]))
def test_matches_are_what_the_definition_says(lengths, seed, ties, fraction):
    x, y = ragged(seed, lengths, ties), ragged(seed + 1, lengths, ties)
    found = top_match(x, y, fraction)
    plainly = [plain_match(a, b, fraction) for a, b in zip(x.rows(), y.rows(), strict=True)]
    np.testing.assert_array_equal(found, plainly)


@settings(max_examples=20)
@given(rows_of_lengths, st.integers(0, 10**6), st.booleans(), st.sampled_from(["f4", "f8"]))
def test_correlations_are_scipys(lengths, seed, ties, dtype):
    x, y = ragged(seed, lengths, ties, dtype=dtype), ragged(seed + 1, lengths, ties, dtype=dtype)
    for ours, scipys in ((kendall_tau, stats.kendalltau), (spearman, stats.spearmanr)):
        with np.errstate(all="ignore"):
            theirs = [
                scipys(a, b).statistic if len(a) > 1 and np.ptp(stats.rankdata(a)) * np.ptp(stats.rankdata(b))
                else np.nan
                for a, b in zip(x.rows(), y.rows(), strict=True)
            ]  # fmt: skip
        np.testing.assert_allclose(ours(x, y), theirs, atol=1e-12)


def test_long_rows_are_scipys_too():
    lengths = [PAIRWISE - 1, PAIRWISE, PAIRWISE + 1, PAIRWISE + 300, 3]
    x, y = ragged(0, lengths, ties=True), ragged(1, lengths, ties=True, checkpoints=2)
    theirs = [
        [stats.kendalltau(a, b).statistic for a, b in zip(x.rows(), y.at(t).rows(), strict=True)]
        for t in range(2)
    ]
    np.testing.assert_allclose(kendall_tau(x, y), theirs, atol=1e-12)


@settings(max_examples=12)
@given(rows_of_lengths, st.integers(0, 10**6), st.booleans())
def test_checkpoints_at_once_are_checkpoints_one_by_one(lengths, seed, ties):
    x, y = ragged(seed, lengths, ties), ragged(seed + 1, lengths, ties, checkpoints=3)
    for measure in (top_match, kendall_tau, spearman):
        one_by_one = np.stack([measure(x, y.at(t)) for t in range(3)])
        np.testing.assert_array_equal(measure(x, y), one_by_one)
    np.testing.assert_array_equal(top_match(y, x), [top_match(y.at(t), x) for t in range(3)])
    np.testing.assert_array_equal(top_match(y, y), [top_match(y.at(t), y.at(t)) for t in range(3)])


@settings(max_examples=12)
@given(rows_of_lengths, st.integers(0, 10**6))
def test_rows_do_not_care_about_their_neighbours_padding_or_order(lengths, seed):
    x, y = ragged(seed, lengths), ragged(seed + 1, lengths)
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    padded = []
    for each in (x, y):
        rectangle = torch.full(mask.shape, 99.0, dtype=torch.float64)  # what lies on padding is not looked at
        rectangle[torch.tensor(mask)] = torch.tensor(each.values)
        padded.append(rectangle)
    order = np.random.default_rng(seed).permutation(len(lengths))
    for measure in (top_match, kendall_tau, spearman):
        np.testing.assert_array_equal(measure(*padded, mask=torch.tensor(mask)), measure(x, y))
        np.testing.assert_array_equal(measure(x.take(order), y.take(order)), measure(x, y)[order])
        np.testing.assert_array_equal(measure(x.rows(), y.rows()), measure(x, y))


def test_conventions():
    assert top_match([0.25] * 4, [3.0, 1.0, 2.0, 0.0]) == 1  # uniform attention looks at the first token
    assert top_match([0.25] * 4, [1.0, 3.0, 2.0, 0.0]) == 0
    assert top_match([0.1, 0.9], [7.0, 7.0]) == 1  # constant beta always matches
    assert top_match([0.1, 0.9], [7.0, 6.0]) == 0
    assert top_match([0.3], [-5.0]) == 1
    assert np.isnan(kendall_tau([0.3], [1.0])) and np.isnan(spearman([0.5, 0.5], [1.0, 2.0]))
    assert np.isnan(kendall_tau([1.0, 2.0], [0.5, 0.5]))
    assert isinstance(top_match([0.1, 0.9], [0.0, 1.0]), int)
    assert isinstance(kendall_tau(torch.tensor([0.1, 0.9]), torch.tensor([0.0, 1.0])), float)


@pytest.mark.parametrize("measure", [top_match, kendall_tau, spearman])
def test_a_column_is_a_vector_whatever_its_rows_are_called(measure):
    table = pd.DataFrame({"x": [0.0, 1.0, 3.0, 2.0], "y": [0.0, 3.0, 1.0, 2.0]})[1:]
    assert measure(table["x"], table["y"]) == measure([1.0, 3.0, 2.0], [3.0, 1.0, 2.0])


def test_rows_without_tokens_or_with_nan_have_no_value_and_do_not_count():
    x = Ragged.from_rows([[], [0.2, 0.8], [0.5, np.nan], [0.4, 0.6], []])
    y = Ragged.from_rows([[], [1.0, 2.0], [1.0, 2.0], [np.nan, 2.0], []])
    for measure in (top_match, kendall_tau, spearman):
        np.testing.assert_array_equal(measure(x, y), [np.nan, 1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(match_chance_rows(y), [np.nan, 0.5, 0.5, np.nan, np.nan])
    assert agreement(x, y)[::3] == (1.0, 1)


def test_places_are_those_of_the_exact_product():
    lengths = np.arange(1, 400)
    for percent in (1, 5, 7, 10, 15, 20):
        exact = -(-percent * lengths // 100)
        np.testing.assert_array_equal(places(lengths, percent / 100), exact)
        in_floats = [math.ceil(percent / 100 * n) for n in lengths.tolist()]
        differ = [[percent, n] for n, a, b in zip(lengths.tolist(), in_floats, exact, strict=True) if a != b]
        assert differ == [each for each in GOLDEN["ceil_float_mismatch_p_n"] if each[0] == percent]


def test_chance_is_exact_and_the_shuffles_find_it():
    lengths = [1, 2, 5, 21, 40, 40, 33]
    x, y = ragged(0, lengths), ragged(1, lengths, ties=True)
    exact = match_chance_rows(y, 0.1)
    rng = np.random.default_rng(0)
    for row, (a, b) in enumerate(zip(x.rows(), y.rows(), strict=True)):
        real = np.mean([plain_match(a, rng.permutation(b), 0.1) for _ in range(500)])
        assert abs(real - exact[row]) < 5 * np.sqrt(max(exact[row] * (1 - exact[row]), 1e-4) / 500)
    estimate = chance_agreement(x, y, fraction=0.1, shuffles=4000)
    assert abs(estimate.value - exact.mean()) < 2.6 * (estimate.high - estimate.low)
    spread = shuffled_agreements(x, y, fraction=0.1, shuffles=4000).std()
    assert spread == pytest.approx(np.sqrt((exact * (1 - exact)).sum()) / len(exact), rel=0.1)
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * spread / np.sqrt(4000), rel=1e-3)
    assert estimate == chance_agreement(x, y, fraction=0.1, shuffles=4000)  # seeded


@pytest.mark.parametrize("measure", ["kendall", "spearman"])
def test_rank_correlations_are_zero_by_chance(measure):
    lengths = [5, 21, 40, 40, 33]
    x, y = ragged(0, lengths), ragged(1, lengths, ties=True)
    estimate = chance_agreement(x, y, measure, shuffles=100)
    assert abs(estimate.value) < 2 * (estimate.high - estimate.low) < 0.2
    assert not expected_chance(y, measure).any()


def test_intervals_of_groups_are_wider_where_groups_agree_among_themselves():
    groups = np.repeat(np.arange(50), 8)
    values = np.random.default_rng(0).random(50)[groups, None]
    alone, together = (resampled_means(values, each).column(0).estimate() for each in (None, groups))
    assert alone.value == together.value
    width = together.high - together.low
    assert width == pytest.approx(np.sqrt(8) * (alone.high - alone.low), rel=0.15)
    assert width == pytest.approx(2 * 1.96 * np.sqrt(1 / 12 / 50), rel=0.2)
