"""What a layer computes its attention from, changed: queries, keys and values, or where it may look.

Where `changing` acts on the attention that comes out, these act on what goes in, in every layer at once, so
that the softmax takes it into account, and gradients do. They work behind any kernel that can be told the
same in its own words; fused ones stay fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attnlib.models.attention.affine import Affine
from attnlib.models.attention.call import AttentionCall
from attnlib.models.attention.forward import check_layers, refuse_recurrence
from attnlib.models.attention.interface import Block, _opened
from attnlib.models.attention.kernels import OwnCall

Inputs = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values, `[batch head token channel]`, after positions were applied."""

Hidden = Callable[[AttentionCall], Bool[Tensor, "#batch #head query key"]]
"""Which keys are hidden from which queries of a call."""


@contextmanager
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

    def changed(call: Any) -> None:
        call.inputs = change(*call.inputs)
        query, key, call.value = call.inputs
        call.query, call.key = query.detach(), key.detach()  # which is what watchers see

    with _every_layer(model, changed):
        yield


@contextmanager
def keys_hidden(model: nn.Module, hidden: Hidden) -> Iterator[None]:
    """Hide keys from queries in every layer, inside a `with` block: attention is spread over the others.

    Args:
        model: as in `watching`, with a kernel that takes any mask.
        hidden: of a layer's call. A query that is left without a key is not provided for.

    Raises:
        ValueError: as in `inputs_changed`; or (inside the block) the model's kernel takes no such mask.
    """

    def changed(call: Any) -> None:
        visible = call.visible() & ~hidden(call)
        if isinstance(call, OwnCall):
            call.mask = call.allowed = visible
            return
        mask = (
            call.mask if call.mask is not None and call.mask.is_floating_point() else call.query.new_zeros(())
        )
        call.mask = call.passed_mask = torch.where(visible, mask, torch.finfo(call.query.dtype).min)

    with _every_layer(model, changed):
        yield


@contextmanager
def _every_layer(model: nn.Module, changed: Callable[[Any], None]) -> Iterator[None]:
    refuse_recurrence(model)
    seen = set[int]()

    def change(layer: int, call: AttentionCall) -> Affine:
        seen.add(layer)
        changed(call)
        return Affine(1.0)  # what comes out stays

    modules = [id(module) for module in model.modules()]
    changes = {layer: lambda call, layer=layer: change(layer, call) for layer in modules}
    with _opened(model, Block(changes)):
        yield
    check_layers(model, len(seen))
