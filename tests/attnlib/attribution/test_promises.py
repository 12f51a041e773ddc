"""Measures that change a model, on models whose attention does more than most: each against plain loops."""

from __future__ import annotations

import inspect

import pytest
import torch
import transformers as hf

from attnlib.attribution import attribute
from attnlib.models.attention.inputs import keys_hidden
from attnlib.models.causal import is_causal, reads_ahead
from tests.attnlib.attribution.test_attribution import close

N, TARGET = 14, 7
IDS = torch.randint(3, 60, (1, N), generator=torch.Generator().manual_seed(2))
OTHER = IDS.clone()
OTHER[0, [2, 5, 9]] = torch.tensor([7, 8, 9])
SIZE = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZE |= {"intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0}
SIZE |= {"bos_token_id": 1, "eos_token_id": 2}
GROUPED = SIZE | {"num_key_value_heads": 2}
HEADS_OF_8 = GROUPED | {"head_dim": 8}
LATENT = SIZE | {"num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 8}
LATENT |= {"qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2}
LATENT |= {"moe_intermediate_size": 16, "n_group": 1, "topk_group": 1, "head_dim": 4}
SPARSE = LATENT | {"index_topk": 4, "index_n_heads": 2, "index_head_dim": 8}
KINDS = {"layer_types": ["sliding_attention", "full_attention", "full_attention"]}
SHARED = HEADS_OF_8 | KINDS | {"num_kv_shared_layers": 0, "attention_k_eq_v": True, "global_head_dim": 8}
SHARED |= {"sliding_window": 6, "num_global_key_value_heads": 2, "hidden_size_per_layer_input": 0}
OF_OTHERS = SHARED | {"num_kv_shared_layers": 1, "attention_k_eq_v": False}
OF_OTHERS |= {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 60}
MAMBA = {"mamba_d_state": 8, "mamba_dt_rank": 2, "num_experts": 1, "num_experts_per_tok": 1}
MAMBA |= {"attn_layer_period": 2, "attn_layer_offset": 1}
DELTA = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2}
DELTA |= {
    "linear_num_value_heads": 2,
    "moe_intermediate_size": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}
DELTA |= {"shared_expert_intermediate_size": 16, "layer_types": ["linear_attention", "full_attention"]}
OF_BLT = HEADS_OF_8 | {"num_key_value_heads": 4, "cross_attn_k": 2, "hidden_size_global": 64}
BYTES = {"vocab_size": 60, "encoder_hash_byte_group_vocab": 50, "encoder_hash_byte_group_size": [3, 4]}
BYTES |= {f"{part}_config": OF_BLT for part in ("patcher", "encoder", "decoder")}
BYTES |= {"global_config": OF_BLT | {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 8}}
BYTES |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES = {
    "Llama": ("Llama", GROUPED),
    "sparse": ("DeepseekV32", SPARSE),
    "sparse, of GLM": ("GlmMoeDsa", SPARSE),
    "differential": ("DiffLlama", GROUPED | {"head_dim": 8}),
    "dynamic mask": ("Doge", GROUPED),
    "keys that are values": ("Gemma4", SHARED),
    "keys of another layer": ("Gemma4", OF_OTHERS),
    "embeddings changed in place": (
        "CTRL",
        {"vocab_size": 60, "n_positions": 64, "n_embd": 32, "dff": 48, "n_layer": 3, "n_head": 4},
    ),
    "patches of bytes": ("Blt", BYTES),
    "hybrid of recurrence": ("Jamba", GROUPED | MAMBA),
    "hybrid of a delta rule": ("Qwen3Next", HEADS_OF_8 | DELTA | {"num_hidden_layers": 2}),
    "state without a cache": (
        "RecurrentGemma",
        HEADS_OF_8 | {"lru_width": 32, "attention_window_size": 6},
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return made(*FAMILIES[request.param])


def made(name, settings):
    torch.manual_seed(0)
    config = getattr(hf, f"{name}TextConfig" if name == "Gemma4" else f"{name}Config")(**settings)
    model_class = hf.CTRLLMHeadModel if name == "CTRL" else getattr(hf, f"{name}ForCausalLM")
    model = model_class(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            drawn = torch.randn(weight.shape, generator=generator)
            weight.copy_(weight + 0.2 * drawn if weight.ndim == 1 else drawn * weight.shape[-1] ** -0.5)
    return model


@torch.no_grad()
def score(model, ids, **given):
    return model(input_ids=ids, use_cache=False, **given).logits[0, -1].log_softmax(-1)[TARGET]


def test_activation_patching_is_replacing_a_token(model):
    expected = torch.zeros(N)
    for token in range(N):
        ids = IDS.clone()
        ids[0, token] = OTHER[0, token]
        expected[token] = score(model, IDS) - score(model, ids)
    assert expected.abs().max() > 1e-4
    try:
        found = attribute(model, IDS[0], target=TARGET, method="activation patching", counterfactual=OTHER[0])
    except ValueError as error:
        assert "reads tokens by more than" in str(error)
        assert type(model).__name__ in ("Gemma4ForCausalLM", "BltForCausalLM")
        return
    close(found, expected, atol=1e-4)


def test_blank_out_is_leaving_a_token_out(model):
    positions = "position_ids" in inspect.signature(model.forward).parameters
    found = attribute(model, IDS[0], target=TARGET, method="blank-out")
    for token in range(N - 1):
        kept = torch.arange(N) != token
        given = {"position_ids": torch.arange(N)[None, kept]} if positions else {}
        given["attention_mask"] = torch.ones(1, N - 1, dtype=torch.long)
        close(found[token], score(model, IDS) - score(model, IDS[:, kept], **given), atol=1e-4)


def test_knockout_hides_a_key_in_the_whole_pass_or_is_refused(model):
    expected = torch.zeros(N)
    try:
        found = attribute(model, IDS[0], target=TARGET, method="attention knockout")
    except ValueError as error:
        said = ("mixes tokens by more than", "follows one for each layer", "follows self-attention over")
        assert any(each in str(error) for each in said)
        return
    for token in range(N):

        def hidden(call, token=token):
            gone = torch.zeros(N, N, dtype=torch.bool)
            gone[-1, token] = True
            return gone[None, None, -call.query.shape[2] :]

        with keys_hidden(model, hidden):
            expected[token] = score(model, IDS)
    close(found, score(model, IDS) - expected, atol=1e-4)


CUT = ["Llama", "dynamic mask", "keys of another layer", "embeddings changed in place"]


@pytest.mark.parametrize("family", CUT)
def test_what_is_hidden_from_all_others_says_nothing_to_them(family):
    """What knockout, ContextCite and KernelSHAP stand on, seen from outside."""
    model, token = made(*FAMILIES[family]), 5

    def from_others(call):
        gone = torch.zeros(N, N, dtype=torch.bool)
        gone[:, token], gone[token, token] = True, False
        return gone[None, None, -call.query.shape[2] :]

    other = IDS.clone()
    other[0, token] = 50
    with keys_hidden(model, from_others):
        close(score(model, IDS), score(model, other))
    assert (score(model, IDS) - score(model, other)).abs() > 1e-4


@pytest.mark.parametrize(
    ("method", "keys"), [("attention knockout", 1), ("ContextCite", 4), ("KernelSHAP", 4)]
)
def test_a_model_that_looks_where_the_text_says_is_refused(method, keys):
    """What a hidden token says still chooses which keys others see: of four, say, three are left."""
    model = made("DeepseekV32", SPARSE | {"index_topk": keys})
    with pytest.raises(ValueError, match="still moves the prediction"):
        attribute(model, IDS[0], method=method)


# ---- one sentence each


def test_vectors_that_are_not_the_tokens_one_by_one_are_refused():
    """CPM-Ant reads a prompt of its own, too; XLNet has positions first."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "hidden_size": 32, "num_attention_heads": 4, "dim_head": 8, "dim_ff": 48}
    cpm = hf.CpmAntForCausalLM(hf.CpmAntConfig(**sizes, num_hidden_layers=2, prompt_types=4)).eval()
    sizes = {"vocab_size": 60, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
    xlnet = hf.XLNetLMHeadModel(hf.XLNetConfig(**sizes)).eval()
    for model in (cpm, xlnet):
        for method in ("gradient x embedding", "integrated gradients", "activation patching"):
            with pytest.raises(ValueError, match="not one for each token, or not in their order"):
                attribute(model, IDS[0], method=method, counterfactual=OTHER[0])


def test_a_model_that_is_differentiated_in_training_only():
    sizes = {"vocab_size": 60, "hidden_size": 32, "num_attention_heads": 2, "attn_layers": ["local"]}
    sizes |= {"axial_pos_embds": False, "max_position_embeddings": 64, "feed_forward_size": 48}
    model = hf.ReformerModelWithLMHead(hf.ReformerConfig(**sizes, is_decoder=True)).eval()
    with pytest.raises(ValueError, match="cannot be differentiated as it is used"):
        attribute(model, IDS[0], method="gradient x embedding")


@pytest.mark.parametrize("method", ["gradient x embedding", "integrated gradients", "AttnLRP"])
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_an_assertion_of_the_callers_own_is_not_put_in_other_words(way, method):
    model = made(*FAMILIES["Llama"])

    def wrong(*_):
        raise AssertionError("the caller's own")

    def hook(module, given, output):
        if torch.is_grad_enabled():
            output.register_hook(wrong) if way == "backward" else wrong()

    model.lm_head.register_forward_hook(hook)
    with pytest.raises(AssertionError, match="the caller's own"):
        attribute(model, IDS[0], method=method)


def test_ctrl_under_lrp_sums_to_the_logit_with_what_positions_add():
    model = made(*FAMILIES["embeddings changed in place"])
    found = attribute(model, IDS[0], target=TARGET, method="LRP, attention held constant")
    assert found.isfinite().all() and (found != 0).all()


# ---- who is causal


def test_rounding_is_not_reading_ahead():
    """Where the last token is another, experts are given other numbers of tokens, which moves last digits."""
    sizes = {"vocab_size": 32_000, "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = hf.MixtralConfig(**sizes, num_key_value_heads=2, intermediate_size=512, num_local_experts=4)
    moved = False
    for seed in range(1, 4):
        torch.manual_seed(seed)
        model = hf.MixtralForCausalLM(config).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(5 if weight.ndim > 1 else 1)
            moved |= reads_ahead(lambda ids, model=model: model(input_ids=ids).logits, torch.arange(4)[None])
        assert is_causal(model)
    assert moved


def test_a_little_reading_ahead_is_some():
    """Attention to later tokens that moves scores by no more than rounding."""
    torch.manual_seed(0)
    model = hf.BertLMHeadModel(hf.BertConfig(**SIZE, is_decoder=False)).eval()
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            layer.attention.output.dense.weight.mul_(0.03)
        ids = torch.arange(4)[None]
        first, second = (model(input_ids=each).logits[:, :3] for each in (ids, ids * (ids < 3)))
    assert 1e-6 < (first - second).abs().max() / first.abs().max() < 3e-4
    assert not is_causal(model)
