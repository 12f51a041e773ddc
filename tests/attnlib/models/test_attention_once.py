"""Attention formed once, by head, in blocks of queries: the same rollout, and the model's own output."""

from functools import partial

import pytest
import torch

from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import Affine, Wanted, changing, once
from attnlib.models.attention.kernels import OwnCall
from attnlib.models.transformer import attend
from attnlib.rollout import rollout_of, value_slot
from tests.attnlib import small_models
from tests.attnlib.rollout.test_rollout_value_slot import defined
from tests.attnlib.small_models import sharpened

N = 37  # no multiple of a block or a tile
OURS = {"ours": True, "ours, all ways": False}
MODELS = ("llama", "mistral", "bert", *OURS)
LAYERS = dict.fromkeys(MODELS, "layers") | {"bert": "encoder.layer"}
OPTIONS = [{}, {"cumulative": True}, {"sink": [0]}, {"sink": [3, -1], "cumulative": True}]
PLACES = [(None, None), (None, [5, 0, 33, -3]), ([-1, 9, 16], None), ([2], [0, 30])]
"""Queries and keys that are asked about."""


@pytest.fixture(autouse=True)
def formed(monkeypatch):
    """Blocks of 16 queries, tiles of 8 columns, whatever the length; how many blocks were formed."""
    blocks = []
    for name, value in (("FROM", 1), ("ROWS", 16), ("TILE", 8)):
        monkeypatch.setattr(once, name, value)
    monkeypatch.setattr(value_slot, "FEW_KEYS", 0)
    looks_at = once._looks_at
    monkeypatch.setattr(once, "_looks_at", lambda *which: blocks.append(which) or looks_at(*which))
    return blocks


def build(name, dtype=torch.float32):
    if name not in OURS:
        return small_models.build(name, 8).to(dtype)
    torch.manual_seed(0)
    config = TransformerConfig(97, n_layers=3, n_heads=4, width=32, causal=OURS[name])
    return sharpened(Transformer(config).eval(), 2).to(dtype)


tokens = partial(small_models.tokens, n=N)
padding = partial(small_models.padding, n=N, missing=20)


def attentions_of(model, ids, mask):
    if isinstance(model, Transformer):
        return model(ids, mask.bool(), output_attentions=True).attentions
    model.set_attn_implementation("eager")
    positions = (mask.cumsum(1) - 1).clamp(min=0)  # padding on the left counts for nothing
    attentions = model(ids, attention_mask=mask, output_attentions=True, position_ids=positions).attentions
    model.set_attn_implementation("sdpa")
    return torch.stack(attentions, 1)


@torch.no_grad()
@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_definition(name, side, formed):
    model, ids, mask = build(name), tokens(), padding(side)
    seen = mask.bool()[:, :, None] & mask.bool()[:, None]
    attentions = attentions_of(model, ids, mask)
    assert attentions.amax(-1).mean() > 2.5 / N  # rows are not uniform
    for number, options in enumerate(OPTIONS):
        expected = defined(attentions.unbind(1), **options)
        expected = torch.where(seen if expected.ndim == 3 else seen[:, None], expected, 0)
        for place in range(2 if side == "none" else 1):  # each with some options
            rows, keys = PLACES[(number + place) % 4]
            part = expected if rows is None else expected[..., rows, :]
            part = part if keys is None else part[..., keys]
            formed.clear()
            got = rollout_of(model, ids, mask, keys, rows=rows, **options)
            assert formed
            torch.testing.assert_close(got, part, atol=1e-6, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_the_model_computes_what_it_computes_without_us(name, monkeypatch):
    model, ids, mask, found = build(name), tokens(), padding("left"), []
    layers = model.layers if isinstance(model, Transformer) else model.base_model.get_submodule(LAYERS[name])
    rollout_of(model, ids, mask)  # what a model is like is found out first
    handle = layers[-1].register_forward_hook(lambda module, given, output: found.append(output))
    rollout_of(model, ids, mask)
    monkeypatch.setattr(once, "FROM", N + 1)
    rollout_of(model, ids, mask)
    handle.remove()
    followed, plain = (output[0] if isinstance(output, tuple) else output for output in found)
    real = mask.bool()
    torch.testing.assert_close(followed[real], plain[real], atol=1e-4, rtol=1e-5)


@torch.no_grad()
def test_a_query_that_may_look_nowhere_brings_nothing():
    q, k, v = torch.randn(3, 1, 2, N, 8)
    allowed = torch.ones(1, 1, N, N, dtype=torch.bool).tril()
    allowed[..., 5, :] = False
    call = OwnCall(attend, q, k, v, allowed)
    ((product, total),) = call.products([Wanted(once=True)])
    expected, weights = attend(q, k, v, allowed, need_weights=True)
    torch.testing.assert_close(call.mixed, expected)
    torch.testing.assert_close(product, weights.mean(1))
    assert total == 1.0
    assert not product[0, 5].any()


@torch.no_grad()
@pytest.mark.parametrize("rows", [None, [7]])
def test_a_layer_that_is_changed_from_outside_is_not_formed_once(rows, formed):
    model, ids = build("llama"), tokens()
    with changing(model, {1: lambda call: Affine(0.5, 0.5, torch.eye(N)[None, None])}):
        got = rollout_of(model, ids, rows=rows)
        attentions = attentions_of(model, ids, padding("none"))
    torch.testing.assert_close(got, defined(attentions.unbind(1))[:, rows or slice(None)], atol=1e-6, rtol=0)
    assert len(formed) == (0 if rows else 2 * 2 * 3)  # of examples, the other layers, and blocks
    beyond = changing(model, {3: lambda call: Affine(1.0, 0.0, None)})
    with pytest.raises(ValueError, match="layers from 0 to 2"), beyond:
        pass


@torch.no_grad()
@pytest.mark.parametrize("rows", [None, [7]])
@pytest.mark.parametrize("kind", ["eager", "half", "short"])
def test_what_is_not_formed_once(kind, rows, formed, monkeypatch):
    model, ids = build("llama", torch.bfloat16 if kind == "half" else torch.float32), tokens()
    expected = defined(attentions_of(model, ids, padding("none")).unbind(1))[:, rows or slice(None)]
    model.set_attn_implementation("eager" if kind == "eager" else "sdpa")
    monkeypatch.setattr(once, "FROM", N + (kind == "short"))
    got = rollout_of(model, ids, rows=rows)
    torch.testing.assert_close(got, expected, atol=2e-2 if kind == "half" else 1e-5, rtol=0)
    assert not formed


@torch.no_grad()
def test_rows_take_only_the_queries_that_count(formed):
    rollout_of(build("llama"), tokens(), rows=[10])
    assert {(queries.start, queries.stop) for _, _, queries in formed} == {(0, 16)}
    assert len(formed) == 2 * 3  # examples, layers


@torch.no_grad()
def test_a_model_that_computes_nan_is_refused():
    model = build("llama")
    model.model.layers[1].self_attn.q_proj.weight[0, 0] = torch.nan
    for rows in (None, [3]):
        with pytest.raises(ValueError, match=r"finite.*\[0, 1\]"):
            rollout_of(model, tokens(), rows=rows)


@torch.no_grad()
@pytest.mark.parametrize("rows", [None, [3]])
def test_under_autocast_the_matrix_is_single_precision(rows):
    model, ids = build("llama"), tokens()
    expected = rollout_of(model, ids, rows=rows)
    with torch.autocast("cpu", torch.bfloat16):
        got = rollout_of(model, ids, rows=rows)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.sum(-1), torch.ones(got.shape[:2]), atol=1e-5, rtol=0)
    torch.testing.assert_close(got, expected, atol=5e-2, rtol=0)
