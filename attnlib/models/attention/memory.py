"""Keys and values of a pass, kept, so that causal models can go on from any position of it, many times.

What a model's own cache does for generation, for any kernel and also for our `Transformer`: nothing before a
position depends on what is changed at it or behind it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.models.attention.forward import logits_of, n_layers, refuse_recurrence
from attnlib.models.attention.inputs import every_layer, replace, set_visible
from attnlib.models.attention.interface import implementations
from attnlib.models.transformer import Transformer

Memory = dict[int, Any]
"""What a causal model's layers computed attention from, in a pass over some prompts: calls by module."""


@torch.no_grad()
def remembered(
    model: Any, input_ids: Int[Tensor, "batch token"], query: int
) -> tuple[Memory | None, Float[Tensor, "batch vocabulary"]]:
    """The logits at the query, and what the pass computed them from; None of models that cannot go on.

    Args:
        model: causal; in evaluation mode.
        input_ids: of one length, without padding.
        query: a position.
    """
    memory: Memory = {}
    if not _has_positions(model):
        return None, logits_of(model, input_ids, start=query)[:, 0]
    with every_layer(model, memory.__setitem__, needed=False):
        logits = logits_of(model, input_ids, start=query)[:, 0]
    plain = all(call.knows_mask and call.bias is None for call in memory.values())
    return memory if plain and len(memory) == n_layers(model) else None, logits


@contextmanager
def going_on(
    model: nn.Module, memory: Memory | None, row: int, start: int, copies: int
) -> Iterator[dict[str, Tensor]]:
    """Inside the block, the model is called with copies of what stands from position `start` on of a prompt.

    Args:
        model: the one that remembers.
        memory: of the pass; None where nothing is remembered, and then `start` is 0.
        row: which prompt of the pass.
        start: a position.
        copies: how many.

    Yields:
        What the model is to be called with beside the tokens.
    """
    if not memory or not start:
        yield {}
        return

    def longer(module: int, call: Any) -> None:
        before = memory[module]
        query, *now = call.inputs
        kept = (x[row, None, :, :start].expand(len(query), -1, -1, -1) for x in before.inputs[1:])
        replace(call, query, *(torch.cat(both, 2) for both in zip(kept, now, strict=True)))
        if before.mask is not None:  # it may add numbers to scores
            call.mask = _of(before.mask, row)[..., start:, :]
        set_visible(call, _of(before.visible(), row)[..., start:, :])

    key = next(iter(memory.values())).key
    places = torch.arange(start, key.shape[2], device=key.device)
    with every_layer(model, longer):
        yield {"position_ids": places.expand(copies, -1)}


def _of(mask: Tensor, row: int) -> Tensor:
    return mask[[row if len(mask) > 1 else 0]]


def _has_positions(model: Any) -> bool:
    """Whether a model takes positions, and knows of earlier tokens by keys and values only."""
    try:
        refuse_recurrence(model)
    except ValueError:
        return False
    if isinstance(model, Transformer):
        return True
    return bool(implementations(model)) and "position_ids" in inspect.signature(model.forward).parameters
