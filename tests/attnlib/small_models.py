"""Small models of every kind, with random weights that make attention far from even."""

import torch
import transformers as hf

SIZE = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 3}
SIZE |= {"vocab_size": 97, "max_position_embeddings": 64}
GROUPED = SIZE | {"num_key_value_heads": 2}
HEADS_OF_8 = GROUPED | {"head_dim": 8}
WINDOW = {"sliding_window": 6}  # shorter than the prompts
SOME = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
MODELS = {
    "llama": (hf.LlamaForCausalLM, GROUPED),
    "gpt2": (
        hf.GPT2LMHeadModel,
        {"vocab_size": 97, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    ),
    "qwen2": (
        hf.Qwen2ForCausalLM,
        GROUPED | {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "qwen3": (hf.Qwen3ForCausalLM, HEADS_OF_8),
    "mistral": (hf.MistralForCausalLM, GROUPED | WINDOW),
    "gemma": (hf.GemmaForCausalLM, HEADS_OF_8),
    "gemma2": (
        hf.Gemma2ForCausalLM,
        HEADS_OF_8 | WINDOW | {"attn_logit_softcapping": 0.5, "query_pre_attn_scalar": 2},
    ),
    "gemma3": (hf.Gemma3ForCausalLM, HEADS_OF_8 | WINDOW | SOME),
    "gpt_oss": (
        hf.GptOssForCausalLM,
        HEADS_OF_8 | WINDOW | {"num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "phi": (hf.PhiForCausalLM, SIZE),
    "bert": (hf.BertForMaskedLM, SIZE),
    "distilbert": (
        hf.DistilBertForMaskedLM,
        {"vocab_size": 97, "dim": 32, "hidden_dim": 48, "n_layers": 3, "n_heads": 4},
    ),
    "albert": (hf.AlbertForMaskedLM, SIZE | {"embedding_size": 16}),
    "modernbert": (
        hf.ModernBertForMaskedLM,
        SIZE | {"pad_token_id": 0, "local_attention": 6, "global_attn_every_n_layers": 2},
    ),
}


def build(name: str, factor: float = 10, **changes) -> hf.PreTrainedModel:
    """One of them; fresh weights would give nearly even rows, and are multiplied."""
    torch.manual_seed(0)
    model_class, settings = MODELS[name]
    return sharpened(model_class(model_class.config_class(**settings | changes)).eval(), factor)


@torch.no_grad()
def sharpened(model: torch.nn.Module, factor: float) -> torch.nn.Module:
    """A model with larger matrices, so that its attention has something to say."""
    for weight in model.parameters():
        weight.mul_(factor if weight.ndim > 1 else 1)
    return model


TEXT = GROUPED | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
QWEN_VISION = {
    "depth": 2,
    "embed_dim": 32,
    "hidden_size": 32,
    "num_heads": 4,
    "mlp_ratio": 2,
    "patch_size": 4,
}
MROPE = {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}}
SEEING = {  # class, settings, the shape of a picture of 16 x 16, and what marks its tokens
    "llava": (
        hf.LlavaForConditionalGeneration,
        {
            "vision_config": VISION | {"model_type": "clip_vision_model", "image_size": 16, "patch_size": 8},
            "text_config": TEXT | {"model_type": "llama"},
            "vision_feature_layer": -1,
        },
        {"pixel_values": (1, 3, 16, 16)},
        None,
    ),
    "gemma3": (
        hf.Gemma3ForConditionalGeneration,
        {
            "vision_config": VISION
            | {"model_type": "siglip_vision_model", "image_size": 16, "patch_size": 4},
            "text_config": TEXT | WINDOW | {"model_type": "gemma3_text", "head_dim": 8},
            "mm_tokens_per_image": 4,
        },
        {"pixel_values": (1, 3, 16, 16)},
        "token_type_ids",
    ),
    "qwen2_vl": (
        hf.Qwen2VLForConditionalGeneration,
        {
            "vision_config": QWEN_VISION,
            "text_config": TEXT | MROPE,
            "video_token_id": 91,
            "vision_start_token_id": 92,
        },
        {"pixel_values": (16, 3 * 2 * 4 * 4)},
        "mm_token_type_ids",
    ),
}


def seeing(name: str) -> tuple[hf.PreTrainedModel, torch.Tensor, dict[str, torch.Tensor]]:
    """A model that sees, eleven tokens of which four are a picture's, and what it is given beside them."""
    torch.manual_seed(0)
    model_class, settings, picture, mark = SEEING[name]
    model = model_class(model_class.config_class(image_token_id=90, **settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) / 4 if weight.ndim > 1 else weight)
    model.generation_config.suppress_tokens = [90]  # it writes no picture
    ids = torch.tensor([[1, 5, 17, 90, 90, 90, 90, 3, 60, 44, 8]])
    given = {each: torch.randn(shape) for each, shape in picture.items()}
    if mark:
        given[mark] = (ids == 90).long()
    if name == "qwen2_vl":
        given["image_grid_thw"] = torch.tensor([[1, 4, 4]])
    return model, ids, given


def tokens(batch: int = 2, n: int = 17) -> torch.Tensor:
    """Ids that are none of the special ones."""
    return torch.randint(3, 97, (batch, n), generator=torch.Generator().manual_seed(1))


def padding(side: str, n: int = 17, missing: int = 4) -> torch.Tensor:
    """A mask of two prompts, of which the first lacks some tokens on a side."""
    mask = torch.ones(2, n, dtype=torch.long)
    if side != "none":
        mask[0, slice(None, missing) if side == "left" else slice(-missing, None)] = 0
    return mask
