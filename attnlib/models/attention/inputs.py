"""What a layer computes its attention from, changed: queries, keys and values, or where it may look.

Where `changing` acts on the attention that comes out, these act on what goes in, in every layer at once, so
that the softmax takes it into account, and gradients do. They work behind any kernel that can be told the
same in its own words; fused ones stay fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attnlib.models.attention.call import AS_IT_IS, Affine, AttentionCall
from attnlib.models.attention.forward import check_layers, check_mixing, layers_apart
from attnlib.models.attention.interface import Block, _opened, followed
from attnlib.models.attention.kernels import OwnCall
from attnlib.undoing import scope

Inputs = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values, `[batch head token channel]`, after positions were applied."""

Hidden = Callable[[AttentionCall], Bool[Tensor, "#batch #head query key"]]
"""Which keys are hidden from which queries of a call."""


@scope
def inputs_changed(model: nn.Module, change: Callable[[Tensor, Tensor, Tensor], Inputs]) -> Iterator[None]:
    """Let every layer, whatever its kernel, attend with other queries, keys and values in a `with` block."""
    with every_layer(model, lambda _, call: replace(call, *change(*call.inputs))):
        yield


@scope
def keys_hidden(model: nn.Module, hidden: Hidden) -> Iterator[None]:
    """Hide keys from queries in every layer, inside a `with` block: attention is spread over the others.

    The model's kernel has to take any mask. A query that is left without a key is not provided for.
    """

    def hide(_: int, call: AttentionCall) -> None:
        visible = call.visible()
        set_visible(call, visible & ~hidden(call).to(visible.device))  # a model may be split over several

    with every_layer(model, hide):
        yield


@scope
def every_layer(
    model: nn.Module, changed: Callable[[int, Any], None], *, needed: bool = True
) -> Iterator[None]:
    """Hand every attention call in this context, with its module's `id`, to `changed` before it is computed.

    With `needed`, a model that mixes tokens in other ways, or a layer whose call does not come by, is an
    error.
    """
    seen = set[int]()

    def change(module: int, call: AttentionCall) -> Affine:
        seen.add(module)
        changed(module, call)
        return AS_IT_IS

    if needed:
        check_mixing(model)
    modules = map(id, followed(model).modules())
    with _opened(model, Block({module: partial(change, module) for module in modules})):
        yield
    if needed:
        check_layers(model, len(seen), layers_apart(model))


def replace(call: Any, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Let a call be computed from these."""
    call.inputs = query, key, value
    call.query, call.key, call.value = query.detach(), key.detach(), value  # which is what observers see


def set_visible(call: Any, visible: Bool[Tensor, "#batch #head query key"]) -> None:
    """Let a call look there, and nowhere else; numbers that its mask adds elsewhere stay."""
    if isinstance(call, OwnCall):
        call.mask = call.allowed = visible
        return
    added = call.query.new_zeros(())
    if call.mask is not None and call.mask.is_floating_point() and call.mask.shape[-2:] == visible.shape[-2:]:
        added = call.mask
    call.mask = call.passed_mask = torch.where(visible, added, torch.finfo(call.query.dtype).min)
