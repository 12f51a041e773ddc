"""One forward pass of a model, seen by any number of watchers of its attention."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.models.attention.call import Watcher
from attnlib.models.attention.interface import watching
from attnlib.models.transformer import Transformer

Mask = Int[Tensor, "batch token"] | Bool[Tensor, "batch token"] | None


@torch.no_grad()  # the model's own computation takes no gradients
def watched_pass(
    model: Any,
    watchers: Sequence[Watcher],
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Mask = None,
    *,
    logits_from: int | None = None,
    gradients: bool = False,
    **model_inputs: Any,
) -> Float[Tensor, "batch position vocabulary"] | None:
    """Run a model once, in evaluation mode, without a cache, and show every layer's attention to `watchers`.

    Whoever calls it has had the prompt checked (`check_prompt`).

    Where padding is on the left, positions count real tokens only, as in generation (a model without relative
    positions would see them shifted).

    Args:
        model: as in `rollout_of`.
        watchers: see `attnlib.models.attention.call`.
        input_ids: the tokens.
        attention_mask: 1 for tokens, 0 for padding.
        logits_from: the first position to give logits of (a vocabulary's worth each); without, the model's
            head is left out.
        gradients: whether what the watchers compute is to be differentiated.
        **model_inputs: handed to the model.

    Raises:
        ValueError: the model's attention (or part of it) does not go through the interface, or it has no
            logits.
    """
    refuse_recurrence(model)
    with watching(model, *watchers, gradients=gradients) as block:
        if logits_from is not None:
            found = logits_of(model, input_ids, attention_mask, logits_from, **model_inputs)
        else:
            body = model.base_model if hasattr(model, "base_model_prefix") else model
            found = None
            body(input_ids=input_ids, **_inputs(body, attention_mask, model_inputs))
    check_layers(model, block.calls)
    return found


def logits_of(
    model: Any,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Int[Tensor, "batch key"] | Bool[Tensor, "batch key"] | None = None,
    start: int = 0,
    **model_inputs: Any,
) -> Float[Tensor, "batch position vocabulary"]:
    """The logits from position `start` on, of a Hugging Face language model or of an attnlib `Transformer`.

    Args:
        model: run as it is: in evaluation mode, say, inside `evaluating`.
        input_ids: the tokens.
        attention_mask: as in `watched_pass`; with a cache, of its keys, too.
        start: counted in `input_ids`.
        **model_inputs: handed to the model.

    Raises:
        ValueError: the model gives no logits.
    """
    keep = input_ids.shape[1] - start
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        model_inputs = {"logits_to_keep": keep} | model_inputs
    output = model(input_ids=input_ids, **_inputs(model, attention_mask, model_inputs))
    logits = getattr(output, "logits", None)
    if logits is None or logits.ndim != 3:
        raise ValueError(
            f"{type(model).__name__} predicts no token at every position, so there is nothing to evaluate. "
            "Give a causal language model (AutoModelForCausalLM, or an attnlib Transformer)."
        )
    return logits[:, -keep:]


def _inputs(model: Any, mask: Mask, given: dict[str, Any]) -> dict[str, Any]:
    """What a model's `forward` is called with beside tokens."""
    if isinstance(model, Transformer):
        return {"attention_mask": None if mask is None else mask.bool()} | given
    parameters = inspect.signature(model.forward).parameters
    inputs: dict[str, Any] = {"attention_mask": None if mask is None else mask.long()}
    if "use_cache" in parameters or any(p.kind == p.VAR_KEYWORD for p in parameters.values()):
        inputs["use_cache"] = False
    if (
        mask is not None
        and "position_ids" in parameters
        and not bool(mask[:, 0].all())
        and not first_position(model)  # others work positions out by themselves
    ):
        inputs["position_ids"] = (mask.long().cumsum(1) - 1).clamp(min=0)
    return inputs | given


def read_names(model: nn.Module) -> list[str]:
    """What a model, or one inside it, names in its `forward`, of all that it is called with.

    A forward that takes anything (`**kwargs`) swallows what is misspelt; a wrapper (PEFT's) hands it on.
    """
    forwards = [inspect.signature(module.forward).parameters for module in model.modules()]
    reading = [each for each in forwards if "input_ids" in each or each is forwards[0]]
    read = [parameter for each in reading for parameter in each.values()]
    names = [each.name for each in read if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if any(each.kind == each.VAR_KEYWORD for each in read):
        from transformers.utils import TransformersKwargs

        names += TransformersKwargs.__annotations__  # what any of its models reads there
    return list(dict.fromkeys(names))


def first_position(model: nn.Module) -> int:
    """The position of a first token: of RoBERTa and its kin, whose table has a row for padding, behind it."""
    tables = (table for name, table in model.named_modules() if name.endswith("position_embeddings"))
    padding = [row for table in tables if (row := getattr(table, "padding_idx", None)) is not None]
    return padding[0] + 1 if padding else 0


def refuse_recurrence(model: nn.Module) -> None:
    """Raise a `ValueError` if layers carry a state from token to token, beside attention or in its place."""
    for module in model.modules():
        if {"A_log", "recurrent_param"} & module._parameters.keys():  # Mamba and delta nets; Griffin
            raise ValueError(
                f"{type(model).__name__} also mixes tokens by recurrence ({type(module).__name__}), which "
                "rollout does not describe."
            )


def check_layers(model: nn.Module, caught: int, expected: int | None = None) -> None:
    """Raise a `ValueError` unless every layer's attention was caught, or as much as is `expected`."""
    expected = expected or n_layers(model)
    if not caught:
        raise ValueError(
            f"The attention of {type(model).__name__} does not go through transformers' attention interface, "
            "so it cannot be followed without its weights. Load the model with "
            'attn_implementation="eager", call it with output_attentions=True, and give the attentions to '
            "rollout(). (If it is a compiled model, give the one that was compiled.)"
        )
    if expected is not None and caught != expected:
        raise ValueError(
            f"{type(model).__name__} has {expected} layers, but {caught} attention calls went through "
            "transformers' attention interface: its other layers mix tokens in another way (recurrence, "
            "convolution, an attention of their own), which rollout does not describe."
        )


def n_layers(model: nn.Module) -> int | None:
    """How many layers a model says it has."""
    if isinstance(model, Transformer):
        return model.config.n_layers
    return getattr(_text_config(model), "num_hidden_layers", None)


def layers_apart(model: nn.Module) -> int | None:
    """How many layers have weights of their own: ALBERT's share theirs, in groups."""
    config = _text_config(model)
    groups = getattr(config, "num_hidden_groups", None)
    return n_layers(model) if groups is None else groups * config.inner_group_num


def check_prompt(
    model: nn.Module, input_ids: Any, attention_mask: Any, more: int = 0, *, name: str = "input_ids"
) -> None:
    """Raise a `ValueError` for tokens, given as `name`, that `model` cannot take, with `more` to come."""
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        raise ValueError(
            f"{type(model).__name__} is an encoder-decoder model, whose decoder looks at two sequences; "
            "rollout follows one. Give its encoder (model.get_encoder()), or a decoder-only model."
        )
    if not isinstance(input_ids, Tensor) or input_ids.ndim != 2:
        raise ValueError(
            f"{name} must be a tensor [batch token] (for one prompt, {name}[None]). Got "
            f"{form_of(input_ids)} instead."
        )
    if not input_ids.numel():
        raise ValueError(f"{name} must hold at least one token. Got an empty prompt.")
    if input_ids.is_floating_point() or input_ids.dtype == torch.bool:
        raise ValueError(f"{name} must be whole numbers. Got {input_ids.dtype} instead.")
    if attention_mask is not None:
        if not isinstance(attention_mask, Tensor):
            raise ValueError(
                f"attention_mask must be a tensor [batch token]. Got {form_of(attention_mask)} instead."
            )
        if attention_mask.shape != input_ids.shape:
            raise ValueError(
                f"attention_mask must have the shape of input_ids, {tuple(input_ids.shape)}. "
                f"Got {tuple(attention_mask.shape)} instead."
            )
        real = attention_mask.bool()
        if not bool((attention_mask == real).all()):
            raise ValueError(
                "attention_mask must be 1 for tokens and 0 for padding. Got "
                f"{attention_mask.unique().tolist()} instead."
            )
        if not bool(real.any(1).all()):
            raise ValueError(
                "attention_mask must leave at least one token of every batch element. Got only padding."
            )
    size, ids = vocabulary_of(model), input_ids if attention_mask is None else input_ids.where(real, 0)
    if size is not None and bool((beyond := (ids < 0) | (ids >= size)).any()):
        raise ValueError(f"{name} must be token ids from 0 to {size - 1}. Got {ids[beyond].tolist()}.")
    longest, limit = input_ids.shape[1] + more, context_of(model)
    if limit is not None and longest > limit:
        new = f" and {more} new ones" if more else ""
        raise ValueError(
            f"The prompt's {input_ids.shape[1]} tokens{new} are more than the model's context of {limit} "
            f"tokens. Shorten the prompt{', or ask for fewer new tokens' if more else ''}."
        )


def context_of(model: nn.Module) -> int | None:
    """The longest sequence a model is made for, if it says so."""
    if isinstance(model, Transformer):
        return model.config.max_length
    limit = getattr(_text_config(model), "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def vocabulary_of(model: nn.Module) -> int | None:
    """How many token ids a model reads, if it says so."""
    if isinstance(model, Transformer):
        return model.config.vocabulary
    size = getattr(_text_config(model), "vocab_size", None)
    return size if isinstance(size, int) else None


def form_of(given: Any) -> str:
    """What a message says was given: the shape of a tensor, or what it is instead."""
    return f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else f"a {type(given).__name__}"


def _text_config(model: nn.Module) -> Any:
    config: Any = getattr(model, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def model_dtype(model: nn.Module) -> torch.dtype:
    """What to multiply a model's attention in: float32, or better if the model is."""
    own = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    return torch.promote_types(own, torch.float32)
