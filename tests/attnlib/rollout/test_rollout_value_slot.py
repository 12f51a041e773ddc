"""Rollout without attention matrices: equal to eager attention and dense rollout, on every kind of model."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
import transformers as hf
from transformers import AttentionInterface

from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import Wanted, interface, watching
from attnlib.models.attention import call as attention_call
from attnlib.models.attention.forward import check_prompt
from attnlib.models.attention.kernels import EagerCall
from attnlib.rollout import rollout_of
from attnlib.rollout.core import rollout_by_definition
from tests.attnlib.small_models import GROUPED, MODELS, build, padding, tokens
from tests.pretrained import trained_model

N = 17
WAYS = {"auto": 1, "fused": 99, "blocks": 0}
"""Up to how many passes the kernel is called again, as `FUSED_PASSES` has it."""


def take(way, monkeypatch):
    """Let rollout be computed in one way, where the model's kernel allows it."""
    monkeypatch.setattr(attention_call, "FUSED_PASSES", {"cpu": WAYS[way]})


def defined(attentions, cumulative=False, **options):
    """Rollout by its definition, in single precision."""
    rolled = rollout_by_definition(list(attentions), **options).float()
    return rolled if cumulative else rolled[:, -1]


@pytest.fixture(scope="module")
def llama():
    return build("llama")


def eager_attentions(model, ids, mask=None):
    own = model.config._attn_implementation
    model.set_attn_implementation("eager")
    options = {}
    if mask is not None and "position_ids" in inspect.signature(model.forward).parameters:
        options["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)  # padding on the left counts for nothing
    with torch.no_grad():
        attentions = model(ids, attention_mask=mask, output_attentions=True, **options).attentions
    model.set_attn_implementation(own)
    return attentions


def assert_equal_where_real(got, expected, mask):
    real = torch.ones(2, N, dtype=torch.bool) if mask is None else mask.bool()
    seen = real[:, :, None] & real[:, None]
    seen = seen if got.ndim == 3 else seen[:, None]
    torch.testing.assert_close(got, torch.where(seen, expected, 0), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "side"), [(name, "left") for name in MODELS] + [("gpt2", "right")])
def test_equals_the_definition_on_eager_attention(name, side, monkeypatch):
    model, ids, mask = build(name), tokens(), padding(side)  # of one prompt of two
    own = model.config._attn_implementation
    attentions = eager_attentions(model, ids, mask)
    assert max(a.amax(-1).mean() for a in attentions) > 2.5 / N  # rows are not uniform
    for way in WAYS:
        take(way, monkeypatch)
        got = rollout_of(model, ids, mask, cumulative=True)
        assert_equal_where_real(got, defined(attentions, cumulative=True), mask)
    assert rollout_of(model, ids, mask, rows=[]).shape == (len(ids), 0, ids.shape[1])
    assert rollout_of(model, ids, mask, keys=[]).shape == (len(ids), ids.shape[1], 0)
    assert rollout_of(model, ids, mask, keys=[], rows=[-1], cumulative=True).shape[-2:] == (1, 0)
    sink = rollout_of(model, ids, mask, sink=[4])
    assert_equal_where_real(sink, defined(attentions, sink=[4]), mask)
    assert model.config._attn_implementation == own


@pytest.mark.parametrize("way", WAYS)
def test_options_equal_the_definition(llama, way, monkeypatch):
    take(way, monkeypatch)
    monkeypatch.setattr(attention_call, "BLOCK_BYTES", {"cpu": 0})  # many blocks
    ids = tokens(2, 20)
    attentions = eager_attentions(llama, ids)
    for options in ({}, {"cumulative": True}, {"sink": [0]}, {"sink": [3, -1]}):
        expected = defined(attentions, **options)
        for rows in (None, [-1, 9]):
            for keys in (None, torch.tensor([5, 0, -3])):
                got = rollout_of(llama, ids, None, keys, rows=rows, **options)
                part = expected if rows is None else expected[..., rows, :]
                part = part if keys is None else part[..., keys]
                torch.testing.assert_close(got, part, atol=1e-5, rtol=0)
                assert got.requires_grad is False


@pytest.mark.parametrize("name", ["llama", "gemma2", "bert"])
def test_eager_models_run_in_blocks(name, monkeypatch):
    monkeypatch.setattr(attention_call, "BLOCK_BYTES", {"cpu": 0})
    model, ids, mask = build(name), tokens(2, 40), torch.ones(2, 40, dtype=torch.long)
    mask[1, :5] = 0
    attentions = eager_attentions(model, ids, mask)
    model.set_attn_implementation("eager")
    rollout_of(model, ids)  # what a model is like is found out first
    calls = []
    output = EagerCall.output
    monkeypatch.setattr(EagerCall, "output", lambda self: calls.append(self) or output(self))
    got = rollout_of(model, ids, mask, rows=[10, 39])
    torch.testing.assert_close(got, defined(attentions)[:, [10, 39]] * mask[:, None], atol=1e-5, rtol=0)
    assert len(calls) == 3
    assert all(len(call.outputs) == 3 for call in calls)  # 40 queries in blocks of 16


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "gemma2"])  # the last on eager attention
def test_logits_are_unchanged(name):
    model, ids, caught = build(name), tokens(), []

    def watch(call):
        caught.append((yield Wanted()))

    with torch.no_grad():
        before = model(ids).logits
        with watching(model, watch):
            during = model(ids).logits
        rollout_of(model, ids)
        after = model(ids).logits
    torch.testing.assert_close(during, before, atol=1e-5 if name == "gemma2" else 0, rtol=0)
    assert torch.equal(before, after) and len(caught) == 3


def test_everything_is_restored_when_it_fails(llama):
    functions = dict(AttentionInterface._global_mapping)
    llama.train()
    llama.model.layers[1].eval()

    def fail(module, given):
        raise RuntimeError("in the middle")

    handle = llama.model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        rollout_of(llama, tokens())
    handle.remove()
    assert functions == AttentionInterface._global_mapping
    assert llama.config._attn_implementation == "sdpa"
    assert llama.training and llama.model.layers[0].training and not llama.model.layers[1].training
    assert interface._open.get() == () and not interface._led_here.users
    llama.eval()


def test_threads_may_share_a_model(llama):
    ids = tokens(2, 40)
    asked = [
        partial(rollout_of, llama, ids),
        partial(rollout_of, llama, ids, sink=[0]),
        lambda: llama(ids).logits.detach(),
    ]
    expected = [ask() for ask in asked]
    with ThreadPoolExecutor(3) as pool:
        for found, wanted in zip(pool.map(lambda ask: ask(), 5 * asked), 5 * expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
    assert "eager" not in AttentionInterface._global_mapping


def test_rows_where_gradients_are_off(llama):
    expected = rollout_of(llama, tokens())[:, [3]]
    for off in (torch.no_grad(), torch.inference_mode()):
        with off:
            torch.testing.assert_close(rollout_of(llama, tokens(), rows=[3]), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.bfloat16, 2e-2), (torch.float64, 1e-6)])
def test_precision(dtype, atol):
    model, ids = build("llama").to(dtype), tokens()
    rolled = rollout_of(model, ids)
    assert rolled.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(rolled.sum(-1), torch.ones(2, N, dtype=rolled.dtype), atol=1e-5, rtol=0)
    torch.testing.assert_close(rolled, defined(eager_attentions(model, ids)).to(rolled), atol=atol, rtol=0)
    with torch.autocast("cpu", torch.bfloat16):
        assert rollout_of(model, ids).dtype == rolled.dtype


def test_no_attention_matrix_is_formed(llama):
    """N x N x heads floats would be 134 MB; everything else is far smaller."""
    model = build("llama", max_position_embeddings=4096)
    with torch.profiler.profile(profile_memory=True, record_shapes=True) as profile:
        rollout_of(model, tokens(1, 2048), keys=range(8))
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    assert largest < 2048 * 2048 * 4 * 4 / 4


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("side", ["none", "left", "right"])
def test_our_own_transformer(causal, side, monkeypatch):
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(vocabulary=97, n_layers=3, n_heads=4, width=32, causal=causal, dropout=0.5)
    )
    for layer in model.layers:
        layer.attention.qkv.weight.data.mul_(3)
    ids, mask = tokens(), None if side == "none" else padding(side)
    real = None if mask is None else mask.bool()
    attends = [layer.attention.attend for layer in model.layers]
    model.eval()
    with torch.no_grad():
        attentions = model(ids, real, output_attentions=True).attentions
    model.train()
    expected = defined(attentions.unbind(1), cumulative=True)
    for way in WAYS:
        take(way, monkeypatch)
        got = rollout_of(model, ids, mask, cumulative=True)
        assert_equal_where_real(got, expected, mask)
    assert [layer.attention.attend for layer in model.layers] == attends
    assert model.training
    with pytest.raises(ValueError, match="context of 512"):
        rollout_of(model, tokens(1, 513))


def test_our_own_transformer_with_another_attention():
    def uniform(q, k, v, allowed=None, *, causal=False, dropout=0.0, need_weights=False):
        return v.mean(2, keepdim=True).expand_as(v), None

    model = Transformer(TransformerConfig(vocabulary=97)).eval()
    for layer in model.layers:
        layer.attention.attend = uniform
    expected = defined(torch.full((2, 2, 1, N, N), 1 / N))
    torch.testing.assert_close(rollout_of(model, tokens()), expected, atol=1e-5, rtol=0)


class OwnAttention(hf.PreTrainedModel):
    config_class = hf.LlamaConfig

    def forward(self, input_ids, attention_mask=None):
        return input_ids


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (torch.nn.Linear(2, 2), {}, "neither a Hugging Face model nor"),
        (OwnAttention(hf.LlamaConfig(**GROUPED)), {}, "does not go through transformers' attention"),
        (
            hf.BloomForCausalLM(hf.BloomConfig(vocab_size=97, hidden_size=32, n_layer=1, n_head=4)),
            {},
            'attn_implementation="eager"',
        ),
        (
            hf.BartModel(hf.BartConfig(vocab_size=97, d_model=16, encoder_layers=1, decoder_layers=1)),
            {},
            "encoder-decoder",
        ),
        ("llama", {"input_ids": torch.zeros(1, 0, dtype=torch.long)}, "empty prompt"),
        ("llama", {"input_ids": tokens(1)[0]}, r"input_ids must be a tensor \[batch token\]"),
        ("llama", {"input_ids": [[1, 2]]}, r"input_ids must be a tensor \[batch token\]"),
        ("llama", {"attention_mask": [[1] * N] * 2}, r"attention_mask must be a tensor \[batch token\]"),
        ("llama", {"input_ids": torch.zeros(1, 65, dtype=torch.long)}, "65 tokens are more than"),
        ("llama", {"attention_mask": torch.zeros(2, N, dtype=torch.long)}, "only padding"),
        ("llama", {"attention_mask": torch.arange(2 * N).view(2, N) != N + 3}, r"gaps .* elements \[1\]"),
        ("llama", {"keys": [N]}, f"keys must be positions, whole numbers from -{N} to {N - 1}"),
        ("llama", {"rows": [-N - 1]}, "rows must be positions"),
        ("llama", {"attention_mask": torch.full((2, N), 2)}, r"1 for tokens and 0 for padding. Got \[2\]"),
        ("llama", {"input_ids": torch.tensor([[1, 97, -1]])}, r"token ids from 0 to 96. Got \[97, -1\]"),
        ("llama", {"sinks": [0]}, r"an option of rollout_of, or .* got 'sinks'; did you mean 'sink'\?"),
        ("gpt2", {"row": [-1]}, r"GPT2LMHeadModel.forward, .* got 'row'; did you mean 'rows'\?"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
@pytest.mark.usefixtures("without_type_checks")
def test_refuses(model, options, message):
    model = build(model) if isinstance(model, str) else model
    with pytest.raises(ValueError, match=message):
        rollout_of(model, **({"input_ids": tokens()} | options))


class Wrapper(torch.nn.Module):
    """Takes anything and hands it on, as PEFT's do."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, *given, scale=1, **named):
        return self.model(*given, **named)


def test_what_a_wrapped_model_reads_is_handed_on():
    model, ids = build("bert"), tokens()
    kinds = torch.ones_like(ids)
    expected = rollout_of(model, ids, token_type_ids=kinds, output_hidden_states=False)
    assert not torch.equal(expected, rollout_of(model, ids))
    wrapper = Wrapper(model)
    assert torch.equal(
        rollout_of(wrapper, ids, token_type_ids=kinds, output_hidden_states=False, scale=2), expected
    )
    with pytest.raises(ValueError, match="did you mean 'token_type_ids'"):
        rollout_of(wrapper, ids, token_type_id=kinds)


def test_what_padding_holds_need_be_no_token(llama):
    check_prompt(llama, torch.tensor([[1, -100]]), torch.tensor([[1, 0]]))


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "modernbert"])
def test_a_row_of_a_batch_is_what_it_is_alone(name):
    model, ids, mask = build(name), tokens(4), torch.ones(4, N, dtype=torch.long)
    mask[0, :4] = mask[1, -3:] = mask[2, :2] = mask[2, -5:] = 0
    together = rollout_of(model, ids, mask)
    for row, real in enumerate(mask.bool()):
        alone = rollout_of(model, ids[row, None, real])[0]
        torch.testing.assert_close(together[row][real][:, real], alone, atol=1e-5, rtol=0)
        assert not together[row][~real].any() and not together[row][:, ~real].any()


@pytest.mark.parametrize("n", [N, 140])  # below and above the length from which attention is formed once
@pytest.mark.parametrize("none", [[], (), torch.zeros(0, dtype=torch.long)], ids=str)
def test_no_rows_or_keys_are_none(n, none):
    model, ids = build("llama", max_position_embeddings=140), tokens(2, n)
    assert rollout_of(model, ids, rows=none).shape == (2, 0, n)
    assert rollout_of(model, ids, keys=none, sink=[0]).shape == (2, n, 0)
    assert rollout_of(model, ids, keys=none, rows=none, cumulative=True).shape == (2, 3, 0, 0)


def test_layers_that_do_not_attend_are_refused():
    model = build("llama")
    model.model.layers[1].self_attn.forward = lambda hidden_states, **kwargs: (hidden_states, None)
    with pytest.raises(ValueError, match="has 3 layers, but 2 attention calls"):
        rollout_of(model, tokens())


def test_a_trained_model():
    model = hf.AutoModelForCausalLM.from_pretrained(trained_model(), dtype=torch.float32)
    ids = tokens(1)
    for options in ({}, {"sink": [0]}):
        expected = defined(eager_attentions(model, ids), **options)
        torch.testing.assert_close(rollout_of(model, ids, **options), expected, atol=1e-5, rtol=0)
