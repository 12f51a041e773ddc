r"""Changes of a layer's attention: each is a multiple of the original plus a multiple of another matrix.

    A'_h = a_h A_h + b_h S_h

with `A_h` the attention of head `h`, `a_h` and `b_h` a number for each query, and `S_h` any matrix `[query
key]`. So a head's output is `A'_h V = a_h (A_h V) + b_h (S_h V)`, whatever kernel computes `A_h V`, fused
ones included. A second change acts on the result of the first. This module has two changes of chosen heads
(by `heads_changed`):

`reinforced`
    Pushes attention onto chosen keys. Attention to the keys that an algorithm uses may cause right answers,
    or only be correlated with them; an intervention tells the two apart.

`heads_ablated`
    Removes heads, to measure what they are needed for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.generators.base import Head
from attnlib.models.attention.call import Affine, AttentionCall
from attnlib.models.attention.interface import changing, heads_by_layer
from attnlib.options import plain_options
from attnlib.undoing import scope

Instead = Literal["zero", "uniform"]
Chosen = Float[Tensor, "1 head 1 1"]
"""1 for the heads of a layer that are chosen, 0 for the others."""

M = TypeVar("M", bound=nn.Module)


@scope
def heads_changed(
    model: nn.Module,
    heads: Sequence[Head] | None,
    change: Callable[[AttentionCall, Chosen, int], Affine],
) -> Iterator[None]:
    """Change the attention of chosen heads (None: all) in every call of `model` inside a `with` block."""
    picked = heads_by_layer(model, heads)

    def of_layer(layer: int, call: AttentionCall) -> Affine:
        chosen = call.query.new_zeros(1, call.query.shape[1], 1, 1, dtype=call.dtype)
        chosen[:, picked[layer]] = 1
        return change(call, chosen, layer)

    with changing(model, {layer: partial(of_layer, layer) for layer in picked}):
        yield


@plain_options
@scope
def reinforced(
    model: nn.Module,
    heads: Sequence[Head] | None,
    reference: Bool[Tensor, "batch query key"],
    strength: float | int,
    *,
    as_published: bool = False,
) -> Iterator[None]:
    r"""Push attention onto `reference` in every call of `model` inside the `with` block.

    In chosen heads, the attention $A$ of every query with a reference is replaced on its way to the values,

    $$\text{mixture: } A' = (1 - s)\,A + s\,\frac{S}{\sum_k S_{qk}}
    \qquad\qquad \text{as published: } A' = A + s\,S$$

    with $S_{qk}$ = 1 where query $q$ should look, else 0, and $s$ the strength. A mixture is attention again:
    its rows sum to 1, $s = 0$ changes nothing and $s = 1$ removes the head's own attention entirely. The
    published form (Spiegel et al. 2025, their repository's reinforcement notebooks) adds to weights that
    already sum to 1, so a head's output also grows with $s$, and with the number of keys.

    If the model returns attention weights, they are the changed ones. Queries without a reference are not
    changed. If a call has fewer queries than keys (generation with a cache), its queries are taken to be the
    last of the tokens; a sequence shorter than the reference is taken to be its beginning. Other threads are
    not affected, unless they run in a copy of this context.

    Args:
        model: a Hugging Face model that uses the attention interface, or our own `Transformer`.
        heads: pairs (layer, head), both counted from 0; all heads if None.
        reference: S, for the batch that the model will be called with, padding included.
        strength: s; in [0, 1], or any number of at least 0 if `as_published`.
        as_published: use the published form instead of the mixture.

    Raises:
        ValueError: `reference` is not boolean, the strength is out of range, a head does not exist, the model
            is of another kind, or (inside the block) the reference does not fit the batch or the cache.

    Example:
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> model = Transformer(TransformerConfig(5, n_layers=1, causal=True))
        >>> first = torch.zeros(1, 3, 3, dtype=torch.bool)
        >>> first[..., 0] = True
        >>> with reinforced(model, None, first, 1.0):
        ...     output = model(torch.tensor([[1, 2, 3]]), output_attentions=True)
        >>> output.attentions[0, 0, 0, :, 0]
        tensor([1., 1., 1.], grad_fn=<SelectBackward0>)
    """
    _check_reference(reference)
    if not 0 <= strength <= (math.inf if as_published else 1):
        allowed = "at least 0" if as_published else "from 0 to 1"
        raise ValueError(f"strength must be {allowed}; got {strength}")

    def pushed(call: AttentionCall, chosen: Chosen, layer: int) -> Affine:
        (batch, _, n_queries, _), n_keys, have = call.query.shape, call.key.shape[2], reference.shape
        if have[0] != batch or have[1] < n_keys:
            raise ValueError(
                f"the reference is for {have[0]} sequences of up to {have[1]} tokens, and the model was "
                f"called with {batch} of {n_keys}: call it inside reinforced() with that one batch only"
            )
        if not call.has_every_key:
            raise ValueError(
                "this cache does not hold the keys of all tokens so far, one behind the other (a sliding "
                "window, or room kept in advance): which token a key is of is not known. Call, or "
                "generate, with use_cache=False"
            )
        onto = reference[:, n_keys - n_queries : n_keys, :n_keys].to(call.query.device, call.dtype)
        counts = onto.sum(-1, keepdim=True)
        push = float(strength) * chosen * (counts > 0)[:, None]  # 0 for queries without a reference
        if as_published:
            return Affine(1.0, push, onto[:, None], sums_to_1=False)
        return Affine(1 - push, push, (onto / counts.clamp(min=1))[:, None])

    with heads_changed(model, heads, pushed):
        yield


def _check_reference(reference: Any) -> None:
    """Raise a `ValueError` for a reference that is not a boolean tensor `[batch query key]`."""
    if not isinstance(reference, Tensor) or reference.dtype != torch.bool or reference.ndim != 3:
        got = f"a {type(reference).__name__}"
        if isinstance(reference, Tensor):
            got = f"{reference.dtype} of shape {tuple(reference.shape)}"
        raise ValueError(f"reference must be True or False, a tensor [batch query key]; got {got}")


@plain_options
def causal_null(reference: Bool[Tensor, "batch query key"], seed: int = 0) -> Bool[Tensor, "batch query key"]:
    """A random reference with as many keys per query as `reference` has (or all, if there are fewer).

    It is the control of `reinforced`: the same push, onto keys that the algorithm does not use (or only by
    chance). Keys are drawn uniformly from those up to the query itself, except the first one, the
    beginning-of-sequence token, which is never drawn.

    Args:
        reference: a causal reference for right-padded sequences, False on padding.
        seed: seed of the random draws.
    """
    _check_reference(reference)
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(reference.shape, generator=generator).to(reference.device)
    positions = torch.arange(reference.shape[-1], device=reference.device)
    visible = (positions <= positions[:, None]) & (positions > 0)
    order = draws.masked_fill(~visible, 2.0).argsort(-1).argsort(-1)  # rank of each key's draw in its row
    return (order < reference.sum(-1, keepdim=True)) & visible


@plain_options
@scope
def heads_ablated(model: M, heads: Sequence[Head], instead: Instead = "zero") -> Iterator[M]:
    r"""Ablate some of the model's heads inside a `with` block.

    A layer adds up its heads' contributions, $\sum_h W_h A_h V_h$ ($W_h$ the head's slice of `out`). The
    contribution of an ablated head is

    - "zero": nothing, $A_h = 0$. Later layers may depend on the contribution's mean, so part of the damage
      may come from a missing constant;
    - "uniform": that of uniform attention, the mean of the values that a query may look at ($A_{qk}$ equal
      for all $k$). Only the selection of keys is lost.

    If the model returns attention weights, they are the changed ones.

    Args:
        model: as in `reinforced`; it is unchanged after the block.
        heads: `(layer, head)` of each, both counted from 0; an empty list leaves the model as it is (`None`
            means all heads, as in `reinforced`).
        instead: the contribution of ablated heads, see above.

    Raises:
        ValueError: the model has no such head, or (inside the block) "uniform" is not possible because only
            the model's kernel determines where a query may look.

    Example:
        >>> import torch
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> model = Transformer(TransformerConfig(vocabulary=5)).eval()
        >>> ids = torch.tensor([[1, 2, 3]])
        >>> with heads_ablated(model, [(0, 1)]):
        ...     without = model(ids).logits
    """
    if instead not in ("zero", "uniform"):
        raise ValueError(f'instead must be "zero" or "uniform"; got {instead!r}')

    def without(call: AttentionCall, out: Chosen, layer: int) -> Affine:
        if instead == "zero":
            return Affine(1 - out, sums_to_1=False)
        even = call.visible().to(call.dtype)
        return Affine(1 - out, out, even / even.sum(-1, keepdim=True).clamp(min=1))

    with heads_changed(model, heads, without):
        yield model
