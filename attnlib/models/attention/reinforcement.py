r"""Attention pushed onto chosen keys while a model runs: does accuracy follow?

Looking where an algorithm looks may be a cause of right answers, or only go with them. So we intervene: in
chosen heads, the attention $A$ of every query with a reference is replaced on its way to the values $V$,

$$\text{mixture: } A' = (1 - s)\,A + s\,\frac{S}{\sum_k S_{qk}}
\qquad\qquad \text{as published: } A' = A + s\,S$$

with $S_{qk}$ = 1 where query $q$ should look, else 0, and $s$ the strength. A mixture is attention again: its
rows sum to 1, $s = 0$ changes nothing and $s = 1$ leaves nothing of what the head looked at by itself. The
published form (Spiegel et al. 2025, their repository's reinforcement notebooks) adds to weights that summed
to 1 already, so a head's output also grows with $s$, and with the number of reference keys.

A head's output is linear in its attention, so $A' V$ needs $A V$ and $S V$ only: the intervention works
behind any kernel, fused ones included, and costs one product with a 0/1 matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attnlib.generators.base import Head
from attnlib.models.attention.affine import Affine
from attnlib.models.attention.call import AttentionCall
from attnlib.models.attention.interface import changing, heads_by_layer


@contextmanager
def reinforced(
    model: nn.Module,
    heads: Sequence[Head] | None,
    reference: Bool[Tensor, "batch query key"],
    strength: float | int,
    *,
    as_published: bool = False,
) -> Iterator[None]:
    """Push attention onto `reference` in every call of `model` inside the `with` block.

    The attention that the model returns when asked for is the changed one. Queries without a reference are
    left alone. A call with fewer queries than keys (a generation that goes on from its cache) is taken for
    the last ones of its keys, and a shorter sequence than the reference for its beginning. Other threads see
    nothing of it, unless they run in a copy of this context.

    Args:
        model: a Hugging Face model that uses the attention interface, or our own `Transformer`.
        heads: which (layer, head)s; all if None.
        reference: S, for the batch that the model will be called with, padding included.
        strength: s; in [0, 1], or any number at least 0 `as_published`.
        as_published: see the module's docstring.

    Raises:
        ValueError: a strength or a head that cannot be, a model of another kind, or (inside the block) a
            batch that the reference does not fit.

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
    if strength < 0 or (strength > 1 and not as_published):
        allowed = "at least 0" if as_published else "from 0 to 1"
        raise ValueError(f"strength should be {allowed}; got {strength}")
    chosen = heads_by_layer(model, heads)
    push = partial(_push, reference, float(strength), as_published)
    with changing(model, {layer: partial(push, chosen[layer]) for layer in chosen}):
        yield


def causal_null(
    reference: Bool[Tensor, "batch query key"], seed: int = 0, *, first_key: int = 1
) -> Bool[Tensor, "batch query key"]:
    """As many keys per query as the reference has, drawn at random from those that the query may see.

    The control of `reinforced`: the same push, onto keys that the algorithm has no use for (or only by
    chance). Every key before a query, and the query itself, is as likely as any other.

    Args:
        reference: causal; right-padded sequences, with nothing on padding.
        seed: of the draws.
        first_key: keys before this one are never drawn; 1 spares the beginning-of-sequence token.
    """
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(reference.shape, generator=generator).to(reference.device)
    positions = torch.arange(reference.shape[-1], device=reference.device)
    visible = (positions <= positions[:, None]) & (positions >= first_key)
    order = draws.masked_fill(~visible, 2.0).argsort(-1).argsort(-1)  # rank of each key's draw in its row
    return (order < reference.sum(-1, keepdim=True)) & visible


def _push(
    reference: Bool[Tensor, "batch query key"],
    strength: float,
    as_published: bool,
    heads: list[int],
    call: AttentionCall,
) -> Affine:
    (batch, n_heads, n_queries, _), n_keys, have = call.query.shape, call.key.shape[2], reference.shape
    if have[0] != batch or have[1] < n_keys:
        raise ValueError(
            f"the reference is for {have[0]} sequences of up to {have[1]} tokens, and the model was "
            f"called with {batch} of {n_keys}: call it inside reinforced() with that one batch only"
        )
    onto = reference[:, n_keys - n_queries : n_keys, :n_keys].to(call.query.device, call.dtype)
    counts = onto.sum(-1, keepdim=True)
    chosen = torch.zeros(n_heads, 1, 1, dtype=call.dtype, device=call.query.device)
    chosen[heads] = strength
    push = chosen * (counts > 0)[:, None]  # nothing where there is no reference
    if as_published:
        return Affine(1.0, push, onto[:, None], sums_to_1=False)
    return Affine(1 - push, push, (onto / counts.clamp(min=1))[:, None])
