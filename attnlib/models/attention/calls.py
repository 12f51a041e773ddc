"""Every layer's attention call of one forward pass, kept: rows of attention can be had from it later."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.models.attention.affine import Affine
from attnlib.models.attention.call import AttentionCall
from attnlib.models.attention.forward import Mask, watched_pass
from attnlib.models.attention.interface import attention_modules, changing


def attention_calls(
    model: nn.Module, input_ids: Int[Tensor, "batch token"], attention_mask: Mask = None
) -> list[AttentionCall]:
    """Run a model once, without its language-model head; the call of every layer, first to last.

    They know what open blocks of `changing` do to them. What they hold is queries, keys and values: no
    attention is formed.

    Raises:
        ValueError: as in `watched_pass`; or it is not clear which modules compute attention.
    """
    kept: dict[int, AttentionCall] = {}

    def keep(layer: int, call: AttentionCall) -> Affine:
        kept[layer] = call
        return Affine(1.0)  # the last of the changes, and it changes nothing

    layers = range(len(attention_modules(model)))
    with changing(model, {layer: partial(keep, layer) for layer in layers}):
        watched_pass(model, [], input_ids, attention_mask)
    return [kept[layer] for layer in layers]


def keys_of(call: AttentionCall, queries: slice) -> slice:
    """All keys that any of these queries may look at lie in here."""
    return slice(*call._visible(queries.start, queries.stop))


@torch.no_grad()
def rows_of(call: AttentionCall, queries: slice) -> Float[Tensor, "batch head query key"]:
    """Attention of these queries on `keys_of` them, as the layer used it: after all changes.

    In float32 or better.

    Raises:
        ValueError: the kernel does not say.
    """
    if not call.can_block:
        raise ValueError(
            "its attention kernel forms no attention weights. Choose another with "
            'model.set_attn_implementation("sdpa").'
        )
    keys = keys_of(call, queries)
    rows = call.rows(queries.start, queries.stop, keys.start, keys.stop)
    for change in call.changes:
        rows = change.of_rows(rows, queries.start, queries.stop, keys.start, keys.stop)
    return rows.to(call.dtype)
