"""Every architecture of transformers, tiny and with random weights: which there are, and how each is built.

A configuration keeps its own settings but for sizes: whatever is named in `SMALL` and is larger there becomes
that small, in configurations inside it, too. Where that is not enough, `APART` says what else is set, and
`NOT_BUILT` why a model type is left out.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
)
from transformers.models.auto import modeling_auto

KINDS = {
    "causal": (AutoModelForCausalLM, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    "masked": (AutoModelForMaskedLM, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    "encoder-decoder": (AutoModelForSeq2SeqLM, modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
}
"""Of each kind of language model, what makes one of a configuration, and the model types there are."""

VOCABULARY, WIDTH, LAYERS, HEADS, LONGEST = 97, 32, 2, 4, 256
MOST = 5_000_000
"""So many parameters are no small model."""

SIZES: dict[int, str] = {
    VOCABULARY: "vocab_size src_vocab_size tgt_vocab_size decoder_vocab_size vocab_size_per_layer_input",
    WIDTH: "hidden_size d_model n_embd dim emb_dim embedding_size embedding_dim input_embedding_size "
    "output_embedding_size word_embed_proj_dim backbone_hidden_size out_hidden_size lru_width "
    "attention_hidden_size d_latents hidden_size_global embedding_rank output_dim image_size",
    LAYERS: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers "
    "num_decoder_layers num_blocks depth num_experts_per_tok num_experts_per_token moe_topk moe_k "
    "num_key_value_heads num_kv_heads num_query_groups swa_num_key_value_heads kv_n_heads "
    "linear_num_key_heads linear_num_value_heads linear_num_heads num_self_attends_per_block",
    HEADS: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
    "attention_heads num_encoder_attention_heads num_decoder_attention_heads num_self_attention_heads "
    "num_cross_attention_heads swa_num_attention_heads num_experts n_routed_experts num_local_experts "
    "moe_num_experts mamba_n_heads mamba_num_heads time_step_rank mamba_dt_rank index_topk gated_norm_rank "
    "laurel_rank adapter_rank num_filters",
    8: "head_dim d_kv d_head dim_head kv_channels attention_head_size attention_head_dim global_head_dim "
    "swa_head_dim qk_rope_head_dim qk_nope_head_dim v_head_dim index_head_dim rotary_dim hc_lowrank "
    "hidden_size_per_layer_input query_pre_attn_scalar mamba_d_state state_size ssm_state_size chunk_size "
    "mamba_chunk_size linear_key_head_dim linear_value_head_dim linear_head_dim router_hidden_size "
    "num_latents entity_vocab_size entity_emb_size pronunciation_embed_dim pronunciation_vocab_size "
    "shape_embed_dim shape_vocab_size downsample_hidden_size",
    16: "index_n_heads q_lora_rank kv_lora_rank qk_head_dim moe_intermediate_size shared_intermediate_size "
    "shared_expert_intermediate_size shared_experts_intermediate_size expert_ffn_hidden_size "
    "moe_shared_expert_intermediate_size mamba_d_head mamba_head_dim mamba_headdim patch_size "
    "codebook_size codebook_dim num_mel_bins",
    48: "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff dff dim_ff ffn_hidden_size n_inner "
    "hidden_dim d_inner feed_forward_size intermediate_size_mlp dense_intermediate_size mlp_dim",
    64: "mamba_d_ssm original_max_position_embeddings encoder_hash_byte_group_vocab",
    LONGEST: "max_position_embeddings n_positions n_ctx max_seq_len max_source_positions model_max_length "
    "max_target_positions max_encoder_position_embeddings max_decoder_position_embeddings context_length",
    6: "sliding_window window_size sliding_window_size local_attention attention_window_size "
    "attention_chunk_size",
    1: "zero_expert_num n_group topk_group num_expert_group first_k_dense_replace num_dense_layers "
    "moe_layer_start_index moe_layer_end_index num_global_layers",
    0: "num_kv_shared_layers",
}
SMALL = {name: size for size, names in SIZES.items() for name in names.split()}

TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""Special tokens that a smaller vocabulary still has; any other such token is the one behind them."""

OF_LAYERS = ("layer_types", "mlp_layer_types", "layers_block_type", "indexer_types", "block_types")
"""Lists with an entry for each layer, of which the first of each kind stay."""

ROPE = {"rope_type": "default", "rope_theta": 10000.0}
DOTS3 = {"num_key_value_heads": 4, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4}
DOTS3 |= {"swa_q_lora_rank": 16, "swa_kv_lora_rank": 16, "swa_head_dim": 16, "swa_qk_nope_head_dim": 8}
DOTS3 |= {"swa_v_head_dim": 8}
QWEN4 = {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 4}
QWEN4 |= {"indexer_compress_ratio": 2}
APART: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"use_cache": False},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE}},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0}},
    "deepseek_v2": {"num_experts_per_tok": 2, "num_experts": 4, "n_routed_experts": 4},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "dots3_note": {
        "text_config": DOTS3,
        "vision_config": {"adapter_in_dim": 32, "adapter_out_dim": 32},
        "audio_config": {"adapter_input_size": 32, "adapter_out_dim": 32},
    },
    "dots3_note_text": DOTS3,
    "esm": {"pad_token_id": 0, "mask_token_id": 3},
    "esmc": {"num_key_value_heads": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "led": {"attention_window": [4, 4]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 4, "head_dim": 16, "n_groups": 2},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron_h": {"layers_block_type": ["linear_attention", "full_attention"], "n_groups": 2},
    "neomme": {"head_dim": 16},
    "qwen4_exp": {"text_config": QWEN4},
    "qwen4_exp_text": QWEN4,
    "reformer": {
        "attn_layers": ["local", "lsh"],
        "axial_pos_shape": [16, 16],
        "axial_pos_embds_dim": [16, 16],
        "num_buckets": 4,
    },
    "vibevoice_asr": {
        "acoustic_tokenizer_encoder_config": {"num_filters": 1, "depths": [1] * 7},
        "semantic_tokenizer_encoder_config": {"num_filters": 1, "depths": [1] * 7},
    },
    "xlstm": {"hidden_size": 128, "embedding_dim": 128, "chunk_size": 16},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 4,
        "layers_block_type": ["mamba", "hybrid"] * 2,
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
    },
    "zamba2": {"n_mamba_heads": 4, "attention_hidden_size": 64, "attention_head_dim": 16},
}
"""What else a model type's configuration is given."""

DRAFTS = "drafts for another model, whose keys and values it is called with"
SOUND = "cannot be called with tokens alone, without sound"
NOT_BUILT: dict[str, str] = {
    "gemma3n": "its part that sees needs another package, timm; gemma3n_text is asked",
    "gemma4_assistant": DRAFTS,
    "gemma4_unified_assistant": DRAFTS,
    "nemo_speechlm": "its part that hears has no small size; its language model, nemotron_h, is asked",
    "musicgen": "reads several streams of sound codes at once",
    "musicgen_melody": "reads several streams of sound codes at once",
    "voxtral_realtime": SOUND,
}
"""Why a model type is not asked."""


def built(kind: str, model_type: str, **how: Any) -> PreTrainedModel:
    """One of them, in evaluation mode; with its own attention function, the fused one where it has that.

    Of the kind "encoder" it is the encoder of an encoder-decoder.

    Matrices are drawn again, wide enough for attention to be far from even, and vectors (biases and norms)
    are moved a little, so that none of them is 0 or 1 everywhere.
    """
    factory, _ = KINDS["encoder-decoder" if kind == "encoder" else kind]
    config_class = CONFIG_MAPPING[model_type]
    given = settings(config_class, APART.get(model_type, {}))
    if kind == "causal" and "is_decoder" in config_class().to_dict():
        given["is_decoder"] = True
    config = config_class(**given)
    with torch.device("meta"):
        count = sum(weight.numel() for weight in factory.from_config(config).parameters())
    assert count < MOST, f"{model_type} would have {count} parameters: which of its sizes is not in SIZES?"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = drawn(factory.from_config(config, **how).eval())
    return model.get_encoder() if kind == "encoder" else model


@torch.no_grad()
def drawn(model: PreTrainedModel) -> PreTrainedModel:
    """The model with other random weights."""
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.normal_(0, 1.5 * weight.shape[-1] ** -0.5)
        else:
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def settings(config_class: Any, apart: dict[str, Any]) -> dict[str, Any]:
    """What a configuration is given to be small."""
    usual = config_class()
    known = usual.to_dict()
    found: dict[str, Any] = {
        name: SMALL[name]
        for name, value in known.items()
        if name in SMALL and isinstance(value, int | float) and value > SMALL[name]
    }
    if "vocab_size" in known:
        found["vocab_size"] = VOCABULARY
    if known.get("head_dim", 0) is None:
        found["head_dim"] = SMALL["head_dim"]
    if "kv_lora_rank" in known:
        found["num_key_value_heads"] = HEADS
    for name, value in known.items():
        if name.endswith(("token_id", "token_index")):
            largest = max(value, default=0) if isinstance(value, list) else value
            if isinstance(largest, int) and largest >= VOCABULARY:
                found[name] = TOKENS.get(name, 3)
    for name in OF_LAYERS:
        if isinstance(value := known.get(name), list) and len(value) > LAYERS:
            found[name] = (list(dict.fromkeys(value)) * LAYERS)[:LAYERS]
    for name in getattr(config_class, "sub_configs", {}):
        if hasattr(part := getattr(usual, name, None), "to_dict"):
            found[name] = settings(type(part), apart.get(name, {})) | {"model_type": part.model_type}
    return found | {
        name: value for name, value in apart.items() if name not in found or name not in usual.sub_configs
    }
