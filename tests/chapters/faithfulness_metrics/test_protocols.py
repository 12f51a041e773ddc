"""Protocols on a model whose answer is a sum over the tokens that are left: every form by its definition."""

import numpy as np
import pytest
from scipy import stats

from book.chapters.attribution_benchmark.measures import BUDGETS
from book.chapters.faithfulness_metrics.measures import FORMS, HALVES, PROTOCOLS, STEPS, called, first_tokens
from book.chapters.faithfulness_metrics.perturbation import OPERATORS, READINGS, SOFT

ITEMS, TOKENS = 6, 10


class Sum:
    """In the place of a `Case`: the answer is the sum of weights of the candidates that are left."""

    seed = 3

    def __init__(self):
        rng = np.random.default_rng(0)
        self.weights = rng.standard_normal((ITEMS, TOKENS))
        self.candidates = np.ones((ITEMS, TOKENS), dtype=bool)
        self.candidates[:, 0] = False
        self.truth = self.candidates & (np.arange(TOKENS) < 4)
        self.nothing = 0.0  # what is answered without a token

    def answers(self, operator, reading, kept):
        return self.nothing + ((kept & self.candidates[:, None]) * self.weights[:, None]).sum(-1)


@pytest.fixture
def case():
    return Sum()


def numbers(case, form, scores):
    return FORMS[form]("mask", "p", case, scores)


def sums_of_first(case, scores, n):
    """Of every item, the sum of the weights of the first n candidates by one measure."""
    values = np.where(case.candidates, scores, -np.inf)
    order = np.argsort(-values, 1)[:, :n]
    return np.take_along_axis(case.weights, order, 1).sum(1)


def test_every_form_operator_and_reading_has_a_protocol():
    assert len(PROTOCOLS) == len(FORMS) * len(OPERATORS) * len(READINGS) + len(SOFT) == 139
    assert called("LDS", "replace", "log p") in PROTOCOLS


@pytest.mark.parametrize(
    ("form", "n"), [("without the first", 1), ("without the first 3", 3), ("without the first R", 3)]
)
def test_the_drop_without_the_first_tokens_is_their_sum(case, form, n):
    scores = np.random.default_rng(1).random((ITEMS, TOKENS))
    np.testing.assert_allclose(numbers(case, form, scores[:, None])[:, 0], sums_of_first(case, scores, n))


def test_comprehensiveness_and_sufficiency_are_means_over_budgets(case):
    scores = np.random.default_rng(1).random((ITEMS, TOKENS))
    counts = [int(np.ceil(round(share * 9, 9))) for share in BUDGETS]
    expected = np.mean([sums_of_first(case, scores, n) for n in counts], axis=0)
    for form in ("comprehensiveness", "sufficiency"):
        np.testing.assert_allclose(numbers(case, form, scores[:, None])[:, 0], expected)


def test_deletion_and_insertion_are_areas_by_the_trapezoid_rule(case):
    scores = np.random.default_rng(1).random((ITEMS, TOKENS))
    counts = [0, *(int(np.ceil(round(share * 9, 9))) for share in STEPS), 9]
    there = np.array([sums_of_first(case, scores, n) for n in counts])
    whole = (case.weights * case.candidates).sum(1)
    steps = np.linspace(0, 1, len(counts))
    np.testing.assert_allclose(
        numbers(case, "insertion", scores[:, None])[:, 0], np.trapezoid(there, steps, axis=0)
    )
    np.testing.assert_allclose(
        numbers(case, "deletion", scores[:, None])[:, 0], -np.trapezoid(whole - there, steps, axis=0)
    )


def mas_by_hand(case, scores, item, inserted):
    """One curve of one question, point by point."""
    order = [k for k in np.argsort(-scores) if case.candidates[item, k]]
    weights, share = case.weights[item], scores.clip(0) / scores[order].clip(0).sum()
    total, best, curve = weights[order].sum(), float(not inserted), []
    for n in [0, *(int(np.ceil(round(part * 9, 9))) for part in STEPS), 9]:
        there = weights[order[:n]].sum() if inserted else weights[order[n:]].sum()
        response = min(1, max(0, there / total))
        best = max(best, response) if inserted else min(best, response)
        shown = share[order[:n]].sum() if inserted else share[order[n:]].sum()
        off = abs(shown - best)
        curve.append(max(0, best - off) if inserted else min(1, best + off))
    curve = np.array(curve)
    if curve.max() > curve.min():
        curve = (curve - curve.min()) / (curve.max() - curve.min())
    else:
        curve = curve * 0 + 0.5
    return np.trapezoid(curve, dx=1 / 5)


def test_mas_is_two_areas_with_a_penalty_for_what_magnitudes_do_not_say(case):
    case.weights, case.nothing = np.abs(case.weights), 2.0  # the penalty is of shares of what tokens change
    scores = np.random.default_rng(1).standard_normal((ITEMS, TOKENS))
    found = numbers(case, "MAS", scores[:, None])[:, 0]
    for item in range(ITEMS):
        curves = [mas_by_hand(case, scores[item], item, inserted) for inserted in (True, False)]
        assert found[item] == pytest.approx(curves[0] - curves[1], abs=1e-9)


def test_mas_prefers_magnitudes_that_are_those_of_the_answer(case):
    case.weights = np.abs(case.weights)
    right, flatter = case.weights, case.weights**0.1  # one order
    found = numbers(case, "MAS", np.stack([right, flatter], 1))
    assert (found[:, 0] > found[:, 1]).all()
    order_only = numbers(case, "insertion", np.stack([right, flatter], 1))
    np.testing.assert_allclose(order_only[:, 0], order_only[:, 1])


def test_mas_of_an_answer_that_needs_no_token_is_nothing(case):
    case.weights = np.zeros_like(case.weights)
    found = numbers(case, "MAS", np.random.default_rng(1).random((ITEMS, 2, TOKENS)))
    assert np.isfinite(found).all()


def test_lds_is_spearmans_correlation_over_random_halves(case):
    blank = np.ones((ITEMS, TOKENS))
    scores = np.stack(
        [case.weights, -case.weights, blank * 0, np.random.default_rng(2).random((ITEMS, TOKENS))], 1
    )
    found = numbers(case, "LDS", scores)
    np.testing.assert_allclose(found[:, :3], np.tile([1.0, -1.0, 0.0], (ITEMS, 1)), atol=1e-9)
    rng = np.random.default_rng([case.seed, HALVES])
    kept = (rng.random((ITEMS, HALVES, TOKENS)) < 0.5) & case.candidates[:, None]
    sums = (kept * scores[:, 3][:, None]).sum(-1)
    expected = [
        stats.spearmanr(*pair).statistic for pair in zip(sums, case.answers("", "", kept), strict=True)
    ]
    np.testing.assert_allclose(found[:, 3], expected, atol=1e-3)


def test_measures_that_say_nothing_have_a_coin_each(case):
    """One coin for all would give every such measure the luck of one order."""
    scores = np.zeros((ITEMS, 8, TOKENS))
    first = first_tokens(case, scores, np.full((ITEMS, 1), 2))
    assert len({each.tobytes() for each in first.swapaxes(0, 1)}) == 8
    assert (first.sum(-1) == 2).all() and not first[..., 0].any()


def test_rounding_errors_are_no_order(case):
    """A score of 1e-16 beside one of 1 says nothing."""
    scores = np.zeros((ITEMS, 1, TOKENS))
    scores[:, :, 5] = 1
    noisy = scores + 1e-16 * np.random.default_rng(0).random(scores.shape)
    counts = np.full((ITEMS, 1), 3)
    np.testing.assert_array_equal(first_tokens(case, scores, counts), first_tokens(case, noisy, counts))


def test_nan_comes_last(case):
    scores = np.random.default_rng(0).random((ITEMS, 1, TOKENS))
    scores[:, :, 4] = np.nan
    assert not first_tokens(case, scores, np.full((ITEMS, 1), 8))[..., 4].any()
