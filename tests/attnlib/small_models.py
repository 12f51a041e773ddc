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


def tokens(batch: int = 2, n: int = 17) -> torch.Tensor:
    """Ids that are none of the special ones."""
    return torch.randint(3, 97, (batch, n), generator=torch.Generator().manual_seed(1))


def padding(side: str, n: int = 17, missing: int = 4) -> torch.Tensor:
    """A mask of two prompts, of which the first lacks some tokens on a side."""
    mask = torch.ones(2, n, dtype=torch.long)
    if side != "none":
        mask[0, slice(None, missing) if side == "left" else slice(-missing, None)] = 0
    return mask
