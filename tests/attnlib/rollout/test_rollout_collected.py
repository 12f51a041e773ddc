"""Rollout of a generation from queries and keys of its own steps, or from a second pass where these fail."""

import pytest
import torch
import transformers as hf

from attnlib.models.attention import heads_ablated, once
from attnlib.rollout import generate_with_rollout, generative
from tests.attnlib.rollout.test_rollout_generative import PROMPT, build, naively


@pytest.fixture
def passes(monkeypatch):
    """Second passes that were taken."""
    taken, watched_pass = [], generative.watched_pass
    monkeypatch.setattr(
        generative,
        "watched_pass",
        lambda *given, **beside: taken.append(given) or watched_pass(*given, **beside),
    )
    return taken


@pytest.mark.parametrize("first", [1, 128])  # formed by head, or in blocks of rows
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("llama", {}),
        ("mistral", {"sink": [0]}),
        ("gpt2", {}),
    ],
    ids=str,
)
def test_no_second_pass_is_needed(name, options, first, passes, monkeypatch):
    monkeypatch.setattr(once, "FROM", first)
    model = build(name)
    result = generate_with_rollout(model, PROMPT, 12, do_sample=False, **options)
    expected = naively(model, PROMPT, result.tokens, **options)
    torch.testing.assert_close(result.matrix, expected, atol=1e-6, rtol=0)
    assert not passes


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gemma2", {}),  # a kernel of its own
        ("llama", {"prompt_lookup_num_tokens": 3}),  # candidates that are rejected
        ("llama", {"use_cache": False}),
        ("llama", {"cache_implementation": "static"}),
    ],
    ids=str,
)
def test_a_second_pass_where_steps_are_no_part_of_one(name, options, passes):
    model = build(name)
    result = generate_with_rollout(model, PROMPT, 7, do_sample=False, **options)
    torch.testing.assert_close(result.matrix, naively(model, PROMPT, result.tokens), atol=1e-6, rtol=0)
    assert len(passes) == 1


@pytest.mark.parametrize("heads", [1, 4])
def test_a_second_pass_where_a_mask_says_how_much(heads, passes):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 80}
    shape = {"num_attention_heads": heads, "num_key_value_heads": heads, "eos_token_id": None}
    config = hf.DogeConfig(**sizes, **shape, keep_window_size=64, initializer_range=0.3)
    model = hf.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    with torch.no_grad():
        for layer in model.model.layers:  # which adds to scores what it makes of values
            layer.self_attn.A.normal_()
            layer.self_attn.dt_proj.weight.normal_()
    result = generate_with_rollout(model, PROMPT, 4, do_sample=False)
    again = generate_with_rollout(model, PROMPT, continuation=result.tokens)
    torch.testing.assert_close(result.matrix, again.matrix, atol=1e-6, rtol=0)
    assert len(passes) == 2


def test_a_cache_that_was_filled_before_is_no_part_of_the_steps(passes):
    model, cache = build("llama"), hf.DynamicCache()
    with torch.no_grad():
        model(PROMPT[:, :4], past_key_values=cache)
    result = generate_with_rollout(model, PROMPT, 4, do_sample=False, past_key_values=cache)
    torch.testing.assert_close(result.matrix, naively(model, PROMPT, result.tokens), atol=1e-6, rtol=0)
    assert len(passes) == 1


def test_attention_that_is_changed_from_outside(passes):
    model = build("llama")
    with heads_ablated(model, [(1, 0)], "uniform"):
        result = generate_with_rollout(model, PROMPT, 4, do_sample=False)
        expected = naively(model, PROMPT, result.tokens)
    torch.testing.assert_close(result.matrix, expected, atol=1e-6, rtol=0)
    assert len(passes) == 1
    assert (generate_with_rollout(model, PROMPT, 1).matrix - expected[:1]).abs().max() > 1e-3


def test_what_is_kept_is_no_part_of_the_models_cache(monkeypatch):
    kept = []
    collected = generative.Collected()
    monkeypatch.setattr(generative, "Collected", lambda: kept.append(collected) or collected)
    generate_with_rollout(build("llama"), PROMPT, 5, do_sample=False)
    for steps in collected.steps.values():
        assert [step.keys for step in steps] == [9, 10, 11, 12, 13]
        assert all(step.key.untyped_storage().nbytes() == step.key.nbytes for step in steps)
