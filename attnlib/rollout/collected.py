"""Queries and keys of a generation, collected while it happens: rollout then needs no second pass.

A step of `generate` computes attention of its new tokens only, on keys that the model kept. So each layer's
new queries and new keys, joined, are those of one pass over the whole text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.models.attention.call import AttentionCall
from attnlib.models.attention.forward import n_layers
from attnlib.rollout.recursion import Recursion


class Step(NamedTuple):
    """The inputs of one layer's attention in one step; query and key are of the new tokens.

    Attributes:
        visible: where the queries may look among the last `keys` keys; None for all up to themselves.
        keys: how many keys there were, those of earlier steps included.
        weighs: whether the mask also adds numbers to the scores of visible keys; None if it cannot.
    """

    query: Float[Tensor, "1 head new channel"]
    key: Float[Tensor, "1 kv_head new channel"]
    visible: Bool[Tensor, "1 _ new key"] | None
    keys: int
    weighs: Bool[Tensor, ""] | None = None


class Collected:
    """Every layer's steps, in the order in which layers are called: an observer of a model that generates."""

    def __init__(self) -> None:
        self.steps: dict[int, list[Step]] = {}
        self.scales: dict[int, float] = {}

    def __call__(self, call: Any) -> None:
        """Collect one layer of one step, if it is plain softmax attention, with one mask for all heads."""
        mask = call.mask
        if (
            not call.sums_to_1
            or call.changes
            or call.bias is not None
            or (mask is not None and mask.shape[1] > 1)
        ):
            return
        module = id(call.module)
        new, keys = call.query.shape[2], call.key.shape[2]
        known = mask is None and (new == 1 or (call.causal and new == keys))
        visible = None if known else call.visible()
        added = mask is not None and mask.dtype != torch.bool
        key = call.key[:, :, -new:].clone()  # a view would keep the memory of all keys
        self.steps.setdefault(module, []).append(
            Step(call.query, key, visible, keys, (visible & (mask != 0)).any() if added else None)
        )
        self.scales[module] = call.scale

    def joined(self, model: nn.Module, n: int) -> list[AttentionCall] | None:
        """Every layer's attention over `n` tokens; None if the tokens were not read once each, in order."""
        if len(self.steps) != n_layers(model):
            return None
        calls = [_join(steps, n, self.scales[module]) for module, steps in self.steps.items()]
        found = [call for call in calls if call is not None]
        return found if len(found) == len(calls) else None


@torch.no_grad()
def follow(recursion: Recursion, calls: Sequence[AttentionCall]) -> None:
    """Run a recursion through layers whose queries and keys were collected before."""
    for call in calls:
        with torch.autocast(call.query.device.type, enabled=False), suppress(StopIteration):
            started = recursion(call)
            started.send(*call.products([next(started)]))


def _join(steps: list[Step], n: int, scale: float) -> AttentionCall | None:
    ends = torch.tensor([step.query.shape[2] for step in steps]).cumsum(0).tolist()
    if ends[-1] != n or any(step.keys > end for step, end in zip(steps, ends, strict=True)):
        return None  # a candidate was rejected, or a cache was given or is too long
    if any(step.weighs is not None and bool(step.weighs) for step in steps):
        return None
    query, key = (torch.cat(parts, 2) for parts in zip(*(step[:2] for step in steps), strict=True))
    mask = None
    if any(step.visible is not None or step.keys < end for step, end in zip(steps, ends, strict=True)):
        mask = torch.zeros(1, 1, n, n, dtype=torch.bool, device=query.device)
        for step, end in zip(steps, ends, strict=True):
            row = slice(end - step.query.shape[2], end), slice(end - step.keys, end)
            mask[..., *row] = _all_before(step) if step.visible is None else step.visible
    call = AttentionCall(query, key, key[..., :0], mask, causal=True, scale=scale)
    call.can_fuse = False  # it has no kernel of its own
    return call


def _all_before(step: Step) -> Bool[Tensor, "new key"]:
    new = step.query.shape[2]
    return torch.ones(new, step.keys, dtype=torch.bool, device=step.query.device).tril_(step.keys - new)
