r"""Attention rollout by its definition: the slow and exact reference for every faster implementation.

A transformer's layer moves information between tokens by attention, and keeps what each token had by the
residual connection. Attention rollout (Abnar and Zuidema 2020, "Quantifying attention flow in transformers",
section 3) describes a layer by one matrix, half attention and half identity, and multiplies the layers:

    A_l = sum_h w_lh A_lh                     attention, averaged over the layer's heads
    M_l = rownorm(A_l + I)                    with the residual connection
    R_l = M_l R_(l-1)         R_0 = I         from the first layer up

Here `A_lh[q, k]` is how much of its attention query `q` gives key `k` in head `h` of layer `l`; `w_lh` is the
head's weight, `1 / heads` unless said otherwise; `I` is the identity; `rownorm` divides each row by its sum.
`R_l[q, k]` is then the share of input token `k` in the state of token `q` after layer `l`. Rows sum to 1.

Nothing here is fast: attention matrices have to be given, everything is in double precision, and every layer
is multiplied whole. The tests compare these faster implementations with this one:

    dense.py       given attention matrices, in one product with the heads' mean
    value_slot.py  a running model, without attention matrices: by its own kernel, or in blocks
    generative.py  generated text, in one pass
    stream.py      generated text, while it is generated
    null.py        uniform attention, as a running mean
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

Matrix = Float64[Tensor, "batch query key"]


def rollout_by_definition(
    attentions: Sequence[Float[Tensor, "batch _ query key"]],
    head_weights: Float[Tensor, "layer head"] | None = None,
    *,
    residual: bool = True,
    sink: Sequence[int] | None = None,
) -> Float64[Tensor, "batch layer query key"]:
    """`R_1 ... R_L` of the module's docstring; keys of the `sink` are left out by `without_sink`."""
    batch, n = len(attentions[0]), attentions[0].shape[-1]
    below, found = torch.eye(n, dtype=torch.float64).expand(batch, n, n), []
    for layer, attention in enumerate(attentions):
        weights = None if head_weights is None else head_weights[layer]
        below = layer_matrix(attention, weights, residual, sink) @ below
        found.append(below)
    return torch.stack(found, 1)


def layer_matrix(
    attention: Float[Tensor, "batch head query key"],
    weights: Float[Tensor, " head"] | None = None,
    residual: bool = True,
    sink: Sequence[int] | None = None,
) -> Matrix:
    """`M_l`, from the attention of one layer."""
    heads = attention.double()
    weights = (
        torch.full((heads.shape[1],), 1 / heads.shape[1], dtype=heads.dtype) if weights is None else weights
    )
    mean = (weights.double()[:, None, None] * heads).sum(1)
    if sink is not None:
        mean = without_sink(mean, sink)
    mixed = mean + torch.eye(mean.shape[-1]) if residual else mean
    return mixed / mixed.sum(-1, keepdim=True)


def without_sink(mean: Matrix, sink: Sequence[int]) -> Matrix:
    """Attention without some keys, rows scaled back to their sum; sinks and empty rows look at themselves."""
    identity, total = torch.eye(mean.shape[-1]).double(), mean.sum(-1, keepdim=True)
    left = mean.clone()
    left[..., list(sink)] = 0
    rest = left.sum(-1, keepdim=True)
    found = torch.where(rest != 0, left / rest * total, identity * total)
    found[:, list(sink)] = (identity * total)[:, list(sink)]
    return found


def rows_of_generation(
    rolled: Float64[Tensor, "1 layer query key"], prompt: int
) -> Float64[Tensor, "generated prompt layer"]:
    """The prompt columns of each generated token's row: that of the token before, which predicts it."""
    return rolled[0, :, prompt - 1 :, :prompt].permute(1, 2, 0)


def uniform_causal_attention(n: int) -> Float64[Tensor, "query key"]:
    """Uniform causal attention, of a model that has learned nothing: equal over a token and all before it."""
    return torch.ones(n, n, dtype=torch.float64).tril() / torch.arange(1, n + 1)[:, None]
