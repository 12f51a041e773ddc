"""Rollout of given attention: the published figures, what must always hold, and what is refused."""

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.rollout import dense, null_ratio, rollout, uniform_causal_rollout
from attnlib.rollout.core import rollout_by_definition, uniform_causal_attention

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = json.loads((GOLDEN / "rollout.json").read_text())["cases"]
FLOW_CASES = json.loads((GOLDEN / "attention_flow.json").read_text())["cases"]


def softmax_attention(batch=1, layers=3, heads=2, n=5, causal=False, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(batch, layers, heads, n, n, generator=generator, dtype=torch.float64)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf)
    return (2 * scores).softmax(-1).to(dtype)


def by_definition(attention, weights=None, **options):
    return rollout_by_definition(attention.unbind(1), weights, **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.filterwarnings("ignore:Attention rows")
def test_matches_the_published_code(case):
    attention = torch.tensor(case["attention"], dtype=torch.float64)
    weights = None if case["weights"] is None else torch.tensor(case["weights"], dtype=torch.float64)
    expected = torch.tensor(case["rollout"], dtype=torch.float64)
    torch.testing.assert_close(rollout(attention, weights), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(rollout(list(attention.unbind(1)), weights), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(by_definition(attention, weights)[:, -1], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("case", FLOW_CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("residual", [True, False])
def test_matches_the_published_code_of_attention_flow(case, residual):
    attention = torch.tensor(case["attention"], dtype=torch.float64)[:, None]
    expected = torch.tensor(case["rollout_residual" if residual else "rollout_no_residual"]).double()
    rolled = rollout(attention, residual=residual, cumulative=True)
    torch.testing.assert_close(rolled, expected, atol=1e-6, rtol=0)
    defined = rollout_by_definition([*attention[:, None]], residual=residual)[0]
    torch.testing.assert_close(defined, expected, atol=1e-6, rtol=0)


patient = settings(max_examples=40)
shapes = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 3),
        "layers": st.integers(1, 4),
        "heads": st.integers(1, 3),
        "n": st.integers(1, 7),
        "causal": st.booleans(),
        "seed": st.integers(0, 99),
    }
)


@patient
@given(shapes, st.booleans(), st.booleans(), st.sampled_from([0, 200, 10**6]), st.data())
def test_rollout_is_its_definition_whatever_the_options(shape, residual, weighted, size, data):
    n, attention = shape["n"], softmax_attention(**shape)
    sink = data.draw(st.none() | st.lists(st.integers(0, n - 1), max_size=3, unique=True))
    rows = data.draw(st.lists(st.integers(-n, n - 1), max_size=4))
    weights = None
    if weighted:
        generator = torch.Generator().manual_seed(1)
        weights = 0.1 + 4 * torch.rand(shape["layers"], shape["heads"], generator=generator)
    options = {"residual": residual, "sink": sink}
    expected = by_definition(attention, weights, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "GROUP_BYTES", {"cpu": size})  # groups of layers change nothing
        for form in (attention, list(attention.unbind(1))):
            rolled = rollout(form, weights, cumulative=True, **options)
            torch.testing.assert_close(rolled.double(), expected, atol=1e-6, rtol=0)
            some = rollout(form, weights, cumulative=True, rows=rows, **options)
            torch.testing.assert_close(some, rolled[..., rows, :], atol=1e-6, rtol=0)
            last = rollout(form, weights, rows=torch.tensor(rows).long(), **options)
            torch.testing.assert_close(last, rolled[:, -1, rows], atol=1e-6, rtol=0)
    torch.testing.assert_close(rolled.sum(-1), torch.ones_like(rolled.sum(-1)))
    assert (rolled >= 0).all() and not (shape["causal"] and rolled.triu(1).any())
    if sink:
        assert torch.equal(rolled[:, :, sink], torch.eye(n)[sink].expand_as(rolled[:, :, sink]))
        assert not rolled[:, :, [i for i in range(n) if i not in sink]][..., sink].any()


def test_a_row_with_less_than_nothing_beside_the_sink_is_divided_by_what_it_has():
    """By the weights 1 and -1/2, a row has 1 on the sink and -1/2 on the key 1, and sums to 1/2."""
    attention = torch.eye(3).expand(1, 1, 2, 3, 3).clone()
    attention[0, 0, 0, 2], attention[0, 0, 1, 2] = torch.tensor([1.0, 0, 0]), torch.tensor([0, 1.0, 0])
    weights = torch.tensor([[1.0, -0.5]])
    expected = by_definition(attention, weights, sink=[0])
    torch.testing.assert_close(expected[0, 0, 2], torch.tensor([0, 1 / 3, 2 / 3], dtype=torch.float64))
    torch.testing.assert_close(rollout(attention, weights, sink=[0]).double(), expected[:, -1])


def test_long_causal_attention_is_multiplied_in_blocks():
    n = 515  # no multiple of the blocks
    attention = softmax_attention(batch=2, layers=3, heads=1, n=n, causal=True)
    causal = rollout(attention, cumulative=True)
    assert (causal.triu(1) == 0).all()
    torch.testing.assert_close(causal.double(), by_definition(attention), atol=1e-6, rtol=0)
    attention[0, 2, 0, 3] = 1 / n  # one row looks ahead: no blocks
    torch.testing.assert_close(
        rollout(attention).double(), by_definition(attention)[:, -1], atol=1e-6, rtol=0
    )


def test_input_forms_agree():
    attention = softmax_attention(batch=2)
    whole = rollout(attention)
    assert torch.equal(rollout(tuple(attention.unbind(1))), whole)
    assert torch.equal(rollout(attention[1]), whole[1])  # [layer head query key]
    assert rollout(attention[1], rows=[0], cumulative=True).shape == (3, 1, 5)


def test_layers_may_have_different_numbers_of_heads():
    layers = list(softmax_attention(batch=2).unbind(1))
    repeated = [layers[0], layers[1].repeat(1, 2, 1, 1), layers[2]]
    torch.testing.assert_close(rollout(repeated), rollout(layers))


@pytest.mark.parametrize(
    ("dtype", "result", "atol"),
    [
        (torch.bfloat16, torch.float32, 1e-2),
        (torch.float16, torch.float32, 2e-3),
        (torch.float32, torch.float32, 1e-6),
        (torch.float64, torch.float64, 1e-12),
    ],
)
def test_accumulates_in_float32_or_better(dtype, result, atol):
    attention = softmax_attention(layers=12, n=40, dtype=dtype)
    rolled = rollout(attention)
    assert rolled.dtype == result
    torch.testing.assert_close(rolled.sum(-1), torch.ones(1, 40, dtype=result), atol=1e-5, rtol=0)
    exact = rollout(softmax_attention(layers=12, n=40, dtype=torch.float64))
    torch.testing.assert_close(rolled.double(), exact, atol=atol, rtol=0)
    weighted = rollout(attention, torch.full((12, 2), 0.5))
    torch.testing.assert_close(weighted, rolled)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(rollout(attention), rolled)
        assert torch.equal(rollout(attention, torch.full((12, 2), 0.5)), weighted)


def test_is_differentiable():
    attention = softmax_attention(layers=2, n=3, dtype=torch.float64).requires_grad_()
    for options in ({}, {"rows": [1]}, {"sink": [0]}, {"cumulative": True}):
        assert torch.autograd.gradcheck(
            lambda a, o=options: rollout(a / a.sum(-1, keepdim=True), **o), attention
        )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_named(bad):
    attention = softmax_attention(batch=3, layers=4, heads=5)
    attention[1, 2, 3, 4, 0] = bad
    with pytest.raises(ValueError, match=r"layer 2: \(batch 1, head 3\)$"):
        rollout(attention)
    with pytest.raises(ValueError, match="layer 2"):
        rollout(attention, torch.zeros(4, 5))  # no weight hides it
    for heads, end in ((4, r"\(batch 1, head 3\)$"), (5, r"\(batch 1, head 3\), \.\.\.$")):
        attention[1, 2, :heads, 4, 0] = bad
        with pytest.raises(ValueError, match=end):  # four are named, and that there are more
            rollout(attention)


def test_row_sums_far_from_one_warn():
    attention = softmax_attention()
    attention[:, 1] *= 0.5
    with pytest.warns(UserWarning, match="layer 1 do not sum to 1"):
        rolled = rollout(attention)
    torch.testing.assert_close(rolled.sum(-1), torch.ones(1, 5))


ONE = torch.ones(1, 1, 1, 1)
TWO = torch.ones(1, 2, 1, 2, 2) / 2


@pytest.mark.parametrize(
    ("attention", "options", "name"),
    [
        ((None, None), {}, "attentions is None: .* Use rollout_of"),
        ([], {}, "attentions"),
        (torch.ones(1, 2, 1, 3, 4), {}, "attentions of layer 0"),
        ([TWO[:, 0], torch.ones(1, 1, 3, 3)], {}, "attentions of layer 1"),
        ([torch.ones(1, 1, 2, 2, dtype=torch.long)], {}, "attentions of layer 0"),
        (TWO, {"rows": [2]}, "rows"),
        (TWO, {"rows": torch.tensor([False, True])}, "rows"),
        (TWO, {"rows": [0.9]}, "rows"),
        (TWO, {"head_weights": [[1.0]]}, "head_weights"),
        (TWO, {"sink": [-3]}, "sink"),
        (TWO, {"head_weights": torch.tensor([[1.0], [math.nan]])}, "head_weights"),
        ([ONE] * 2, {"head_weights": torch.ones(3, 1)}, "head_weights"),
        ([ONE], {"head_weights": torch.tensor([[-0.5]])}, "head_weights"),
        ([ONE], {"head_weights": torch.zeros(1, 1), "residual": False}, "head_weights"),
    ],
)
@pytest.mark.usefixtures("without_type_checks")
def test_refuses(attention, options, name):
    with pytest.raises(ValueError, match=rf"^{name}"):
        rollout(attention, **options)


@patient
@given(st.integers(1, 9), st.integers(1, 5), st.data())
def test_null_model_is_rollout_of_uniform_causal_attention(n, layers, data):
    attention = uniform_causal_attention(n).expand(1, layers, 1, n, n)
    sink = data.draw(st.none() | st.lists(st.integers(0, n - 1), max_size=2))
    positions = st.none() | st.lists(st.integers(-n, n - 1), min_size=1, max_size=3)
    keys, rows = data.draw(positions), data.draw(positions)
    (expected,) = by_definition(attention, sink=sink)
    expected = expected if rows is None else expected[:, rows]
    expected = expected if keys is None else expected[..., keys]
    null = uniform_causal_rollout(n, layers, keys=keys, rows=rows, cumulative=True, sink=sink)
    torch.testing.assert_close(null, expected)
    ratio = null_ratio(expected, null)
    torch.testing.assert_close(ratio, (expected > 0).double())
