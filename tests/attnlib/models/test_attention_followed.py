"""Which models' attention is followed, which are refused, and that the reason is true."""

import copy

import peft
import pytest
import torch
import transformers as hf

from attnlib.attribution import METHODS, attribute
from attnlib.models.attention import AttentionCall, heads_ablated, watching
from attnlib.rollout import generate_with_rollout, rollout, rollout_of, stream_with_rollout
from tests.attnlib.small_models import GROUPED, SIZE, build, padding, sharpened, tokens

SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def of_type(name: str, auto=hf.AutoModelForCausalLM, **settings) -> hf.PreTrainedModel:
    """A small model of a type, with the weights that its training would begin from."""
    torch.manual_seed(0)
    return auto.from_config(hf.AutoConfig.for_model(name, **SPECIAL | settings)).eval()


def eager_rollout(model, ids):
    own = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(input_ids=ids, output_attentions=True).attentions
    model.set_attn_implementation(own)
    return rollout(attentions)


# ---- tokens that something beside attention mixes

ALSO_MIXED = {
    "inkling2_text": GROUPED
    | {"head_dim": 8, "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2},
    "lfm2": GROUPED | {"layer_types": ["conv", "full_attention", "conv"]},
    "falcon_h1": GROUPED
    | {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8},
    "mobilebert": SIZE | {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
}


@pytest.mark.parametrize("name", ALSO_MIXED)
@pytest.mark.parametrize("factor", [1, 10])
def test_tokens_that_are_mixed_by_more_than_attention(name, factor):
    auto = hf.AutoModelForMaskedLM if name == "mobilebert" else hf.AutoModelForCausalLM
    model = sharpened(of_type(name, auto, **ALSO_MIXED[name]), factor)
    for ask in (
        lambda: rollout_of(model, tokens()),
        lambda: attribute(model, tokens(1)[0], method="mean attention"),
    ):
        with pytest.raises(ValueError, match="mixes tokens by more than the attention that can be followed"):
            ask()
    if model.can_generate():
        with pytest.raises(ValueError, match="mixes tokens by more"):
            generate_with_rollout(model, tokens(1), 3)


def test_a_layer_that_attends_twice_is_no_other_kind_of_mixing():
    model = of_type("diffllama", **GROUPED)
    with pytest.raises(ValueError, match=r"3 layers, but 6 attention calls .* follows one for each layer"):
        rollout_of(model, tokens())


@pytest.mark.parametrize("vocabulary", [1, 2, 5, 97])
def test_a_model_of_few_or_special_tokens_is_followed(vocabulary):
    special = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": list(range(0, vocabulary, 2))}
    model = build("llama", **special | {"vocab_size": vocabulary})
    ids = tokens() % vocabulary
    torch.testing.assert_close(rollout_of(model, ids), eager_rollout(model, ids), atol=1e-5, rtol=0)
    short = build("llama", max_position_embeddings=1)
    assert rollout_of(short, ids[:1, :1]).tolist() == [[[1.0]]]


def test_a_model_that_reads_no_short_texts_is_not_tried_on_one():
    """Funnel pools tokens, and fails on four of them."""
    sizes = {"vocab_size": 97, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48, "block_sizes": [1, 1]}
    model = hf.FunnelForMaskedLM(hf.FunnelConfig(**sizes)).eval()
    with pytest.raises(ValueError, match="FunnelForMaskedLM, if it has any, does not go through"):
        rollout_of(model, tokens())


def test_finding_out_what_a_model_is_like_leaves_no_trace():
    model, ids, calls, seen = build("llama").train(), tokens(), [], []

    def outer(call: AttentionCall) -> None:
        calls.append(call.query.shape)

    hook = model.register_forward_pre_hook(lambda module, given: None)
    body = model.base_model.register_forward_hook(lambda *call: seen.append(1))
    state = torch.get_rng_state()
    with watching(model, outer), heads_ablated(model, [(0, 0)], "uniform"):
        rolled = rollout_of(model, ids)
        assert len(calls) == 3 and {shape[2] for shape in calls} == {ids.shape[1]}
        first, again = len(seen), rollout_of(model, ids)
    assert len(seen) == first + 1  # found out once
    assert torch.equal(rolled, again) and torch.equal(torch.get_rng_state(), state)
    assert all(module.training for module in model.modules())
    assert len(model._forward_pre_hooks) == 1 and len(model.base_model._forward_hooks) == 1
    hook.remove(), body.remove()


# ---- encoders of encoder-decoders

TWO_TEXTS = {
    "bart": {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4},
    "marian": {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4},
    "m2m_100": {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4},
    "pegasus": {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4},
    "umt5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4},
}


@pytest.mark.parametrize("name", TWO_TEXTS)
def test_the_encoder_of_an_encoder_decoder_is_followed_as_the_refusal_says(name):
    small = {"vocab_size": 97, "decoder_start_token_id": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    model = sharpened(of_type(name, hf.AutoModelForSeq2SeqLM, **small | TWO_TEXTS[name]), 10)
    with pytest.raises(ValueError, match=r"encoder-decoder .* Give its encoder \(model.get_encoder\(\)\)"):
        rollout_of(model, tokens())
    encoder = model.get_encoder()
    expected = eager_rollout(encoder, tokens())
    assert (expected - torch.eye(17)).abs().max() > 0.5
    torch.testing.assert_close(rollout_of(encoder, tokens()), expected, atol=1e-5, rtol=0)


# ---- adapters

PROMPTS = [peft.PromptTuningConfig, peft.PrefixTuningConfig, peft.PromptEncoderConfig]


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
@pytest.mark.parametrize("kind", PROMPTS)
def test_learned_prompts_are_refused_by_everything(kind, name):
    model = peft.get_peft_model(build(name), kind(task_type="CAUSAL_LM", num_virtual_tokens=5)).eval()
    ids = tokens(1, 8)
    ways = {
        name: lambda name=name: attribute(model, ids, method=name, counterfactual=ids) for name in METHODS
    }
    ways["rollout_of"] = lambda: rollout_of(model, ids)
    ways["generation"] = lambda: generate_with_rollout(model, ids, 3)
    ways["continuation"] = lambda: generate_with_rollout(model, ids, continuation=ids[0])
    ways["stream"] = lambda: stream_with_rollout(model, ids, 3)
    for ask in ways.values():
        with pytest.raises(ValueError, match=rf"{kind.__name__}\), and learned prefixes cannot be followed"):
            ask()


def test_learned_keys_in_attention_of_their_own_are_refused():
    """Adaption prompts: each token looks at them in a softmax beside that over tokens."""
    adapter = peft.AdaptionPromptConfig(task_type="CAUSAL_LM", adapter_len=5, adapter_layers=2)
    model = peft.get_peft_model(build("llama"), adapter).eval()
    for ask in (
        lambda: rollout_of(model, tokens(1)),
        lambda: generate_with_rollout(model, tokens(1), 3),
        lambda: attribute(model, tokens(1)[0], method="gradient norm"),
    ):
        with pytest.raises(ValueError, match=r"AdaptionPromptConfig\), and learned prefixes cannot"):
            ask()


class Wrapper(torch.nn.Module):
    """Hands on what it is called with."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, *given, **named):
        return self.model(*given, **named)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
@pytest.mark.parametrize("kind", PROMPTS)
def test_learned_prompts_are_seen_by_what_attention_is_computed_from_too(kind, name):
    model = peft.get_peft_model(build(name), kind(task_type="CAUSAL_LM", num_virtual_tokens=5)).eval()
    with pytest.raises(ValueError, match=r"queries to 9 keys.*learned prefixes cannot be followed"):
        rollout_of(Wrapper(model), tokens())


@pytest.mark.parametrize(
    "adapter",
    [
        peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj", "v_proj"], init_lora_weights=False),
        peft.IA3Config(
            task_type="CAUSAL_LM",
            target_modules=["k_proj", "down_proj"],
            feedforward_modules=["down_proj"],
            init_ia3_weights=False,
        ),
    ],
    ids=lambda adapter: type(adapter).__name__,
)
def test_adapters_that_change_weights_are_followed(adapter):
    plain = rollout_of(build("llama"), tokens())
    model = peft.get_peft_model(build("llama"), adapter).eval()
    expected = eager_rollout(model.get_base_model(), tokens())
    assert (expected - plain).abs().max() > 0.01
    torch.testing.assert_close(rollout_of(model, tokens()), expected, atol=1e-5, rtol=0)
    written = generate_with_rollout(model, tokens(1), 4, do_sample=False)
    again = generate_with_rollout(model, tokens(1), continuation=written.tokens)
    torch.testing.assert_close(written.matrix, again.matrix, atol=1e-5, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"trainable_token_indices": [17, 40]}], ids=["LoRA", "some tokens"])
def test_adapters_of_the_input_embedding_are_explained_as_the_model_that_they_make(settings):
    modules = ["q_proj"] if settings else ["q_proj", "embed_tokens"]
    adapter = peft.LoraConfig(
        task_type="CAUSAL_LM", target_modules=modules, init_lora_weights=False, **settings
    )
    model, ids = peft.get_peft_model(build("llama", tie_word_embeddings=False), adapter).eval(), tokens(1, 8)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.add_(0.5 if "token_adapter" in name else 0)
    merged = copy.deepcopy(model).merge_and_unload()
    for method in METHODS:
        found, expected = (
            attribute(each, ids[0], target=7, method=method, counterfactual=ids[0].flip(0))
            for each in (model, merged)
        )
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3, equal_nan=True, msg=method)


def test_a_padded_prompt_of_an_adapted_model_has_the_positions_of_the_model_that_it_makes():
    adapter = peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"], init_lora_weights=False)
    model, mask = peft.get_peft_model(build("gpt2"), adapter).eval(), padding("left")
    expected = rollout_of(copy.deepcopy(model).merge_and_unload(), tokens(), mask)
    torch.testing.assert_close(rollout_of(model, tokens(), mask), expected, atol=1e-5, rtol=0)
