"""Taking a part of every token: shares by hand, channels by hand, and what fails where the share is free."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib.attribution.stream import passing
from book.chapters.faithfulness_metrics import perturbation
from book.chapters.faithfulness_metrics.perturbation import SOFT, Case, at_share, from_0_to_1, softly
from tests.chapters.faithfulness_metrics.test_perturbation import model, questions
from tests.parameters import smallest


def test_scores_from_0_to_1_by_hand():
    scores = np.array([[[2.0, 4.0, 3.0, 100.0], [np.nan, -1.0, 1.0, 0.0], [5.0, 5.0, 5.0, 0.0]]])
    candidates = np.array([[True, True, True, False]])
    expected = [[0, 1, 0.5, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(from_0_to_1(scores, candidates)[0], expected, atol=1e-5)


def test_a_share_by_hand():
    candidates = np.array([[True] * 4 + [False]])
    a = np.array([[[1.0, 0.5, 0.5, 0.0, 0], [1.0, 0.2, 0.2, 0.2, 0], [1.0, 0, 0, 0, 0], [0.0, 0, 0, 0, 0]]])
    expected = [
        [1, 0.5, 0.5, 0, 0],
        [1, 1 / 3, 1 / 3, 1 / 3, 0],
        [1, 1 / 3, 1 / 3, 1 / 3, 0],
        [0.5] * 4 + [0],
    ]
    np.testing.assert_allclose(at_share(a, candidates)[0], expected, atol=1e-6)


@given(st.integers(0, 2**31), st.integers(2, 12), st.floats(0.1, 0.9))
def test_a_share_is_kept_and_so_is_the_order(seed, n, share):
    rng = np.random.default_rng(seed)
    candidates = np.ones((1, n), dtype=bool)
    a = from_0_to_1(rng.standard_normal((1, 3, n)), candidates)
    found = at_share(a, candidates, share)
    np.testing.assert_allclose(found.mean(-1), share, atol=1e-6)
    assert (found >= 0).all() and (found <= 1).all()
    for one, other in zip(a[0], found[0], strict=True):
        assert (np.diff(other[np.argsort(one)]) >= -1e-9).all()


def by_hand(asked, q, item, kept):
    """The probability of the answer with these channels of the embeddings, in one pass of one prompt."""
    n, query = int(q.attention_mask[item].sum()), int(q.query[item])
    with torch.no_grad(), passing(asked, lambda embedded: embedded * kept[None, :n]):
        return float(asked(q.input_ids[item, :n][None]).logits[0, query].softmax(-1)[q.target[item]])


@pytest.mark.parametrize("kind", ["two-sided", "causal", "gpt2"])
def test_all_or_no_channel_is_done_by_hand(kind):
    asked, q = model(kind), questions(kind != "two-sided")
    case = Case(asked, q, batch_size=3)
    stay = (np.random.default_rng(0).random((4, 5, 6)) < 0.5).astype(float)
    found = softly(case, stay)
    for item, variant in np.ndindex(4, 5):
        whole = ~q.candidates[item] | torch.from_numpy(stay[item, variant] > 0)
        assert found[item, variant] == pytest.approx(by_hand(asked, q, item, whole[:, None]), abs=1e-5)


def test_the_mean_of_many_draws_is_the_expectation():
    asked, q = model("causal"), questions(True)
    case = Case(asked, q, draws=60)
    stay = np.full((4, 1, 6), 0.3)
    rng = torch.Generator().manual_seed(1)
    other = np.mean(
        [
            by_hand(asked, q, 0, (torch.rand(6, 16, generator=rng) < 0.3) | ~q.candidates[0][:, None])
            for _ in range(300)
        ]
    )
    assert softly(case, stay)[0, 0] == pytest.approx(other, abs=0.05)


def test_soft_sufficiency_and_comprehensiveness_by_hand(monkeypatch):
    """On an answer that is sure with one token, and grows with what stays of it."""
    case = Case(model("two-sided"), questions(False))
    needed = np.zeros(case.candidates.shape)
    needed[:, 1] = 1.0
    monkeypatch.setattr(
        perturbation, "softly", lambda case, stay: 0.2 + 0.6 * (stay * needed[:, None]).sum(-1)
    )
    scores = np.stack([needed, case.candidates * (1 - needed), case.candidates * 1.0], 1)
    assert SOFT["Soft-NS"](case, scores)[:, :2].tolist() == [[pytest.approx(1), pytest.approx(0)]] * 4
    assert SOFT["Soft-NC"](case, scores)[:, :2].tolist() == [[pytest.approx(1), pytest.approx(0)]] * 4


@pytest.mark.parametrize(("name", "more"), [("Soft-NS", 1), ("Soft-NC", 0)])
def test_a_measure_that_scores_high_everywhere_keeps_more_unless_the_share_is_fixed(name, more, monkeypatch):
    """Or loses more, of comprehensiveness, which keeps the rest."""
    case = Case(model("causal"), questions(True))
    kept = []
    monkeypatch.setattr(perturbation, "softly", lambda case, stay: kept.append(stay) or stay.mean(-1))
    places = np.arange(6.0)
    modest, generous = (np.broadcast_to(each, case.candidates.shape) for each in (places**4, places**0.2))
    for each in (name, f"{name} at a fixed share"):
        SOFT[each](case, np.stack([modest, generous], 1))
    free, fixed = ((each[:, 2:] * case.candidates[:, None]).sum(-1) for each in kept)
    assert (free[:, more] > 1.2 * free[:, 1 - more]).any()
    np.testing.assert_allclose(fixed[:, 0], fixed[:, 1], atol=1e-6)


def test_what_a_compiled_models_norm_rests_on_stays():
    """Two channels of its positions hold a large constant; without them every output is another."""
    p = smallest("faithfulness_metrics", settings=["hist, compiled"])
    (case,) = p.cases(progress=False).values()
    assert case.model.positions.abs().max() > 1000 and case.model.embedding.weight.abs().max() < 10
    everything, nothing = softly(
        case, np.ones((len(case.truth), 2, case.truth.shape[1])) * [[[1.0], [0.0]]]
    ).T
    assert (everything > 0.99).all() and np.isfinite(nothing).all() and (nothing < 0.99).any()
