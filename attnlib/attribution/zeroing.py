r"""Value zeroing: what a layer would have given a token, had it got nothing from another one.

With `y_i` the output of a layer at token `i`, and `y_i(-j)` the same where the value of token `j` is zero in
this layer's attention, whose weights stay as they are,

    C[i, j] ~ 1 - cos(y_i, y_i(-j))

with rows divided by their sums, and followed down through the layers (`attnlib.attribution.following`).

A layer is evaluated once more for every token that may be zeroed, and from after the attention weights on
only: what token `j` brings is taken from what attention brought.

References:
    Mohebbi et al. 2023, *Quantifying context mixing in transformers*, section 3; rolled out as in section 5,
    without another residual connection, which is in `y` already.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from attnlib.attribution.following import ROOM, blocks, followed_down, within
from attnlib.attribution.prompts import Prompts, measure
from attnlib.models.attention import evaluating
from attnlib.models.attention.parts import LayerParts, brought, parts_of


@measure
@torch.no_grad()
def value_zeroing(model: nn.Module, prompts: Prompts) -> Float[Tensor, "batch key"]:
    """Value zeroing, rolled out; scores sum to 1.

    For every layer it takes about the time of its feed-forward block on as many tokens as there are pairs of
    a query and a key. A token whose output no value changes is taken for its own.

    Raises:
        ValueError: as in `attnlib.models.attention.parts.parts_of`.
    """
    layers = parts_of(model, prompts.ids, check=prompts.query)
    with evaluating(model):
        return followed_down(layers, prompts.query, zeroing_rows)


def zeroing_rows(
    layer: LayerParts, attention: Float[Tensor, "batch head query key"], queries: slice
) -> Float[Tensor, "batch query key"]:
    """`C`, not normalised."""
    keys, dtype = layer.keys(queries), layer.anatomy.weight.dtype
    found = torch.zeros_like(attention[:, 0])
    for some in blocks(queries, layer.stream.numel(), ROOM):
        at, to = within(some, queries), within(layer.keys(some), keys)
        weights = attention[:, :, at, to]
        pairs = (weights != 0).any(1)
        example, query, _ = pairs.nonzero(as_tuple=True)
        x, o, y = (each[example, query + some.start] for each in (layer.stream, layer.attended, layer.output))
        brings = brought(weights, layer.carried[layer.keys(some)]).permute(1, 2, 0, 3)
        less = o - brings[pairs]  # [pair width]
        after = layer.anatomy.after_attention(x.to(dtype)[None], less.to(dtype)[None])
        without = layer.anatomy.output(after)[0].to(y.dtype)
        # half the squared distance of unit vectors is 1 - cos, without its rounding where cos is almost 1
        found[:, at, to][pairs] = (normalize(without, dim=-1) - normalize(y, dim=-1)).square().sum(-1) / 2
    return found
