"""Attention flow: the published figures, another library's maximum flow, and what must always hold."""

import itertools
import json
from pathlib import Path

import igraph
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.rollout import attention_flow, flow
from attnlib.rollout.core import layer_matrix

CASES = json.loads((Path(__file__).parents[2] / "golden" / "attention_flow.json").read_text())["cases"]


def random_attention(layers, n, causal=False, seed=0, sharpness=2.0, batch=None):
    shape = (layers, 2, n, n) if batch is None else (batch, layers, 2, n, n)
    scores = sharpness * torch.randn(
        shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    if causal:
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1)


def edges(attention):
    """Every edge of the layered graph: node = boundary * n + token, boundary 0 at the bottom."""
    layers, _, n, _ = attention.shape
    mixed = layer_matrix(attention)  # of every layer
    triples = itertools.product(range(layers), range(n), range(n))
    return [((layer + 1) * n + i, layer * n + j, float(mixed[layer, i, j])) for layer, i, j in triples]


def by_igraph(attention):
    layers, _, n, _ = attention.shape
    listed = [edge for edge in edges(attention) if edge[2] > 0]
    graph = igraph.Graph(n=(layers + 1) * n, edges=[(a, b) for a, b, _ in listed], directed=True)
    capacity = [c for _, _, c in listed]
    return torch.tensor(
        [[graph.maxflow_value(layers * n + q, k, capacity) for k in range(n)] for q in range(n)],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_matches_the_published_code(case):
    attention = torch.tensor(case["attention"], dtype=torch.float64)[:, None]
    for last in range(len(attention)):
        flow = attention_flow(attention[: last + 1])
        raw = attention_flow(attention[: last + 1], normalise=False)
        for got, expected in ((flow, case["flow_normalised"][last]), (raw, case["flow_raw"][last])):
            torch.testing.assert_close(got, torch.tensor(expected).double(), atol=1e-6, rtol=0)


@settings(max_examples=15)
@given(
    layers=st.integers(1, 5),
    n=st.integers(1, 7),
    causal=st.booleans(),
    seed=st.integers(0, 999),
    sharpness=st.sampled_from([0.1, 2.0, 8.0]),
)
def test_equals_igraph(layers, n, causal, seed, sharpness):
    attention = random_attention(layers, n, causal, seed, sharpness)
    raw = attention_flow(attention, normalise=False)
    torch.testing.assert_close(raw, by_igraph(attention), atol=1e-6, rtol=0)
    flow = attention_flow(attention)
    torch.testing.assert_close(flow.sum(-1), torch.ones(n).double())
    torch.testing.assert_close(flow, raw / raw.sum(-1, keepdim=True))
    assert (raw <= 1 + 1e-6).all()
    if causal:
        assert (raw.triu(1) == 0).all()


def test_more_tokens_than_one_call_of_scipy_takes():
    """Flows near 1 for every pair, which would run over int32 if they were added up."""
    attention = random_attention(3, 24, sharpness=0.0)
    torch.testing.assert_close(
        attention_flow(attention, normalise=False), by_igraph(attention), atol=1e-6, rtol=0
    )


def test_batches_forms_and_subsets():
    attention = random_attention(4, 6, batch=2)
    flow = attention_flow(attention)
    assert flow.dtype == torch.float64
    torch.testing.assert_close(flow[1], attention_flow(attention[1]))
    torch.testing.assert_close(flow, attention_flow(list(attention.unbind(1))))
    torch.testing.assert_close(
        attention_flow(attention, rows=[-1, 2], keys=[0, 3])[..., 1], flow[:, [-1, 2], 3]
    )
    raw = attention_flow(attention, normalise=False)
    part = attention_flow(attention, normalise=False, rows=torch.tensor([4]), keys=torch.tensor([1, 5]))
    torch.testing.assert_close(part, raw[:, [4]][..., [1, 5]])
    assert attention_flow(attention, rows=[]).shape == (2, 0, 6)
    torch.testing.assert_close(attention_flow(attention.float()), flow, atol=1e-6, rtol=0)
    torch.testing.assert_close(attention_flow(attention[:, :1]), layer_matrix(attention[:, 0]))


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (None, "rollout_of"),
        (torch.tensor([[[[1.5, -0.5], [0.0, 1.0]]]]), "attentions must be at least 0"),
        (torch.full((1, 1, 2, 2), torch.nan), "finite"),
    ],
)
def test_refuses(attention, message):
    with pytest.raises(ValueError, match=message):
        attention_flow(attention)


def test_flows_of_one_call_stay_in_int32():
    assert np.iinfo(np.int32).max > (flow.TOGETHER + 1) * flow.SCALE


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_no_rows_or_keys_are_none(layers):
    attention = torch.rand(2, layers, 3, 5, 5).softmax(-1)
    assert attention_flow(attention, rows=[]).shape == (2, 0, 5)
    assert attention_flow(attention, keys=[]).shape == (2, 5, 0)
    assert attention_flow(attention, rows=[], keys=[1], normalise=False).shape == (2, 0, 1)
