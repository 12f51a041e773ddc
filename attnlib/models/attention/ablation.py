"""Heads taken out of a model while it runs, to see what they are needed for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal, TypeVar

import torch
from torch import nn

from attnlib.generators.base import Head
from attnlib.models.attention.affine import Affine
from attnlib.models.attention.call import AttentionCall
from attnlib.models.attention.interface import changing, heads_by_layer

Instead = Literal["zero", "uniform"]
M = TypeVar("M", bound=nn.Module)


@contextmanager
def heads_ablated(model: M, heads: Sequence[Head], instead: Instead = "zero") -> Iterator[M]:
    r"""The model without some of its heads, inside a `with` block.

    A layer adds up what its heads bring, $\sum_h W_h A_h V_h$ ($W_h$ the head's slice of `out`). An ablated
    head brings

    - "zero": nothing, $A_h = 0$. What follows may depend on something being there, if only on its mean, so
      part of the damage may be that of a missing constant;
    - "uniform": the mean of the values that a query may look at ($A_{qk}$ equal for all $k$): it still brings
      something, but does not choose. What is lost is what its attention is for.

    The attention that the model returns when asked for is the changed one.

    Args:
        model: as in `reinforced`; it is as it was when the block ends.
        heads: `(layer, head)` of each, both counted from 0; none leaves the model as it is.
        instead: what stands in place of what they bring.

    Raises:
        ValueError: the model has no such head, or (inside the block) its kernel does not say where a query
            may look.

    Example:
        >>> import torch
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> model = Transformer(TransformerConfig(vocabulary=5)).eval()
        >>> ids = torch.tensor([[1, 2, 3]])
        >>> with heads_ablated(model, [(0, 1)]):
        ...     without = model(ids).logits
    """
    if instead not in ("zero", "uniform"):
        raise ValueError(f'instead should be "zero" or "uniform"; got {instead!r}')
    chosen = heads_by_layer(model, heads)
    with changing(model, {layer: partial(_without, chosen[layer], instead) for layer in chosen}):
        yield model


def _without(heads: list[int], instead: Instead, call: AttentionCall) -> Affine:
    out = torch.zeros(call.query.shape[1], 1, 1, dtype=call.dtype, device=call.query.device)
    out[heads] = 1.0
    if instead == "zero":
        return Affine(1 - out[None], sums_to_1=False)
    even = call.visible().to(call.dtype)
    return Affine(1 - out[None], out[None], even / even.sum(-1, keepdim=True).clamp(min=1))
