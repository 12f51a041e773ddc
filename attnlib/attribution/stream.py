"""A model's residual stream, at the place where a measure reads it, differentiates by it, or changes it.

Place 0 is the input embeddings, before positions are added; place `l` is what layer `l` (from 1) hands on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import Prompts
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of, n_layers
from attnlib.models.transformer import Transformer

Stream = Float[Tensor, "batch token width"]


@contextmanager
def passing(model: nn.Module, change: Callable[[Stream], Stream], layer: int = 0) -> Iterator[None]:
    """Send the stream through `change`, in this thread's passes of the model inside a `with` block.

    Raises:
        ValueError: the model has no such place.
    """

    def changed(module: nn.Module, given: Any, output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    with _place(model, layer).register_forward_hook(in_this_thread(changed)):
        yield


def in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A module's hook, for this thread alone: others may use the model meanwhile."""
    thread = get_ident()
    return lambda *given: hook(*given) if get_ident() == thread else None


@torch.no_grad()
def stream_of(
    model: nn.Module, ids: Int[Tensor, "batch token"], query: int, layer: int = 0
) -> tuple[Stream, Float[Tensor, "batch vocabulary"]]:
    """The stream, and the logits at the query.

    Raises:
        ValueError: the model has no such place, or predicts no token.
    """
    there = list[Tensor]()

    def keep(stream: Tensor) -> Tensor:
        there.append(stream)
        return stream

    with evaluating(model), passing(model, keep, layer):
        logits = logits_of(model, ids, start=query)[:, 0]
    return there[0], logits


def slope(
    model: nn.Module,
    prompts: Prompts,
    layer: int = 0,
    of: Callable[[Prompts, Tensor], Float[Tensor, " batch"]] = Prompts.score,
) -> tuple[Stream, Stream]:
    """The stream `x` and the gradient `d s / d x`, or that of another function of prompts and logits.

    Raises:
        ValueError: the model has no such place, or predicts no token.
    """
    there = list[Tensor]()

    def leaf(stream: Tensor) -> Tensor:
        there.append(stream.detach().requires_grad_())
        return there[-1]

    # in inference mode nothing could be differentiated
    with torch.inference_mode(False), torch.enable_grad(), evaluating(model), passing(model, leaf, layer):
        logits = logits_of(model, prompts.ids.clone(), start=prompts.query)[:, 0]
        explained = of(prompts.aimed(logits.detach()), logits).sum()
        (gradient,) = torch.autograd.grad(explained, there[:1])
    return there[0].detach(), gradient.to(torch.promote_types(gradient.dtype, torch.float32))


def embedding_of(model: Any) -> nn.Module:
    """The embedding of a model's input tokens.

    Raises:
        ValueError: it has none.
    """
    if isinstance(model, Transformer):
        return model.embedding
    try:
        found = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        found = None
    if not isinstance(found, nn.Module):
        raise ValueError(f"{type(model).__name__} has no embedding of its input tokens to differentiate by.")
    return found


def _place(model: nn.Module, layer: int) -> nn.Module:
    if layer == 0:
        return embedding_of(model)
    count = n_layers(model)
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    if not stacks or not count:
        raise ValueError(f"{type(model).__name__} has no list of layers; choose layer=0, its embeddings.")
    if not 1 <= layer <= count:
        raise ValueError(
            f"layer should be from 1 to {count}, or 0 for the input embeddings. Got {layer} instead."
        )
    return stacks[0][layer - 1]
