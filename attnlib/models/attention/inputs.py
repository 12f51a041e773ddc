"""Changes of the inputs of attention: queries, keys and values, or the mask.

While `changing` acts on the attention that results, the functions here act on its inputs, in every layer at
once, so that softmax and gradients take the change into account. They work with any kernel that accepts the
changed arguments; fused kernels stay fused.
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
"""A function that returns True for the keys that are to be hidden from a call's queries."""


@scope
def inputs_changed(model: nn.Module, change: Callable[[Tensor, Tensor, Tensor], Inputs]) -> Iterator[None]:
    """Replace queries, keys and values by `change` of them in every layer inside a `with` block."""
    with every_layer(model, lambda _, call: replace(call, *change(*call.inputs))):
        yield


@scope
def keys_hidden(model: nn.Module, hidden: Hidden) -> Iterator[None]:
    """Hide keys from queries in every layer inside a `with` block; the softmax is over the other keys.

    The model's kernel has to accept any mask. Every query has to keep at least one key (not checked).
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
    """Call `changed(id of module, call)` before each attention call of `model` inside a `with` block.

    With `needed`, a `ValueError` is raised if the model mixes tokens in other ways than by attention, or if a
    layer's call did not occur.
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
    """Compute a call from this query, key and value."""
    call.inputs = query, key, value
    call.query, call.key, call.value = query.detach(), key.detach(), value  # observers see these


def set_visible(call: Any, visible: Bool[Tensor, "#batch #head query key"]) -> None:
    """Restrict a call to `visible` keys; at these, values that its mask adds to scores are kept."""
    if isinstance(call, OwnCall):
        call.mask = call.allowed = visible
        return
    added = call.query.new_zeros(())
    if call.mask is not None and call.mask.is_floating_point() and call.mask.shape[-2:] == visible.shape[-2:]:
        added = call.mask
    call.mask = call.passed_mask = torch.where(visible, added, torch.finfo(call.query.dtype).min)
