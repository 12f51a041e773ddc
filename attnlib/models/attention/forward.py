"""A model's forward pass with observers of its attention, and checks that its attention can be followed."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.models.attention.call import Affine, AttentionCall, Observer
from attnlib.models.attention.interface import alone, every_call, watching
from attnlib.models.base import evaluating
from attnlib.models.devices import brought, device_of
from attnlib.models.transformer import Transformer

Mask = Int[Tensor, "batch token"] | Bool[Tensor, "batch token"] | None

PACKAGE_ROOT = Path(__file__).parents[2]

PROBE = 4
"""The number of tokens in the texts on which a model is tested."""

_tried = WeakSet[nn.Module]()
"""Models found to mix tokens by attention only."""

_first_positions = WeakKeyDictionary[nn.Module, int]()
"""The result of `first_position` for each model."""


@torch.no_grad()  # the model's own computation takes no gradients
def watched_pass(
    model: Any,
    observers: Sequence[Observer],
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Mask = None,
    *,
    logits_from: int | None = None,
    gradients: bool = False,
    **model_inputs: Any,
) -> Float[Tensor, "batch position vocabulary"] | None:
    """Run a model once, in evaluation mode, without a cache, and show every layer's attention to `observers`.

    Returns the logits from position `logits_from` on. If that is None, the model's head is not run, and None
    is returned. The prompt has to be checked before by the caller (`check_prompt`). With padding on the left,
    positions count real tokens only, as in generation.
    """
    check_mixing(model)
    seen = 0

    def check(call: AttentionCall) -> None:
        nonlocal seen
        check_read_tokens(call, input_ids.shape[1], seen)
        seen += 1

    with watching(model, check, *observers, gradients=gradients):
        if logits_from is not None:
            found = logits_of(model, input_ids, attention_mask, logits_from, **model_inputs)
        else:
            found, body = None, _body(model)
            called(body, input_ids, _inputs(body, attention_mask, model_inputs))
    check_layers(model, seen)
    return found


def logits_of(
    model: Any,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Int[Tensor, "batch key"] | Bool[Tensor, "batch key"] | None = None,
    start: int = 0,
    **model_inputs: Any,
) -> Float[Tensor, "batch position vocabulary"]:
    """The logits of a language model, run in its present mode, from position `start` of `input_ids` on.

    With a cache, the attention mask has to cover the cached keys, too.
    """
    keep = input_ids.shape[1] - start
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        model_inputs = {"logits_to_keep": keep} | model_inputs
    output = called(model, input_ids, _inputs(model, attention_mask, model_inputs))
    logits = getattr(output, "logits", None)
    if logits is None or logits.ndim != 3:
        raise ValueError(
            f"{type(model).__name__} predicts no token at every position, so there is nothing to evaluate. "
            "Give a causal language model (AutoModelForCausalLM, or an attnlib Transformer)."
        )
    if logits.shape[1] not in (keep, input_ids.shape[1]):
        raise ValueError(
            f"{type(model).__name__} gives {logits.shape[1]} rows of scores for {input_ids.shape[1]} tokens, "
            "so that it is not known which of them is a token's."
        )
    return logits[:, -keep:].to(input_ids.device)  # a model may be split over several devices


class CannotRead(ValueError):
    """A model cannot be called with these inputs, even without observers."""


def called(model: nn.Module, input_ids: Int[Tensor, "batch token"], given: dict[str, Any]) -> Any:
    """The model's output; a library's error that also occurs without our hooks is raised as `CannotRead`."""
    try:
        return model(input_ids=input_ids, **given)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # libraries raise errors of any kind
        if not _is_of_libraries(error):  # the error of a hook, or of the caller's own model, is passed on
            raise
        with ThreadPoolExecutor(1) as plainly:  # in a new thread, none of our blocks and hooks is active
            again = plainly.submit(torch.no_grad()(model), input_ids=input_ids.clone(), **given).exception()
        if again is None:
            raise
        names = ", ".join(["input_ids", *(name for name, value in given.items() if value is not None)])
        raise CannotRead(
            f"{type(model).__name__} cannot be called with {names} ({type(error).__name__}: {error}). Give "
            "what else it reads by name, as rollout_of and generate_with_rollout take it (pixel_values=...), "
            "or take a model that reads tokens [batch token] alone, such as one of AutoModelForCausalLM."
        ) from error


def _is_of_libraries(error: Exception) -> bool:
    """Whether an error was raised by a package that is installed beside torch, other than this package."""
    last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return last.is_relative_to(Path(torch.__file__).parents[1]) and not last.is_relative_to(PACKAGE_ROOT)


def _inputs(model: Any, mask: Mask, given: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments with which a model's `forward` is called in addition to `input_ids`."""
    if isinstance(model, Transformer):
        return {"attention_mask": None if mask is None else mask.bool()} | given
    parameters = inspect.signature(model.forward).parameters
    inputs: dict[str, Any] = {"attention_mask": None if mask is None else mask.long()}
    if "use_cache" in parameters or any(p.kind == p.VAR_KEYWORD for p in parameters.values()):
        inputs["use_cache"] = False
    if (
        mask is not None
        and "position_ids" in taken_by(model)
        and not bool(mask[:, 0].all())
        and not first_position(model)  # other models compute their positions themselves
    ):
        inputs["position_ids"] = (mask.long().cumsum(1) - 1).clamp(min=0)
    return inputs | given


def taken_by(model: Any) -> set[str]:
    """The names of a model's `forward` parameters, including those of the model inside a PEFT wrapper."""
    inside = model.get_base_model() if hasattr(model, "get_base_model") else model
    return {name for each in (model, inside) for name in inspect.signature(each.forward).parameters}


def read_names(model: nn.Module) -> list[str]:
    """The argument names that the `forward` of a model, or of a model inside it, declares.

    Callers compare arguments with these names: a `forward` with `**kwargs` accepts misspelt ones silently.
    """
    forwards = [inspect.signature(module.forward).parameters for module in model.modules()]
    reading = [each for each in forwards if "input_ids" in each or each is forwards[0]]
    read = [parameter for each in reading for parameter in each.values()]
    names = [each.name for each in read if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if any(each.kind == each.VAR_KEYWORD for each in read):
        from transformers.utils import TransformersKwargs

        names += TransformersKwargs.__annotations__  # keyword arguments that transformers' models accept
    return list(dict.fromkeys(names))


def first_position(model: nn.Module) -> int:
    """The position of a text's first token (not 0 for RoBERTa's family), found once per model by trial."""
    if isinstance(model, Transformer):
        return 0
    if model not in _first_positions:
        text = short_texts(model)[0]
        n, longest = len(text), context_of(model) or 2 * PROBE
        with alone(), evaluating(model), torch.inference_mode(False), torch.no_grad():
            plainly = _last_state(model, text)
            for first in range(4):
                places = torch.arange(first, first + n, device=text.device)[None]
                state = _last_state(model, text, position_ids=places) if first + n <= longest else None
                if state is not None and plainly is not None and _alike(model, state, plainly):
                    _first_positions[model] = first
                    break
            else:
                raise ValueError(
                    f"{type(model).__name__} counts positions in a way of its own: with position_ids from 0, "
                    "1, 2 or 3 on it computes something else than without."
                )
    return _first_positions[model]


def _body(model: Any) -> Any:
    """A model without its head; a wrapper (such as PEFT's) is used whole, as it may add to the inputs."""
    model = getattr(model, "_orig_mod", model)  # the original of a compiled model, to avoid recompilation
    body = model.base_model if hasattr(type(model), "base_model_prefix") else model
    return body if "input_ids" in inspect.signature(body.forward).parameters else model


def check_mixing(model: nn.Module) -> None:
    """Raise a `ValueError` if a model mixes tokens in other ways than by attention that can be followed.

    Each model is tested once, on two texts of `PROBE` tokens that differ in all but the last: when every
    token attends only to itself, in every layer, the output at the last token must be the same.
    """
    if isinstance(model, Transformer) or model in _tried:
        return
    first, second = short_texts(model)
    seen = 0

    def itself(call: AttentionCall) -> Affine:
        nonlocal seen
        check_read_tokens(call, len(first), seen)
        seen += 1
        identity = torch.eye(len(first), dtype=call.dtype, device=call.query.device)
        return Affine(0.0, 1.0, identity[None, None])

    # the caller's open blocks must not observe or change these calls
    with alone(), torch.inference_mode(False), torch.no_grad(), every_call(model, itself):
        try:
            states = [state for each in (first, second) if (state := _last_state(model, each)) is not None]
        except (RuntimeError, CannotRead):  # the model cannot read so short a text; callers count its layers
            return
    if seen and states:
        moved, size = (states[0] - states[1]).abs().max(), torch.stack(states).abs().max()
        if bool(moved > rounding(model) * size):
            raise ValueError(
                f"{type(model).__name__} mixes tokens by more than the attention that can be followed "
                "(recurrence, convolution, an attention of its own): with each token's attention held on "
                f"itself, the tokens before still move the last one by {float(moved / size):.2g} of its "
                "size. Rollout does not describe that."
            )
    check_layers(model, seen // 2)
    _tried.add(model)


def _alike(model: nn.Module, state: Tensor, other: Tensor) -> bool:
    return bool((state - other).abs().max() <= rounding(model) * state.abs().max())


def rounding(model: nn.Module) -> float:
    """The largest relative difference that rounding may cause, in units of a state's largest number."""
    if any("quantized" in type(module).__module__ for module in model.modules()):
        return 0.3  # torch's dynamic quantisation rounds the numbers of all tokens together
    half = any(weight.is_floating_point() and weight.itemsize < 4 for weight in model.parameters())
    return 0.02 if half else 1e-4


def short_texts(model: nn.Module) -> Int[Tensor, "2 token"]:
    """Two texts without special tokens that have the same last token; all other tokens differ."""
    n, size = min(PROBE, context_of(model) or PROBE), vocabulary_of(model) or 1
    configs: list[Any] = [getattr(model, "config", None), _text_config(model)]
    settings = [config.to_dict() for config in configs if hasattr(config, "to_dict")]
    ids = (value for each in settings for name, value in each.items() if name.endswith("token_id"))
    named = {token for value in ids for token in (value if isinstance(value, list) else [value])}
    words = list[int]()
    for word in range(2 * n):
        start = size * word // (2 * n)
        words.append(next((token for token in range(start, size) if token not in {*words, *named}), start))
    return torch.tensor([words[:n], [*words[n:-1], words[n - 1]]], device=device_of(model))


def _last_state(model: nn.Module, ids: Int[Tensor, " token"], **given: Tensor) -> Tensor | None:
    """A model's output at the last token; None if no output has one entry per token."""
    body = _body(model)
    output = called(body, ids[None], _inputs(body, None, given))
    if isinstance(output, Tensor):
        output = [output]
    if not isinstance(output, Iterable):  # an object with attributes, which a user's model may return
        output = vars(output)
    values = output.values() if isinstance(output, Mapping) else output
    return next((x[0, -1] for x in values if isinstance(x, Tensor) and x.shape[:2] == (1, len(ids))), None)


def check_read_tokens(call: AttentionCall, n: int, layer: int) -> None:
    """Raise a `ValueError` for a call of attention that is not from and to the `n` tokens of `input_ids`."""
    queries, keys = call.query.shape[2], call.key.shape[2]
    if queries != n or keys != n:
        raise ValueError(
            f"Rollout follows self-attention over the {n} tokens of input_ids; layer {layer} attends from "
            f"{queries} queries to {keys} keys. Cross-attention, memories and learned prefixes cannot be "
            "followed."
        )


def check_layers(model: nn.Module, caught: int, expected: int | None = None) -> None:
    """Raise a `ValueError` unless the number of calls caught is `expected`, by default one per layer."""
    expected = expected or n_layers(model)
    if not caught:
        raise ValueError(
            f"The attention of {type(model).__name__}, if it has any, does not go through transformers' "
            "attention interface, so it cannot be followed without its weights. If the model returns them "
            '(loaded with attn_implementation="eager", called with output_attentions=True), give them to '
            "rollout(). (If it is a compiled model, give the one that was compiled.)"
        )
    if expected is not None and caught != expected:
        raise ValueError(
            f"{type(model).__name__} has {expected} layers, but {caught} attention calls went through "
            "transformers' attention interface. Rollout follows one for each layer."
        )


def n_layers(model: nn.Module) -> int | None:
    """The number of layers by a model's configuration; None if it does not say."""
    if isinstance(model, Transformer):
        return model.config.n_layers
    return getattr(_text_config(model), "num_hidden_layers", None)


def layers_apart(model: nn.Module) -> int | None:
    """The number of layers with weights of their own (ALBERT's layers share weights, in groups)."""
    config = _text_config(model)
    groups = getattr(config, "num_hidden_groups", None)
    return n_layers(model) if groups is None else groups * config.inner_group_num


def check_prompt(
    model: nn.Module, input_ids: Any, attention_mask: Any, more: int = 0, *, name: str = "input_ids"
) -> tuple[Int[Tensor, "batch token"], Any]:
    """Check a prompt, with `more` tokens to come; return ids and mask on the device that `model` expects.

    Raises:
        ValueError: the model cannot read them, or its attention cannot be followed.
    """
    check_model(model)
    check_no_learned_prompt(model)
    input_ids, attention_mask = brought(model, input_ids, attention_mask)
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False) and reads_two_texts(model):
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
        begins = real[:, 1:] & ~real[:, :-1]
        if bad := (begins.sum(1) + real[:, 0].long() > 1).nonzero().flatten().tolist():
            raise ValueError(
                "attention_mask must be 0 before the first token and behind the last one only. Got gaps "
                f"between tokens in batch elements {bad}: leave these out of input_ids."
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
    return input_ids, attention_mask


def check_model(model: Any) -> None:
    """Raise a `ValueError` if `model` is not a PyTorch module, is TorchScript, or reads no tokens."""
    if not isinstance(model, nn.Module):
        inside = ". Give the model inside it: pipeline.model" if hasattr(model, "model") else ""
        raise ValueError(f"model must be a PyTorch model; got a {type(model).__name__}{inside}")
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            f"{type(model).__name__} is of TorchScript, whose attention cannot be followed. Give the model "
            "that was traced."
        )
    reads = getattr(model, "main_input_name", "input_ids")
    if reads not in ("input_ids", "inputs_embeds") and "input_ids" not in read_names(model):
        raise ValueError(
            f"{type(model).__name__} reads {reads}, and what is followed here are tokens. For the rollout of "
            'its attention, load it with attn_implementation="eager", call it with output_attentions=True, '
            "and give the attentions to attnlib.rollout.rollout()."
        )


def reads_two_texts(model: nn.Module) -> bool:
    """Whether a model's decoder reads a second text; a mere encoder may have the same configuration."""
    return "decoder_input_ids" in read_names(model)


def check_no_learned_prompt(model: nn.Module) -> None:
    """Raise a `ValueError` for a model that reads learned vectors before its tokens (PEFT's soft prompts)."""
    adapter = getattr(model, "active_peft_config", None)
    if getattr(adapter, "is_prompt_learning", False) or getattr(adapter, "is_adaption_prompt", False):
        raise ValueError(
            f"{type(model).__name__} reads learned vectors before its tokens ({type(adapter).__name__}), and "
            "learned prefixes cannot be followed: scores would be of input_ids alone. Give an adapter that "
            "changes weights (LoRA, IA3), or, to ask the model without what it learned, "
            "model.get_base_model()."
        )


def context_of(model: nn.Module) -> int | None:
    """The longest sequence, in tokens, that a model is made for, if its configuration says so."""
    if isinstance(model, Transformer):
        return model.config.max_length
    limit = getattr(_text_config(model), "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def vocabulary_of(model: nn.Module) -> int | None:
    """The number of token ids that a model reads, if its configuration says so."""
    if isinstance(model, Transformer):
        return model.config.vocabulary
    size = getattr(_text_config(model), "vocab_size", None)
    return size if isinstance(size, int) else None


def embedded_by(model: Any) -> int | None:
    """The number of token ids in a model's embedding, or, as PEFT's does not say, in its configuration."""
    return getattr(model.get_input_embeddings(), "num_embeddings", None) or vocabulary_of(model)


def form_of(given: Any) -> str:
    """A description of an argument for error messages: a tensor's shape, or the type of anything else."""
    return f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else f"a {type(given).__name__}"


def _text_config(model: nn.Module) -> Any:
    config: Any = getattr(model, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def model_dtype(model: nn.Module) -> torch.dtype:
    """The precision for products with a model's attention: float32, or the model's if that is higher."""
    own = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    return torch.promote_types(own, torch.float32)
