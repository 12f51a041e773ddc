"""Attribution scores against what they are defined as, computed the long way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from attnlib.attribution.methods import blank_out, follow, input_gradient_x_embedding, raw_attention
from attnlib.models.pretrained import load_language_model
from attnlib.rollout import rollout

DATA = os.environ.get("ATTNLIB_DATA")


def _gpt2():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=90, n_positions=64, n_embd=32, n_layer=3, n_head=4, initializer_range=0.3)
    return GPT2LMHeadModel(config).eval()


def _stories():
    if not DATA:
        pytest.skip("ATTNLIB_DATA is not set")
    return load_language_model(str(Path(DATA) / "models" / "stories260k"))[0]


MODELS = {"tiny": lambda: load_language_model("tiny-random")[0], "gpt2": _gpt2, "stories": _stories}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.fixture
def ids():
    return torch.randint(4, 90, (2, 19), generator=torch.Generator().manual_seed(1))


def eager_attentions(model, ids, mask=None):
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            return torch.stack(model(ids, attention_mask=mask, output_attentions=True).attentions, 1)
    finally:
        model.set_attn_implementation(before)


def test_raw_attention_is_what_eager_attention_says(model, ids):
    expected = eager_attentions(model, ids).mean(2)
    last, mean = raw_attention(model, ids)
    torch.testing.assert_close(last, expected[:, -1], atol=1e-6, rtol=0)
    torch.testing.assert_close(mean, expected.mean(1), atol=1e-6, rtol=0)
    last, mean = raw_attention(model, ids, rows=[3, -1])
    torch.testing.assert_close(last, expected[:, -1, [3, -1]], atol=1e-6, rtol=0)
    torch.testing.assert_close(mean, expected.mean(1)[:, [3, -1]], atol=1e-6, rtol=0)


def test_raw_attention_with_padding_and_on_an_eager_model(model, ids):
    mask = torch.ones_like(ids)
    mask[0, -4:] = 0
    real = mask.bool()
    expected = eager_attentions(model, ids, mask).mean(2) * (real[:, None, :, None] & real[:, None, None])
    last, mean = raw_attention(model, ids, mask)
    torch.testing.assert_close(last, expected[:, -1], atol=1e-6, rtol=0)
    torch.testing.assert_close(mean, expected.mean(1), atol=1e-6, rtol=0)
    model.set_attn_implementation("eager")
    last, _ = raw_attention(model, ids, mask, rows=[5])
    torch.testing.assert_close(last, expected[:, -1, [5]], atol=1e-6, rtol=0)
    assert model.config._attn_implementation == "eager"


def test_follow_gives_everything_of_one_pass(model, ids):
    attentions = eager_attentions(model, ids)
    with torch.no_grad():
        logits = model(ids).logits
    found = follow(model, ids, rows=[-4, -1], logits_from=-4)
    torch.testing.assert_close(found.logits, logits[:, -4:], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.last, attentions[:, -1].mean(1)[:, [-4, -1]], atol=1e-6, rtol=0)
    torch.testing.assert_close(found.mean, attentions.mean((1, 2))[:, [-4, -1]], atol=1e-6, rtol=0)
    torch.testing.assert_close(found.rollout, rollout(attentions, rows=[-4, -1]), atol=1e-5, rtol=0)
    without = rollout(attentions, rows=[-4, -1], sink=[0])
    torch.testing.assert_close(found.sink_free, without, atol=1e-5, rtol=0)
    assert (found.sink_free[..., 0] == 0).all() and (found.rollout[..., 0] > 0).all()


def test_gradient_x_embedding_is_the_slope_towards_an_embedding_of_zero(model, ids):
    model = model.double()
    scores = input_gradient_x_embedding(model, ids)
    assert scores.shape == ids.shape
    embedded = model.get_input_embeddings()(ids).detach()
    with torch.no_grad():
        targets = model(ids).logits[:, -1].argmax(-1)
        for token in (0, 7, 18):
            step, ends = 1e-2, []  # norms are in float32 whatever the model is
            for sign in (1, -1):
                moved = embedded.clone()
                moved[:, token] *= 1 + sign * step
                log_p = model(inputs_embeds=moved).logits[:, -1].log_softmax(-1)
                ends.append(log_p.gather(1, targets[:, None])[:, 0])
            slope = (ends[0] - ends[1]) / (2 * step)
            torch.testing.assert_close(scores[:, token], slope, atol=2e-3, rtol=1e-2)
    other = input_gradient_x_embedding(model, ids, (targets + 1) % 90)
    assert not torch.allclose(other, scores)


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_blank_out_is_what_hiding_a_key_from_every_later_query_does(model, ids, batch_size):
    prompt, n = ids[0], ids.shape[1]
    drop = blank_out(model, prompt, batch_size=batch_size)
    assert drop[-1].isnan() and drop[:-1].isfinite().all()
    with torch.no_grad():
        whole = model(prompt[None]).logits[0, -1].log_softmax(-1)
        causal = torch.ones(n, n, dtype=torch.bool).tril()
        for token in range(n - 1):
            mask = causal.clone()
            mask[:, token] = False
            mask[token, token] = True  # what the token itself sees, nobody else does
            hidden = model(prompt[None], attention_mask=mask[None, None]).logits[0, -1].log_softmax(-1)
            expected = whole.max() - hidden[whole.argmax()]
            torch.testing.assert_close(drop[token], expected, atol=1e-4, rtol=1e-4)


def test_blank_out_with_a_replacement(model, ids):
    prompt = ids[0]
    drop = blank_out(model, prompt, target=7, replacement=5, batch_size=4)
    with torch.no_grad():
        whole = model(prompt[None]).logits[0, -1].log_softmax(-1)[7]
        for token in (0, 4, 18):
            changed = prompt.clone()
            changed[token] = 5
            there = model(changed[None]).logits[0, -1].log_softmax(-1)[7]
            torch.testing.assert_close(drop[token], whole - there, atol=1e-4, rtol=1e-4)


def test_the_model_is_as_it_was(ids):
    model = _gpt2().train()
    blank_out(model, ids[0])
    input_gradient_x_embedding(model, ids)
    raw_attention(model, ids, rows=[0])
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_prompts_that_cannot_be(ids):
    model = _gpt2()
    with pytest.raises(ValueError, match="at least 2 tokens"):
        blank_out(model, ids[0, :1])
    with pytest.raises(ValueError, match="context of 64"):
        input_gradient_x_embedding(model, torch.ones(1, 65, dtype=torch.long))
    with pytest.raises(ValueError, match="rows must be positions"):
        raw_attention(model, ids, rows=[19])
