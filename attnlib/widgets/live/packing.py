"""Finds, checks or packs the file of a model that a page can compute; refuses other models with a reason.

A page reads GGUF, the file format of llama.cpp. A model that is saved in another way is packed into a GGUF
file without loss: every matrix in 16 bits where these hold its weights exactly, else in 32.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlib.models.causal import NO_NUMBER
from attnlib.models.gguf import END_TOKENS
from attnlib.models.greedy import end_tokens
from attnlib.models.pretrained import DEFAULT, gguf_of_default, load_language_model
from attnlib.places import expanded
from attnlib.widgets.live.checking import MOST, SPLITTINGS, check

LICENCE = "Apache License 2.0 (apache.org/licenses/LICENSE-2.0), by Hugging Face; weights rounded to 4 bits"
"""The licence of the book's language model, which must go with every copy of it."""

_NORMAL, _CONTROL, _GIVEN, _UNUSED = 1, 3, 4, 5
"""GGUF's types of tokens: normal, control, user-defined and unused."""


def model_file(name: str, folder: Path) -> tuple[Path, str]:
    """The path of a model file that a page can compute, and the model's licence, as far as it is known.

    `name` is the book's model; the path of a GGUF file; or, as in `load_language_model`, a folder or a name
    on the hub, whose model is packed into a file in `folder`. Raises a `ValueError` for other models.
    """
    if name == DEFAULT:
        path = gguf_of_default(fetch=True)
        assert path is not None
        return path, LICENCE
    path = expanded(name)
    if path.suffix != ".gguf":
        path = folder / "model.gguf"
        pack(*load_language_model(name, device="cpu"), path)
    return path, check(path)


def pack(model: Any, tokenizer: Any, path: Path) -> None:
    """Write a `LlamaForCausalLM` and its byte-level BPE tokenizer as a GGUF file; refuse other models."""
    from gguf import MODEL_ARCH, GGUFWriter, TokenType
    from gguf.tensor_mapping import get_tensor_name_map

    config = _checked(model)
    vocabulary, kinds, merges, splitting = _vocabulary(tokenizer, config.vocab_size)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer = GGUFWriter(path, "llama")
    writer.add_name(Path(getattr(config, "_name_or_path", "")).name or "a language model")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(head)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list(vocabulary)
    writer.add_token_types([TokenType(kind) for kind in kinds])
    writer.add_token_merges(merges)
    if ends := end_tokens(model, tokenizer):
        writer.add_eos_token_id(ends[0])
        writer.add_array(END_TOKENS, ends)
    if tokenizer.bos_token_id is not None:
        writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_add_bos_token(_begins(tokenizer))
    if _is_chatml(tokenizer):
        writer.add_chat_template(tokenizer.chat_template)
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in _weights(model, head):
        values, kind = _narrowest(weight)
        writer.add_tensor(names.get_name(name, (".weight",)) or name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _checked(model: Any) -> Any:
    """The configuration of a model; raises a `ValueError` if a page cannot compute it."""
    config = model.config
    if config.model_type != "llama":
        raise ValueError(
            f"{type(model).__name__} is of the kind {config.model_type!r}; a page computes models of Llama's "
            "shape ('llama'), such as SmolLM2"
        )
    rope = config.rope_parameters["rope_type"]
    unlike = {
        f"rotary positions {rope!r}": rope != "default",
        "biases": config.attention_bias or config.mlp_bias,
        f"the activation {config.hidden_act!r}": config.hidden_act != "silu",
    }
    if wrong := [what for what, is_so in unlike.items() if is_so]:
        raise ValueError(f"this model has {', '.join(wrong)}, which a page does not compute")
    if (size := 2 * sum(weight.numel() for weight in model.parameters())) > MOST:
        raise ValueError(
            f"this model has {size / 2e6:.0f} million weights; a page can hold about 150 million. Take a "
            "smaller one, or a GGUF file with weights of 4 or 8 bits"
        )
    with torch.no_grad():
        if not model(torch.arange(2)[None] % config.vocab_size).logits.isfinite().all():
            raise ValueError(f"this {type(model).__name__} {NO_NUMBER}")
    return config


def _weights(model: Any, head: int) -> Iterator[tuple[str, Tensor]]:
    """Every weight once, by name; pairs of rotary channels are put side by side, as in GGUF."""
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        if "q_proj" in name or "k_proj" in name:
            weight = weight.view(-1, 2, head // 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
        yield name, weight.detach().float().cpu().contiguous()


def _narrowest(weight: Tensor) -> tuple[np.ndarray, Any]:
    """The weight as GGUF stores it: a matrix in the fewest bits that hold it exactly, a vector in 32."""
    from gguf import GGMLQuantizationType as Kind

    if weight.ndim > 1 and weight.half().float().equal(weight):
        return weight.half().numpy(), Kind.F16
    if weight.ndim > 1 and weight.bfloat16().float().equal(weight):
        return weight.bfloat16().view(torch.uint8).numpy(), Kind.BF16
    return weight.numpy(), Kind.F32


def _vocabulary(tokenizer: Any, size: int) -> tuple[list[str], list[int], list[str], str]:
    """Tokens, their types, merges and the pre-tokenizer; raises a `ValueError` for other tokenizers."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    model, steps = state["model"], state["pre_tokenizer"] or {}
    steps = steps.get("pretokenizers", [steps])
    splitting = [
        name
        for name, known in SPLITTINGS.items()
        if len(known) == len(steps) and all(a.items() <= b.items() for a, b in zip(known, steps, strict=True))
    ]
    plain = model["type"] == "BPE" and not (state["normalizer"] or model.get("byte_fallback"))
    if not splitting or not plain or any(a["lstrip"] or a["rstrip"] for a in state["added_tokens"]):
        raise ValueError(
            f"this model's tokenizer is {model['type']}, split by {[s.get('type') for s in steps]}; a "
            "page reads byte-level BPE split as GPT-2's or SmolLM's"
        )
    vocabulary, kinds = [f"[unused {i}]" for i in range(size)], [_UNUSED] * size
    for token, i in model["vocab"].items():
        vocabulary[i], kinds[i] = token, _NORMAL
    for added in state["added_tokens"]:
        vocabulary[added["id"]] = added["content"]
        kinds[added["id"]] = _CONTROL if added["special"] else _GIVEN
    return (
        vocabulary,
        kinds,
        [m if isinstance(m, str) else " ".join(m) for m in model["merges"]],
        splitting[0],
    )


def _begins(tokenizer: Any) -> bool:
    """Whether the tokenizer adds its start token to a text; raises a `ValueError` if it adds other tokens."""
    put, plain = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)["input_ids"]
    if put not in (plain, [tokenizer.bos_token_id, *plain]):
        raise ValueError(f"this tokenizer reads 'a' as {put}; a page puts one token before a text, or none")
    return put != plain


def _is_chatml(tokenizer: Any) -> bool:
    """Whether the chat template is ChatML, the only one that pages support."""
    if not tokenizer.chat_template:
        return False
    message = [{"role": "user", "content": "a"}]
    text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    return text.endswith("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n")
