"""Measures that hide many tokens at once: against captum, the long way, and models whose answer is known."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.attribution import Prompts, attribute, learned_heads
from attnlib.attribution.learned import attention_of_heads
from attnlib.attribution.perturbation import blank_out
from attnlib.attribution.surrogate import answers, coalitions, halves, logit, players, shapley, sparse
from attnlib.models import Transformer, TransformerConfig

IDS = torch.randint(11, (3, 6), generator=torch.Generator().manual_seed(2))


def made(causal=True, norm="pre"):
    torch.manual_seed(0)
    sizes = {"n_layers": 2, "n_heads": 2, "width": 16, "max_length": 12}
    return Transformer(TransformerConfig(11, causal=causal, norm=norm, **sizes)).eval()


def without(model, ids, gone, query):
    """The log probabilities where some tokens are masked, as the model itself masks them."""
    mask = torch.ones(1, len(ids), dtype=torch.bool)
    mask[0, list(gone)] = False
    with torch.no_grad():
        places = torch.arange(len(ids))[None]
        return model(ids[None], attention_mask=mask, position_ids=places).logits[0, query].log_softmax(-1)


@pytest.mark.parametrize("causal", [True, False])
def test_answers_are_those_of_a_model_with_a_mask(causal):
    model, prompts = made(causal), Prompts(IDS, 3, torch.tensor([4, 5, 6]), torch.tensor([1, 1, 2]))
    seen = players(model, prompts)
    assert seen == ([0, 1, 2] if causal else [0, 1, 2, 4, 5])
    kept = halves(7, len(seen), 0)
    found = answers(model, prompts, seen, kept, batch_size=3)
    for row, variant in np.ndindex(3, 7):
        gone = [place for place, stays in zip(seen, kept[variant], strict=True) if not stays]
        log_p = without(model, IDS[row], gone, 3)
        expected = log_p[prompts.target[row]] - log_p[prompts.foil[row]]
        assert found[row, variant] == pytest.approx(float(expected), abs=1e-5)


def test_one_token_left_out_is_blank_out():
    model, prompts = made(), Prompts(IDS, 5, torch.tensor([4, 5, 6]))
    kept = np.concatenate([np.ones((1, 5), bool), ~np.eye(5, dtype=bool)])
    found = answers(model, prompts, players(model, prompts), kept)
    expected = blank_out(model, IDS, target=prompts.target)[:, :5]
    torch.testing.assert_close(found[:, :1] - found[:, 1:], expected, atol=1e-4, rtol=1e-4)


def test_kernel_shap_of_all_subsets_is_captums_shapley_values():
    captum = pytest.importorskip("captum.attr")
    model, target = made(), 7

    def answer(there):
        gone = [[k for k in range(4) if not row[k] > 0.5] for row in there]
        return torch.stack([without(model, IDS[0, :5], each, 4)[target] for each in gone])

    expected = captum.ShapleyValues(answer).attribute(torch.ones(1, 4), perturbations_per_eval=1)[0]
    found = attribute(model, IDS[0, :5], method="KernelSHAP", target=target)
    torch.testing.assert_close(found[:4], expected.float(), atol=1e-4, rtol=1e-4)
    assert found[4] == 0


@settings(max_examples=30)
@given(st.integers(2, 20), st.integers(0, 2**31))
def test_shapley_values_of_a_sum_are_its_terms_and_all_sums_are_kept(n, seed):
    kept, weights = coalitions(128, n, 0)
    assert len(kept) == len(weights) + 2 <= 130 and not kept[0].any() and kept[1].all()
    rng = np.random.default_rng(seed)
    terms = rng.standard_normal(n)
    np.testing.assert_allclose(shapley(kept, 3 + kept @ terms, weights), terms, atol=1e-8)
    v = rng.standard_normal(len(kept))
    assert shapley(kept, v, weights).sum() == pytest.approx(v[1] - v[0])


def test_drawn_subsets_come_with_their_complements_and_sizes_as_the_kernel_says():
    n = 30
    kept = coalitions(4000, n, 0)[0][2:]
    np.testing.assert_array_equal(kept[:2000], ~kept[2000:])
    sizes = np.bincount(kept.sum(1), minlength=n)[1:n] / len(kept)
    chance = 1 / (np.arange(1, n) * (n - np.arange(1, n)))
    np.testing.assert_allclose(sizes, chance / chance.sum(), atol=0.03)


def test_context_cite_is_the_lasso_by_proximal_gradients():
    rng = np.random.default_rng(0)
    kept = halves(64, 10, 0)
    v = kept @ np.array([3.0, 0, 0, -2, 0, 0, 0, 0, 0.5, 0]) + 0.3 * rng.standard_normal(64) + 7
    sd, scale, c = kept.std(0), v.std(), 0.05
    x, y, b = (kept - kept.mean(0)) / sd, v - v.mean(), np.zeros(10)
    for _ in range(1000):
        b = b - 0.1 * (x.T @ (x @ b - y) / 64)
        b = np.sign(b) * np.maximum(np.abs(b) - 0.1 * c * scale, 0)
    found = sparse(kept, v, c)
    np.testing.assert_allclose(found, b / sd, atol=1e-4)
    assert (found == 0).sum() >= 4
    np.testing.assert_allclose(sparse(kept, 1000 * v - 5, c), 1000 * found, rtol=1e-4, atol=1e-3)
    assert not sparse(kept, np.full(64, 0.3) + 1e-17 * v, c).any()
    np.random.seed(0)  # noqa: NPY002  # whose numbers are left to those who draw them
    drawn = np.random.rand()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    assert (sparse(kept, v, c) == found).all()
    assert np.random.rand() == drawn  # noqa: NPY002


def test_context_cites_answer_is_a_logit():
    logits = torch.tensor([[1.0, 2.0, -1.0]]).log_softmax(-1)
    p = logits[0, 1].exp()
    assert logit(Prompts(IDS[:1], 5, torch.tensor([1])), logits).item() == pytest.approx(
        float((p / (1 - p)).log())
    )
    foil = logit(Prompts(IDS[:1], 5, torch.tensor([1]), torch.tensor([0])), logits)
    assert foil.item() == pytest.approx(1.0)


# ---- weights of heads


@pytest.mark.parametrize("causal", [True, False])
def test_attention_of_heads_is_what_the_model_gives(causal):
    model = made(causal)
    with torch.no_grad():
        there = model(IDS, output_attentions=True).attentions[:, :, :, 3].flatten(1, 2)
    torch.testing.assert_close(attention_of_heads(model, Prompts(IDS, 3)), there)


def test_learned_weights_are_ridge_regression_on_what_ablations_do():
    model = made()
    parts = [Prompts(IDS, 5, torch.tensor([4, 5, 6])), Prompts(IDS[:, :4], 3, torch.tensor([1, 2, 3]))]
    method = learned_heads(model, parts, ablations=8, penalty=0.1)
    rows, right = [], []
    for part in parts:
        n = part.ids.shape[1] - 1
        kept = halves(8, n, 0)
        for ids, target in zip(part.ids, part.target, strict=True):
            with torch.no_grad():
                heads = model(ids[None], output_attentions=True).attentions[0, :, :, n, :n].flatten(0, 1)
            gone = [[k for k in range(n) if not stays[k]] for stays in kept]
            v = np.array([float(without(model, ids, each, n)[target]) for each in gone])
            x = kept @ heads.double().numpy().T
            rows.append(x - x.mean(0))
            right.append((v - v.mean()) / v.std())
    x, y = np.concatenate(rows), np.concatenate(right)
    ridge = np.sqrt(0.1 * (x**2).sum() / 4) * np.eye(4)
    expected = np.linalg.lstsq(np.concatenate([x, ridge]), np.append(y, np.zeros(4)), rcond=None)[0]
    np.testing.assert_allclose(method.weights.numpy(), expected, atol=1e-4)
    scores = method(model, IDS, query=4)
    with torch.no_grad():
        heads = model(IDS, output_attentions=True).attentions[:, :, :, 4].flatten(1, 2)
    torch.testing.assert_close(
        scores, torch.einsum("h,bhk->bk", torch.tensor(expected).float(), heads), atol=1e-4, rtol=1e-4
    )


def test_nothing_can_be_learned_of_nothing():
    with pytest.raises(ValueError, match=r"^questions must"):
        learned_heads(made(), [])
    with pytest.raises(ValueError, match=r"^ablations must"):
        learned_heads(made(), [], ablations=1)
