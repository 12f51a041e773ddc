"""A model's inputs besides tokens in generation (`pixel_values`, `token_type_ids`), for a second pass.

`generate` hands these inputs to the model's forward in its first step, and lengthens those with an entry per
token by every token that it writes. A pass over prompt and written tokens together has to get the same.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlib.checks import check
from attnlib.models.attention.forward import CannotRead, first_position, read_names

OF_EACH_TOKEN = ("token_type_ids", "mm_token_type_ids", "moe_mm_token_type_ids", "position_ids")
"""Inputs with an entry per token, `[... prompt]`, which `generate` lengthens."""

OF_A_CALL = (
    "attention_mask",
    "cache_position",
    "inputs_embeds",
    "labels",
    "logits_to_keep",
    "past_key_values",
    "return_dict",
)
"""Arguments of a model's forward that are not inputs besides the tokens."""


def beside_tokens(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Those arguments of `generate` that are not its options, but inputs of the model's forward."""
    settings = getattr(model, "generation_config", None)
    rest = {
        name: value
        for name, value in given.items()
        if value is not None and name not in OF_A_CALL and not hasattr(settings, name)
    }
    read = read_names(model) if rest else []
    return {name: value for name, value in rest.items() if name in read}


def of_prompt(
    inputs: dict[str, Any],
    input_ids: Int[Tensor, "1 prompt"],
    attention_mask: Int[Tensor, "1 prompt"] | Bool[Tensor, "1 prompt"] | None,
) -> dict[str, Any]:
    """The inputs without entries of padding; a `ValueError` if one cannot be continued for written tokens."""
    n, found = input_ids.shape[1], dict(inputs)
    for name, value in inputs.items():
        if name not in OF_EACH_TOKEN:
            of_tokens = isinstance(value, Tensor) and value.shape == input_ids.shape
            check(not of_tokens, f"{name} must be left out: it has no values for generated tokens", value)
            continue
        fits = isinstance(value, Tensor) and value.ndim >= 2 and value.shape[-1] == n
        check(fits, f"{name} must be a tensor [1 {n}], as the prompt", getattr(value, "shape", value))
        if attention_mask is not None:
            found[name] = value[..., attention_mask[0].bool().to(value.device)]
    return found


def of_all(
    model: Any, inputs: dict[str, Any], read: Int[Tensor, "1 token"], prompt: int, *, cached: bool
) -> dict[str, Any]:
    """The inputs for prompt and written tokens: lengthened as the model does it, plus what `generate` adds.

    Without a cache, `generate` passes no mask, and the model reads a gap in `position_ids` as the border of
    two packed texts.
    """
    from transformers.utils import ModelOutput

    each = {name: value for name, value in inputs.items() if name in OF_EACH_TOKEN}
    for _ in range(read.shape[1] - prompt if each else 0):
        each = model._update_model_kwargs_for_generation(ModelOutput(), each, is_encoder_decoder=False)
    try:
        elsewhere = first_position(model)
    except CannotRead:  # a model that reads more than tokens (BLIP-2) cannot be tested on a text
        elsewhere = 0
    if elsewhere and "position_ids" in read_names(model) and "position_ids" not in each:
        each["position_ids"] = torch.arange(read.shape[1], device=read.device)[None]  # as `generate` does
    return inputs | each | ({"attention_mask": torch.ones_like(read)} if cached else {})
