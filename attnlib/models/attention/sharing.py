r"""Attention shared out by kind of key: each kind gets what is given, and all keys of a kind the same.

In chosen heads, the attention $A$ of every query that is chosen, too, becomes

$$A'_{qk} = \sum_r \frac{p_r}{\sum_{r'} p_{r'}} \frac{R_{rqk}}{\sum_{k'} R_{rqk'}}$$

with $R_{rqk}$ = 1 where key $k$ is of kind $r$ for query $q$, and $p_r$ the head's share for that kind; sums
over kinds are over those that the query has keys of. So attention can be carried over from texts of one
length to texts of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlib.generators.base import Head
from attnlib.models.attention.affine import Affine
from attnlib.models.attention.call import AttentionCall
from attnlib.models.attention.interface import changing, heads_by_layer


@contextmanager
def shared_out(
    model: nn.Module,
    heads: Sequence[Head] | None,
    kinds: Bool[Tensor, "kind batch query key"],
    queries: Bool[Tensor, "batch query"],
    shares: Float[Tensor, "layer head kind"],
) -> Iterator[None]:
    """Share out attention by kind of key in every call of `model` inside the `with` block.

    Args:
        model: a Hugging Face model that uses the attention interface, or our own `Transformer`.
        heads: which (layer, head)s; all if None.
        kinds: R, for the batch that the model will be called with, whole; no key is of two kinds.
        queries: those whose attention is changed; the others' is left alone.
        shares: p, at least 0. A query whose kinds have no share in a head is left alone there.

    Raises:
        ValueError: a head that cannot be, a model of another kind, or (inside the block) a batch that the
            kinds do not fit.
    """
    chosen = heads_by_layer(model, heads)
    share = partial(_share, kinds, queries)
    with changing(model, {layer: partial(share, shares[layer], chosen[layer]) for layer in chosen}):
        yield


def _share(
    kinds: Bool[Tensor, "kind batch query key"],
    queries: Bool[Tensor, "batch query"],
    shares: Float[Tensor, "head kind"],
    heads: list[int],
    call: AttentionCall,
) -> Affine:
    have = (call.query.shape[0], call.query.shape[2], call.key.shape[2])
    if have != tuple(kinds.shape[1:]):
        raise ValueError(
            f"the kinds are of {kinds.shape[1]} sequences of {kinds.shape[2]} tokens, and the model was "
            f"called with {have[0]} of {have[2]}: call it inside shared_out() with that one batch only"
        )
    device, dtype = call.query.device, call.dtype
    each = kinds.to(device, dtype)
    each = each / each.sum(-1, keepdim=True).clamp(min=1)  # [kind batch query key]
    onto = torch.einsum("hr,rbqk->bhqk", shares.to(device, dtype), each)
    total = onto.sum(-1, keepdim=True)
    chosen = torch.zeros(len(shares), 1, 1, dtype=dtype, device=device)
    chosen[heads] = 1
    push = chosen * (queries.to(device)[:, None, :, None] & (total > 0))
    return Affine(1 - push, push, onto / total.where(total > 0, 1))
