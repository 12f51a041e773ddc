"""Rotary positions: those of Llama, in our own transformer, and with all that reads its attention."""

from contextlib import nullcontext

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from attnlib.attribution import METHODS, attributions
from attnlib.generators import char_tokenizer
from attnlib.models import CausalSizes, Transformer, TransformerConfig
from attnlib.models.attention import reinforced
from attnlib.models.positions import angles, turned
from attnlib.rollout import rollout, rollout_of

torch.set_num_threads(1)


def rotary(**settings):
    torch.manual_seed(0)
    sizes = {"vocabulary": 11, "n_layers": 2, "n_heads": 2, "width": 16, "causal": True, **settings}
    model = Transformer(TransformerConfig(**sizes, positions="rotary")).eval()
    for layer in model.layers:
        layer.attention.qkv.weight.data.mul_(3)  # far from uniform attention
    return model


@pytest.mark.parametrize("heads", [1, 4])
def test_queries_and_keys_turn_as_llamas(heads):
    torch.manual_seed(1)
    q, k = torch.randn(2, 3, heads, 9, 8)
    places = torch.stack([torch.arange(9), torch.arange(40, 49), torch.arange(9).flip(0)])
    config = LlamaConfig(hidden_size=8 * heads, num_attention_heads=heads, head_dim=8)
    cos, sin = LlamaRotaryEmbedding(config)(q, places)
    expected = apply_rotary_pos_emb(q, k, cos, sin)
    angle = angles(places, 8)
    for ours, theirs in zip((turned(q, angle), turned(k, angle)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


def test_positions_stand_where_they_are_said_to():
    model, ids = rotary(), torch.tensor([[3, 1, 4, 1, 5]])
    there = torch.arange(5)[None]
    with torch.no_grad():
        plain, moved = model(ids).logits, model(ids, position_ids=there + 7).logits
        gap = model(ids, position_ids=there + (there > 2)).logits
    torch.testing.assert_close(plain, moved, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(plain[:, :3], gap[:, :3], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(plain[:, 3:], gap[:, 3:], atol=1e-3)


@pytest.mark.parametrize("side", ["none", "left", "right"])
def test_rollout_follows_it(side):
    model, ids = rotary(), torch.randint(0, 11, (2, 8))
    real = torch.ones(2, 8, dtype=torch.bool)
    real[0, {"left": slice(0, 2), "right": slice(6, 8), "none": slice(0, 0)}[side]] = False
    with torch.no_grad():
        attentions = model(ids, real, output_attentions=True).attentions
    found = rollout_of(model, ids, real)
    # The first queries of a prompt that is padded on the left have no key to look at.
    with pytest.warns(UserWarning, match="do not sum to 1") if side == "left" else nullcontext():
        expected = rollout(attentions)
    rows = real[:, :, None] & real[:, None, :]
    torch.testing.assert_close(found[rows], expected[rows], atol=1e-5, rtol=0)


def test_attention_is_pushed_and_every_method_looks_at_it():
    model, ids = rotary(), torch.randint(0, 11, (1, 6))
    wanted = torch.zeros(1, 6, 6, dtype=torch.bool)
    wanted[:, -1, 1] = True
    with torch.no_grad(), reinforced(model, [(1, 0)], wanted, 1.0):
        attentions = model(ids, output_attentions=True).attentions
    torch.testing.assert_close(attentions[0, 1, 0, -1], wanted[0, -1].float())
    found = attributions(model, ids, [*METHODS], counterfactual=ids.flip(1))
    assert all(scores.isfinite().any() for scores in found.values())


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "rotary", "none"])
def test_only_positions_differ_between_models_from_scratch(kind):
    tokenizer = char_tokenizer("abc")
    sizes = CausalSizes(n_layers=1, n_heads=2, width=8, max_length=9, positions=kind)
    model, plain = (each.build("transformer", tokenizer) for each in (sizes, CausalSizes(1, 2, 8, 0, 9)))
    assert model.config.positions == kind and plain.config.positions == "learned"
    shapes = {name: weight.shape for name, weight in plain.state_dict().items() if name != "positions"}
    assert {n: w.shape for n, w in model.state_dict().items() if n != "positions"} == shapes


def test_positions_of_other_architectures_are_their_own():
    with pytest.raises(ValueError, match="positions may be chosen of 'transformer' only"):
        CausalSizes(1, 2, 8, positions="none").build("llama", char_tokenizer("a"))
