"""Heads taken out of a model while it runs, to see what they are needed for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

from torch import Tensor

from attnlib.generators.base import Head
from attnlib.models.transformer import Transformer

Instead = Literal["zero", "uniform"]


@contextmanager
def heads_ablated(
    model: Transformer, heads: Sequence[Head], instead: Instead = "zero"
) -> Iterator[Transformer]:
    r"""The model without some of its heads, inside a `with` block.

    A layer adds up what its heads bring, $\sum_h W_h A_h V_h$ ($W_h$ the head's slice of `out`). An ablated
    head brings

    - "zero": nothing. What follows may depend on something being there, if only on its mean, so part of the
      damage may be that of a missing constant;
    - "uniform": the mean of the values that a query may look at ($A_{qk}$ equal for all $k$): it still brings
      something, but does not choose. What is lost is what its attention is for.

    Args:
        model: a `Transformer`; it is as it was when the block ends.
        heads: `(layer, head)` of each, both counted from 0; none leaves the model as it is.
        instead: what stands in place of what they bring.

    Raises:
        ValueError: the model has no such head.

    Example:
        >>> import torch
        >>> from attnlib.models import TransformerConfig
        >>> model = Transformer(TransformerConfig(vocabulary=5)).eval()
        >>> ids = torch.tensor([[1, 2, 3]])
        >>> with heads_ablated(model, [(0, 1)]):
        ...     without = model(ids).logits
    """
    if instead not in ("zero", "uniform"):
        raise ValueError(f'instead should be "zero" or "uniform"; got {instead!r}')
    n_layers, n_heads = model.config.n_layers, model.config.n_heads
    wrong = [head for head in heads if not (0 <= head[0] < n_layers and 0 <= head[1] < n_heads)]
    if wrong:
        raise ValueError(f"there is no head {wrong[0]}: the model has {n_layers} layers of {n_heads} heads")
    attentions: list[Any] = [layer.attention for layer in model.layers]
    before = [attention.attend for attention in attentions]
    for layer, attention in enumerate(attentions):
        if chosen := sorted({head for at, head in heads if at == layer}):
            attention.attend = partial(_without, attention.attend, chosen, instead)
    try:
        yield model
    finally:
        for attention, function in zip(attentions, before, strict=True):
            attention.attend = function


def _without(
    original: Callable,
    heads: list[int],
    instead: Instead,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *rest: Any,
    **how: Any,
) -> tuple[Tensor, Tensor | None]:
    """`attend`, with some heads' output (and, if "uniform", their weights) replaced."""
    if instead == "uniform":
        q = q.clone()
        q[:, heads] = 0.0  # every score 0: the softmax over what a query may look at is even
        return original(q, k, v, *rest, **how)
    mixed, weights = original(q, k, v, *rest, **how)
    mixed = mixed.clone()
    mixed[:, heads] = 0.0
    return mixed, weights
