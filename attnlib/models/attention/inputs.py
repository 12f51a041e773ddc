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
from attnlib.models.attention.forward import check_layers, layers_apart, refuse_other_mixing
from attnlib.models.attention.interface import Block, _opened, followed
from attnlib.models.attention.kernels import OwnCall
from attnlib.undoing import scope

Inputs = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values, `[batch head token channel]`, after positions were applied."""

Hidden = Callable[[AttentionCall], Bool[Tensor, "#batch #head query key"]]
"""Which keys are hidden from which queries of a call."""


@scope
def inputs_changed(model: nn.Module, change: Callable[[Tensor, Tensor, Tensor], Inputs]) -> Iterator[None]:
    """Let every layer compute attention from other queries, keys and values, inside a `with` block.

    Args:
        model: as in `watching`; the kind of kernel does not matter.
        change: of queries, keys and values, which keep their shapes.

    Raises:
        ValueError: a model of another kind, or (after the block) one whose attention did not come by here.

    Example:
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> model = Transformer(TransformerConfig(5, n_layers=1, causal=True))
        >>> with inputs_changed(model, lambda query, key, value: (0 * query, key, value)):
        ...     output = model(torch.tensor([[1, 2]]), output_attentions=True)
        >>> output.attentions[0, 0, 0].detach()
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])
    """
    with every_layer(model, lambda _, call: replace(call, *change(*call.inputs))):
        yield


@scope
def keys_hidden(model: nn.Module, hidden: Hidden) -> Iterator[None]:
    """Hide keys from queries in every layer, inside a `with` block: attention is spread over the others.

    Args:
        model: as in `watching`, with a kernel that takes any mask.
        hidden: of a layer's call. A query that is left without a key is not provided for.

    Raises:
        ValueError: as in `inputs_changed`; or (inside the block) the model's kernel takes no such mask.
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
    """Hand every call of attention that `model` makes in this context to `changed`, before it is computed.

    Args:
        model: as in `watching`.
        changed: of the `id` of the module that calls, and the call.
        needed: whether it is an error if a layer's call does not come by.
    """
    seen = set[int]()

    def change(module: int, call: AttentionCall) -> Affine:
        seen.add(module)
        changed(module, call)
        return AS_IT_IS

    if needed:
        refuse_other_mixing(model)
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
