"""A model's residual stream, at the place where a measure reads it, differentiates by it, or changes it.

Place 0 is the input embeddings, before positions are added; place `l` is the output of layer `l` (from 1).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import get_ident
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import Prompts
from attnlib.checks import check_between
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import form_of, logits_of, n_layers
from attnlib.models.attention.interface import followed
from attnlib.models.transformer import Transformer
from attnlib.undoing import scope, undone

Stream = Float[Tensor, "batch token width"]


class Hook(NamedTuple):
    """A module's forward hook. If it runs `before` the module, it gets the keyword arguments, too."""

    module: nn.Module
    function: Callable[..., Any]
    before: bool = False


@scope
def hooked(hooks: Iterable[Hook]) -> Iterator[None]:
    """Set hooks inside a `with` block, for this thread alone: other threads may use the model meanwhile."""
    thread, made = get_ident(), list[tuple[nn.Module, Callable]]()

    def here(function: Callable, *given: Any) -> Any:
        return function(*given) if get_ident() == thread else None

    def remove() -> None:
        for module, function in made:
            tables = [each for name, each in vars(module).items() if name.startswith("_forward_")]
            own = [key for table in tables for key, each in table.items() if each is function]
            for table in tables:
                for key in own:
                    table.pop(key, None)

    with undone(remove):
        for module, function, before in hooks:
            function = partial(here, function)
            made.append((module, function))  # to find it again, even if its handle is lost
            if before:
                module.register_forward_pre_hook(function, with_kwargs=True)
            else:
                module.register_forward_hook(function)
        yield


@scope
def passing(model: nn.Module, change: Callable[[Stream], Stream], layer: int = 0) -> Iterator[None]:
    """Send the stream through `change`, in this thread's passes of the model inside a `with` block."""

    def changed(module: nn.Module, given: Any, output: Any) -> Any:
        several = type(output) in (tuple, list)
        stream = output[0] if several else output
        if not isinstance(stream, Tensor) or stream.ndim != 3:
            raise ValueError(
                f"{type(model).__name__} hands on {form_of(stream)} from layer {layer}, where a stream would "
                "be [batch token width]. Choose layer=0, the input embeddings."
            )
        return type(output)([change(stream), *output[1:]]) if several else change(stream)

    with hooked([Hook(_place(model, layer), changed)]):
        yield


@torch.no_grad()
def stream_of(
    model: nn.Module, ids: Int[Tensor, "batch token"], query: int, layer: int = 0
) -> tuple[Stream, Float[Tensor, "batch vocabulary"]]:
    """The stream at place `layer`, and the logits at the query."""
    there = list[Tensor]()

    def keep(stream: Tensor) -> Tensor:
        there.append(stream.clone())  # some models change the stream in place
        return stream

    with evaluating(model), passing(model, keep, layer):
        logits = logits_of(model, ids, start=query)[:, 0]
    _check_stream(model, there, ids)
    return there[0], logits


@scope
def differentiating(model: nn.Module) -> Iterator[None]:
    """Let passes of the model be differentiated inside a `with` block, even if inference mode is on.

    A failed assertion of transformers (Reformer's: that the model is in training) becomes a `ValueError`.
    """
    try:
        with torch.inference_mode(False), torch.enable_grad(), evaluating(model):
            yield
    except AssertionError as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if not frame.f_globals.get("__name__", "").startswith("transformers."):
            raise  # from a hook, or from the caller's own model
        raise ValueError(f"{type(model).__name__} cannot be differentiated as it is used: {error}") from error


def slope(
    model: nn.Module,
    prompts: Prompts,
    layer: int = 0,
    of: Callable[[Prompts, Tensor], Float[Tensor, " batch"]] = Prompts.score,
) -> tuple[Stream, Stream]:
    """The stream `x` and the gradient `d s / d x`; a function `of` prompts and logits may replace `s`."""
    ((x, gradient),) = slopes(model, prompts.ids, [prompts], layer, of)
    return x, gradient


def slopes(
    model: nn.Module,
    ids: Int[Tensor, "batch token"],
    asked: Sequence[Prompts],
    layer: int = 0,
    of: Callable[[Prompts, Tensor], Float[Tensor, " batch"]] = Prompts.score,
) -> list[tuple[Stream, Stream]]:
    """`slope` of several prompts that are beginnings of `ids`: one forward pass, and one backward pass each.

    If a prompt does not have all of the tokens of `ids`, the model has to be causal.
    """
    there, first = list[Tensor](), min(prompts.query for prompts in asked)
    found = list[tuple[Tensor, Tensor]]()

    def leaf(stream: Tensor) -> Tensor:
        there.append(stream.detach().requires_grad_())
        return there[-1].clone()  # some models change it in place

    with differentiating(model), passing(model, leaf, layer):
        every = logits_of(model, ids.clone(), start=first)
        _check_stream(model, there, ids)
        for prompts in asked:
            logits = every[:, prompts.query - first]
            explained = of(prompts.aimed(logits.detach()), logits).sum()
            gradient = gradient_of(model, explained, there[0], again=prompts is not asked[-1])
            found.append((there[0].detach(), gradient.to(torch.promote_types(gradient.dtype, torch.float32))))
    return found


def gradient_of(model: nn.Module, score: Float[Tensor, ""], stream: Stream, again: bool = False) -> Stream:
    """`d score / d stream`; `again` keeps the graph, for another gradient of the same pass."""
    try:
        (found,) = torch.autograd.grad(score, stream, retain_graph=again)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise ValueError(f"{type(model).__name__} cannot be differentiated as it is used: {error}") from error
    return found


def _check_stream(model: nn.Module, there: list[Tensor], ids: Int[Tensor, "batch token"]) -> None:
    """Raise a `ValueError` unless a stream passed, with one vector for each token of the prompts."""
    if not there:
        raise ValueError(
            f"{type(model).__name__} reads these tokens without the part of it that would hand on the stream."
        )
    if there[0].shape[:2] != ids.shape:
        raise ValueError(
            f"{type(model).__name__} reads {tuple(there[0].shape[:2])} vectors of a prompt "
            f"{tuple(ids.shape)}: not one for each token, or not in their order, so scores cannot "
            "be assigned to tokens."
        )


def embedding_of(model: Any) -> nn.Module:
    """The embedding of a model's input tokens."""
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
    parts = followed(model).modules()
    stacks = [part for part in parts if isinstance(part, nn.ModuleList) and len(part) == count]
    if not stacks or not count:
        raise ValueError(f"{type(model).__name__} has no list of layers; choose layer=0, its embeddings.")
    check_between(1, count, layer=layer)
    return stacks[0][layer - 1]
