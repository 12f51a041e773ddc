"""Whole answers: sums over their tokens, and chains through what was written, each the long way."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.attribution import attribute, attributions, span_attributions
from attnlib.attribution.spans import through_hops
from attnlib.models import Transformer, TransformerConfig

METHODS = ["rollout", "rollout over null", "mean attention", "gradient x embedding", "AttnLRP", "blank-out"]
METHODS += ["ALTI"]
IDS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5])


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Transformer(TransformerConfig(10, causal=True, n_layers=3, n_heads=2, width=16)).eval()


@pytest.mark.parametrize("span", [(4, 9), (6, 8), (2, 3)])
def test_a_span_is_the_mean_of_its_tokens(model, span) -> None:
    found = span_attributions(model, IDS, span, METHODS)
    each = [attributions(model, IDS[:at], METHODS, target=int(IDS[at])) for at in range(*span)]
    for name in METHODS:
        expected = torch.stack([one[name][: span[0]] for one in each]).mean(0)
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-6, equal_nan=True)


def test_a_chain_leads_back_to_the_prompt() -> None:
    rows = torch.zeros(3, 7)  # 4 tokens of a prompt; 4 drew on 1, 5 on 4, 6 on 5
    rows[0, 1], rows[1, 4], rows[2, 5] = 1.0, 1.0, 1.0
    rows[1, 2] = 3.0
    rows[2, 4] = 1.0  # what predicts 5 does not count for it; for 6 it does
    found = through_hops(rows, 4)
    torch.testing.assert_close(found[0], torch.tensor([0.0, 1.0, 0.0, 0.0]))
    torch.testing.assert_close(found[1], torch.tensor([0.0, 0.0, 1.0, 0.0]))  # token 4 predicts 5
    torch.testing.assert_close(found[2], torch.tensor([0.0, 1.0, 0.0, 0.0]))  # 5 predicts 6; through 4
    found = through_hops(rows, 4, own=True)
    torch.testing.assert_close(found[1], torch.tensor([0.0, 0.25, 0.75, 0.0]))
    torch.testing.assert_close(found[2], torch.tensor([0.0, 0.625, 0.375, 0.0]))


def test_what_is_no_number_counts_as_nothing_and_who_names_nothing_drew_on_nothing() -> None:
    rows = torch.tensor([[1.0, 3.0, 0.0, 0.0], [torch.nan, torch.inf, 0.0, 0.0]])
    torch.testing.assert_close(through_hops(rows, 2), torch.tensor([[1.0, 0.0], [0.0, 0.0]]))


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(2, 6), st.integers(0, 2**31), st.booleans())
def test_shares_through_hops_sum_to_one_and_are_all_chains(written, prompt, seed, own) -> None:
    rows = torch.randn(written, prompt + written, generator=torch.Generator().manual_seed(seed)).double()
    found = through_hops(rows, prompt, own=own)
    torch.testing.assert_close(found.sum(1), torch.ones(written).double())
    shares, chains = rows.abs(), []
    for i in range(written):
        row = shares[i].clone()
        row[prompt + i :] = 0
        row[prompt + i - 1] *= own
        row = row / row.sum()
        chains.append(row[:prompt] + sum(row[prompt + j] * chains[j] for j in range(i)))
    torch.testing.assert_close(found, torch.stack(chains))


def test_hops_are_of_the_prompt_and_directly_where_nothing_was_written_before(model) -> None:
    through = span_attributions(model, IDS, (5, 6), METHODS, written=5)
    directly = span_attributions(model, IDS, (5, 6), METHODS)
    for name in METHODS:
        share = directly[name].nan_to_num().abs()
        share[4] = 0
        torch.testing.assert_close(through[name], share / share.sum(), rtol=1e-4, atol=1e-6)
    apart = [span_attributions(model, IDS, (7, 9), "rollout", written=4, own=own) for own in (False, True)]
    assert all(each["rollout"].shape == (4,) for each in apart)
    assert not torch.allclose(*(each["rollout"] for each in apart))


@pytest.mark.parametrize(
    ("span", "how", "message"),
    [
        ((0, 3), {}, "span must"),
        ((5, 10), {}, "span must"),
        ((5, 7), {"written": 6}, "written must"),
        ((5, 7), {"methods": "activation patching"}, "needs a counterfactual"),
        ((5, 7), {"methods": "chess"}, "methods must"),
    ],
)
def test_what_cannot_be_asked_is_refused(model, span, how, message) -> None:
    with pytest.raises(ValueError, match=message):
        span_attributions(model, IDS, span, **({"methods": "rollout"} | how))


def test_attribute_takes_a_span_of_what_was_written(model) -> None:
    found = attribute(model, IDS, target_span=(5, 7), method="AttnLRP")
    torch.testing.assert_close(found, span_attributions(model, IDS, (5, 7), "AttnLRP")["AttnLRP"])
    for also in ({"query": 2}, {"target": 1}, {"foil": 1}, {"counterfactual": IDS}):
        with pytest.raises(ValueError, match=r"^target_span must"):
            attribute(model, IDS, target_span=(5, 7), **also)


def test_a_model_that_sees_what_comes_later_is_refused() -> None:
    with pytest.raises(ValueError, match="is not causal"):
        span_attributions(Transformer(TransformerConfig(10, causal=False)), IDS, (5, 7), "rollout")
