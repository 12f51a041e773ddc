"""Attention pushed onto chosen keys: still attention, the same for every kernel and kind of model."""

import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.generators import char_tokenizer
from attnlib.models import CausalSizes
from attnlib.models.attention import causal_null, heads_ablated, reinforced
from attnlib.models.attention.interface import implementations

torch.set_num_threads(1)
TOKENIZER = char_tokenizer("abcdefgh")
SIZES = CausalSizes(n_layers=2, n_heads=4, width=16, max_length=16)
KINDS = ("transformer", "llama", "gpt2")


def build(kind, seed=0):
    return SIZES.build(kind, TOKENIZER, seed).eval()


def example(seed=0, batch=2, n=7):
    """Ids, and a causal reference in which some rows have no key."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, len(TOKENIZER), (batch, n), generator=generator)
    reference = (torch.rand(batch, n, n, generator=generator) < 0.4).tril()
    reference[:, 2] = False
    return ids, reference


def run(model, ids, **kwargs):
    with torch.no_grad():
        output = model(ids, attention_mask=torch.ones_like(ids).bool(), output_attentions=True, **kwargs)
    stacked = output.attentions
    return output.logits, stacked if torch.is_tensor(stacked) else torch.stack(stacked, 1)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_fused_and_eager_attention_agree(kind):
    model, (ids, reference) = build(kind), example()
    found = []
    for implementation in ("eager", "sdpa"):
        model.set_attn_implementation(implementation)
        with torch.no_grad(), reinforced(model, [(1, 0)], reference, 0.6):
            found.append(model(ids).logits)
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-4)


def test_grouped_queries_are_pushed_head_by_head():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=12, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4
    )
    config.num_key_value_heads = 2
    model, (ids, reference) = LlamaForCausalLM(config).eval(), example()
    model.set_attn_implementation("eager")
    with reinforced(model, [(0, 3)], reference, 0.5):
        by_output, weights = run(model, ids)

    # The same by hand: the changed weights, times the values, through the output projection.
    attention = model.model.layers[0].self_attn
    x = model.model.layers[0].input_layernorm(model.model.embed_tokens(ids))
    values = attention.v_proj(x).unflatten(-1, (2, -1)).transpose(1, 2).repeat_interleave(2, 1)
    by_hand = attention.o_proj((weights[:, 0] @ values).transpose(1, 2).flatten(2))
    with reinforced(model, [(0, 3)], reference, 0.5), torch.no_grad():
        found = []
        hook = attention.register_forward_hook(lambda *call: found.append(call[2][0]))
        assert torch.equal(model(ids).logits, by_output)
        hook.remove()
    torch.testing.assert_close(found[0], by_hand, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_beginning_is_pushed_as_in_the_whole(kind):
    model, (ids, reference) = build(kind), example()
    with reinforced(model, None, reference, 0.7):
        whole, _ = run(model, ids)
        part, _ = run(model, ids[:, :4])
    torch.testing.assert_close(part, whole[:, :4], atol=1e-5, rtol=1e-4)


def test_generation_from_a_cache_is_pushed_as_the_whole():
    model, (ids, reference) = build("llama"), example()
    with torch.no_grad(), reinforced(model, None, reference, 0.7):
        whole = model(ids).logits
        first = model(ids[:, :5], use_cache=True)
        rest = model(ids[:, 5:], past_key_values=first.past_key_values).logits
    torch.testing.assert_close(rest, whole[:, 5:], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cache", ["sliding", "static"])
def test_a_cache_whose_keys_are_not_all_one_behind_the_other_is_refused(cache):
    sizes = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2, "eos_token_id": None}
    window = 6 if cache == "sliding" else None
    model = hf.MistralForCausalLM(hf.MistralConfig(sliding_window=window, **sizes)).eval()
    how = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    ids, reference = torch.arange(3, 13)[None], torch.zeros(1, 14, 14, dtype=torch.bool)
    reference[0, :, 0] = True
    with reinforced(model, None, reference, 0.5):
        model.generate(ids, use_cache=False, **how)
        with pytest.raises(ValueError, match="this cache does not hold the keys of all tokens"):
            model.generate(ids, **how, **({"cache_implementation": "static"} if cache == "static" else {}))


def test_a_query_sees_no_room_that_a_cache_keeps_in_advance():
    model = build("llama")
    model.set_attn_implementation("sdpa")  # which needs no mask for the prompt
    ids, how = torch.arange(3, 10)[None], {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    how |= {"output_logits": True, "return_dict_in_generate": True}
    with heads_ablated(model, [(0, 0), (1, 1)], "uniform"):
        plain, grown, static = (
            torch.stack(model.generate(ids, **how, **cache).logits)
            for cache in ({"use_cache": False}, {}, {"cache_implementation": "static"})
        )
    torch.testing.assert_close(grown, plain, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(static, plain, atol=1e-5, rtol=1e-4)


def test_afterwards_everything_is_as_before_even_after_an_error():
    from transformers import AttentionInterface

    model, other, (ids, reference) = build("llama"), build("llama", seed=1), example()
    before, others, names = run(model, ids)[0], run(other, ids)[0], dict(AttentionInterface._global_mapping)
    with pytest.raises(ZeroDivisionError), reinforced(model, None, reference, 0.5):
        assert torch.equal(run(other, ids)[0], others)  # a model next to it is not touched
        assert implementations(model) <= set(AttentionInterface._global_mapping)
        _ = 1 / 0
    assert torch.equal(run(model, ids)[0], before)
    assert dict(AttentionInterface._global_mapping) == names
    own = build("transformer")
    functions = [layer.attention.attend for layer in own.layers]
    with reinforced(own, None, reference, 0.5):
        pass
    assert [layer.attention.attend for layer in own.layers] == functions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strength": 1.5}, "strength must be from 0 to 1; got 1.5"),
        ({"strength": -1, "as_published": True}, "strength must be at least 0; got -1"),
        ({"heads": [(0, 4)]}, "no head L0H4; the model has 2 layers of 4 heads"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_is_refused(kind, change, message):
    _, reference = example()
    arguments = {"heads": None, "reference": reference, "strength": 0.5} | change
    with pytest.raises(ValueError, match=message), reinforced(build(kind), **arguments):
        pass


def test_another_batch_and_models_of_other_kinds_are_refused():
    model, (ids, reference) = build("transformer"), example()
    for batch, message in ((ids[:1], "for 2 .* up to 7 tokens, .* 1 of 7"), (ids.repeat(1, 2), "2 of 14")):
        with pytest.raises(ValueError, match=message), reinforced(model, None, reference, 1):
            run(model, batch)
    refused = pytest.raises(ValueError, match="Linear is neither an attnlib")
    with refused, reinforced(torch.nn.Linear(2, 2), None, reference, 1):
        pass


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 12))
def test_the_control_draws_as_many_keys_and_none_from_the_future(seed, n):
    _, reference = example(seed, n=n)
    control = causal_null(reference, seed)
    assert torch.equal(control, causal_null(reference, seed))
    assert not control.triu(1).any() and not control[..., 0].any()
    possible = torch.arange(reference.shape[-1])  # keys 1 .. q
    assert torch.equal(control.sum(-1), reference.sum(-1).minimum(possible))


def test_the_control_draws_every_key_alike():
    reference = torch.zeros(4000, 6, 6, dtype=torch.bool)
    reference[:, 5, 0] = True
    counts = causal_null(reference)[:, 5].float().mean(0)
    assert counts[0] == 0
    torch.testing.assert_close(counts[1:], torch.full((5,), 0.2), atol=0.03, rtol=0)
