r"""Rollout of given attention matrices.

`attnlib.rollout.core` defines rollout. Here, heads are averaged first in one product, a few layers at a time;
causal attention is multiplied up to its diagonal; and a few rows are computed from the last layer down.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from attnlib.checks import check, check_some
from attnlib.options import plain_options

Attentions = (
    Float[Tensor, "batch layer head query key"]
    | Float[Tensor, "layer head query key"]
    | Sequence[Tensor | None]
    | None
)
"""Attention of every layer and head: one tensor, or one `[batch head query key]` per layer."""

ROW_SUM_TOLERANCE = 0.02
"""How far a row of attention may be from summing to 1 before `rollout` warns; bfloat16's rounding passes."""

BLOCKS, BLOCKS_FROM = 8, 512
"""Causal attention of `BLOCKS_FROM` tokens or more is multiplied in `BLOCKS` blocks of rows, each up to its
diagonal: about 40 % of the operations. (Not on GPUs, where looking for zeros would stop the queue.)"""

GROUP_BYTES = {"cpu": 2**21, "cuda": 2**28}
"""How many bytes of `M_1 ... M_L` are processed at a time, by device: on CPUs, what fits into the cache."""


@plain_options
def rollout(
    attentions: Attentions,
    head_weights: Float[Tensor, "layer head"] | None = None,
    *,
    residual: bool = True,
    cumulative: bool = False,
    rows: Sequence[int] | Int[Tensor, " row"] | None = None,
    sink: Sequence[int] | None = None,
) -> Float[Tensor, "*batch row key"]:
    r"""Follow attention from the queries of the last layer down to the input tokens.

        M_l = rownorm(sum_h w_lh A_lh + I)        R_l = M_l R_(l-1)        R_0 = I

    with `A_lh` the attention of head `h` of layer `l`, `w_lh` the head's weight, `1 / heads` by default, `I`
    the residual connection, and `rownorm`, which divides each row by its sum (Abnar and Zuidema 2020,
    "Quantifying attention flow in transformers", section 3).

    The head mean is taken first, so a layer costs one `N x N` times `N x N` product whatever the number of
    heads (less than half of one, if attention is causal and long); with `rows`, the product starts at the top
    with those rows only, and a layer costs `len(rows)` vector-matrix products. Differentiable.

    Args:
        attentions: `[batch layer head query key]`; or the list or tuple of `[batch head query key]`, one per
            layer, that Hugging Face models return; or `[layer head query key]`, one example, in which case
            the result has no batch dimension. (A 4-D tensor is always read as one example. One layer of a
            batch is a list of one tensor.) Accumulated in float32, or in float64 if the attention is float64.
        head_weights: `w_lh`; not normalised, and used before the identity is added: `2 / heads` everywhere
            makes attention weigh twice the residual connection. They must be finite, and each layer's must
            sum to at least 0 (above 0 without `residual`).
        residual: add the identity; without it `M_l = rownorm(sum_h w_lh A_lh)`.
        cumulative: return `R_1 ... R_L` instead of `R_L`.
        rows: query positions to compute (negative ones count from the end); all of them by default.
        sink: key positions to leave out in every layer: `sum_h w_lh A_lh` loses those columns and each row is
            scaled back to the sum it had, before the identity is added. A sink's own row, and a row that
            looked at sinks only, is the identity's. Models give up to all of their attention to the first
            token (an attention sink) where they have nothing to look at; this is rollout of the rest.

    Returns:
        `[batch query key]`, or `[batch layer query key]` if `cumulative`. Rows sum to 1. Entries that are
        zero in every layer (the future, in a causal model) are exactly zero.

    Raises:
        ValueError: no attention was given (the model ran on a fused kernel: `rollout_of` needs none),
            shapes do not fit, a position is out of range, or some attention is not finite; says in which
            batch element, layer and head.

    Warns:
        UserWarning: rows of a layer's attention do not sum to 1.

    Example:
        >>> attention = torch.tensor([[1.0, 0.0], [0.5, 0.5]]).expand(1, 2, 1, 2, 2)  # two layers, one head
        >>> rollout(attention)[0]
        tensor([[1.0000, 0.0000],
                [0.4375, 0.5625]])
    """
    mixer = Mixer(attentions, head_weights, residual, sink)
    with torch.autocast(mixer.device.type, enabled=False):
        if rows is None:
            states = _upwards(mixer, cumulative)
        else:
            states = _downwards(mixer, token_indices(rows, mixer.n, "rows", mixer.device), cumulative)
    result = torch.stack(states, 1) if cumulative else states[-1]
    return result if mixer.batched else result[0]


class Mixer:
    """`M_1 ... M_L`, a few layers at a time: as many as fit into a processor's cache, and at least one."""

    def __init__(
        self,
        attentions: Attentions,
        head_weights: Float[Tensor, "layer head"] | None = None,
        residual: bool = True,
        sink: Sequence[int] | None = None,
    ) -> None:
        self.layers, self.batched = as_layers(attentions)
        self.n, self.device, self.residual = self.layers[0].shape[-1], self.layers[0].device, residual
        self.dtype = torch.promote_types(self.layers[0].dtype, torch.float32)
        self.weights = check_head_weights(head_weights, self.layers, residual)
        self.non_sink = None if sink is None else non_sink_mask(sink, self.n, self.device)
        bytes_of_one = max(1, len(self.layers[0]) * self.n**2 * self.dtype.itemsize)
        self.together = max(1, GROUP_BYTES.get(self.device.type, GROUP_BYTES["cpu"]) // bytes_of_one)

    def upwards(self) -> Iterator[Float[Tensor, "batch query key"]]:
        """`M_1`, then `M_2`, to `M_L`."""
        for start in range(0, len(self.layers), self.together):
            yield from self._matrices(start, start + self.together).unbind(1)

    def downwards(self) -> Iterator[Float[Tensor, "batch query key"]]:
        """`M_L`, then the one below, to `M_1`."""
        for stop in range(len(self.layers), 0, -self.together):
            yield from self._matrices(max(0, stop - self.together), stop).unbind(1)[::-1]

    def _matrices(self, start: int, stop: int) -> Float[Tensor, "batch layer query key"]:
        layers, dtype = self.layers[start:stop], self.dtype
        if self.weights is not None:
            weights = [weight.to(self.device, dtype) for weight in self.weights[start:stop]]
            expected, identity = torch.stack(weights).sum(1), torch.ones(len(layers))
        else:  # sums in place of means: `rownorm` takes care of it
            weights = [torch.ones(layer.shape[1], device=self.device, dtype=dtype) for layer in layers]
            expected = identity = torch.tensor([float(layer.shape[1]) for layer in layers])
        # One product with [head, query x key] reads attention once; einsum and sum take up to twice as long.
        pairs = zip(weights, layers, strict=True)
        mixed = torch.stack([weight @ layer.to(dtype).flatten(2) for weight, layer in pairs], 1)
        mixed = mixed.unflatten(-1, (self.n, self.n))
        total = mixed.sum(-1, keepdim=True)
        check_rows(layers, total, expected.tolist(), start)
        if self.non_sink is not None:
            mixed = _drop_sink(mixed, total, self.non_sink)
        if not self.residual:
            return mixed.div_(torch.where(total == 0, 1, total))
        identity = identity.to(self.device, dtype)
        mixed.diagonal(dim1=-2, dim2=-1).add_(identity[:, None])
        return mixed.div_(total + identity[:, None, None])


def _drop_sink(
    mixed: Float[Tensor, "batch layer query key"],
    total: Float[Tensor, "batch layer query 1"],
    keep: Bool[Tensor, " key"],
) -> Float[Tensor, "batch layer query key"]:
    """Zero the sinks' columns and scale rows back to their sum; a row with nothing left looks at itself."""
    mixed = mixed * keep
    rest = mixed.sum(-1, keepdim=True)
    alone = (rest == 0) | ~keep[:, None]
    identity = torch.eye(len(keep), dtype=mixed.dtype, device=mixed.device)
    return torch.where(alone, identity * total, mixed * (total / torch.where(alone, 1, rest)))


def _upwards(mixer: Mixer, cumulative: bool) -> list[Tensor]:
    """`R_1 ... R_L`, from the first layer on; only `R_L` unless `cumulative`."""
    blocks = 1 if mixer.n < BLOCKS_FROM or mixer.device.type != "cpu" else BLOCKS
    ends = [mixer.n * block // blocks for block in range(1, blocks + 1)]
    states: list[Tensor] = []
    for matrix in mixer.upwards():
        ahead = (matrix[:, start:end, end:] for start, end in pairwise([0, *ends]))
        if blocks > 1 and any(bool(part.any()) for part in ahead):
            ends = [mixer.n]
        state = _product(matrix, states[-1], ends) if states else matrix
        states = [*states, state] if cumulative else [state]
    return states


def _downwards(mixer: Mixer, rows: Int64[Tensor, " row"], cumulative: bool) -> list[Tensor]:
    """As `_upwards` for some rows, from the last layer on: the rows of `R_l` join one stack at layer `l`."""
    stack: Tensor | None = None
    for matrix in mixer.downwards():
        if stack is None:
            stack = matrix[:, rows]
            continue
        stack = stack @ matrix
        if cumulative:
            stack = torch.cat([matrix[:, rows], stack], 1)
    assert stack is not None
    if not len(rows):
        return [stack] * len(mixer.layers)
    return list(stack.unflatten(1, (-1, len(rows))).unbind(1))


def _product(
    left: Float[Tensor, "batch query key"], right: Float[Tensor, "batch key column"], ends: list[int]
) -> Float[Tensor, "batch query column"]:
    """`left @ right`, both of which are zero to the right of blocks of rows that stop at `ends`."""
    if len(ends) == 1:
        return left @ right
    product = torch.zeros_like(right)
    for start, end in pairwise([0, *ends]):
        product[:, start:end, :end] = left[:, start:end, :end] @ right[:, :end, :end]
    return product


def as_layers(attentions: Attentions) -> tuple[list[Float[Tensor, "batch _ query key"]], bool]:
    """Attention as one `[batch head query key]` per layer, and whether it came with a batch dimension."""
    demand = "attentions must be a tensor, or one per layer"
    check(attentions is None or isinstance(attentions, Sequence | Tensor), demand, attentions)
    if attentions is None or (not isinstance(attentions, Tensor) and any(a is None for a in attentions)):
        raise ValueError(
            "attentions is None: the model ran on a fused kernel (SDPA, flash), which forms no attention "
            "matrix. Use rollout_of(model, input_ids), which needs none, or load the model with "
            'attn_implementation="eager" and call it with output_attentions=True.'
        )
    if isinstance(attentions, Tensor):
        check(attentions.ndim in (4, 5), f"{demand}, [batch layer head query key]", tuple(attentions.shape))
        stacked = attentions if attentions.ndim == 5 else attentions[None]
        layers, batched = list(stacked.unbind(1)), attentions.ndim == 5
    else:
        layers, batched = [a for a in attentions if a is not None], True
    check(all(isinstance(each, Tensor) for each in layers), demand, layers)
    check_some(attentions=layers)
    for index, layer in enumerate(layers):
        shape, first = tuple(layer.shape), layers[0].shape
        square = layer.ndim == 4 and shape[-1] == shape[-2] and 0 not in shape[1:]
        check(square, f"attentions of layer {index} must be [batch head query key], as many keys", shape)
        same = layer.shape[0] == first[0] and layer.shape[2:] == first[2:]
        check(same, f"attentions of layer {index} must have layer 0's shape {tuple(first)}", shape)
        check(layer.is_floating_point(), f"attentions of layer {index} must be floating-point", layer.dtype)
    return layers, batched


def numbers(given: Any) -> Tensor | None:
    """The input as a tensor, on the device where it is; None if it is no numbers."""
    try:
        return torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        return None


def token_indices(given: Any, n: int, name: str, device: torch.device) -> Tensor:
    """Token positions as indices from 0, negative ones counted from the end; an error names the parameter."""
    index = numbers(given)  # on its own device: checking a list waits for no GPU
    demand = f"{name} must be positions, whole numbers from {-n} to {n - 1}"
    check(index is not None and index.ndim == 1, demand, given)
    assert index is not None
    check(not index.numel() or not (index.dtype == torch.bool or index.is_floating_point()), demand, given)
    index = index.long()
    check(not index.numel() or (int(index.min()) >= -n and int(index.max()) < n), demand, index)
    return (index % n).to(device)


def non_sink_mask(sink: Sequence[int], n: int, device: torch.device, more: int = 0) -> Bool[Tensor, " key"]:
    """True for the keys that stay: of `n` keys, among which the sinks are, and `more` keys behind them."""
    keep = torch.ones(n + more, dtype=torch.bool, device=device)
    keep[token_indices(sink, n, "sink", device)] = False
    return keep


def check_head_weights(
    head_weights: Any, layers: list[Float[Tensor, "batch _ query key"]], residual: bool
) -> list[Tensor] | None:
    """A row of weights per layer, or None; a `ValueError` if they do not fit or a layer's sum is too low."""
    if head_weights is None:
        return None
    wanted = [*dict.fromkeys((len(layers), each.shape[1]) for each in layers)]
    given = tuple(head_weights.shape) if isinstance(head_weights, Tensor) else head_weights
    check([given] == wanted, f"head_weights must be a tensor [layer head] = {wanted}", given)
    check(bool(torch.isfinite(head_weights).all()), "head_weights must be finite", head_weights)
    sums = head_weights.sum(1)
    holds = bool((sums >= 0).all()) and (residual or not bool((sums == 0).any()))
    check(holds, "head_weights of a layer must add up to at least 0 (above, without residual)", sums)
    return list(head_weights)


def check_rows(
    layers: list[Float[Tensor, "batch _ query key"]],
    total: Float[Tensor, "batch layer query 1"],
    expected: list[float],
    first: int,
) -> None:
    """Raise a `ValueError` for attention that is not finite, and warn of rows with a wrong sum.

    `total` has the sums of rows, which should be `expected` in each layer; layers count from `first`.
    """
    if not total.numel():
        return
    total = total.detach()[..., 0]
    bounds = torch.stack([total.amin((0, 2)), total.amax((0, 2))]).tolist()
    for index, (low, high, right) in enumerate(zip(*bounds, expected, strict=True)):
        layer = first + index
        off = max(high - right, right - low) / max(1.0, abs(right))
        if not math.isfinite(off):
            bad = ~torch.isfinite(layers[index]).flatten(2).all(-1)
            found = ", ".join(f"(batch {b}, head {h})" for b, h in bad.nonzero()[:4].tolist())
            more = ", ..." if int(bad.sum()) > 4 else ""
            raise ValueError(
                f"attentions must be finite; got NaN or infinity in layer {layer}: {found}{more}"
            )
        if off > ROW_SUM_TOLERANCE:
            warnings.warn(
                f"Attention rows of layer {layer} do not sum to 1 (their mean over heads is off by up to "
                f"{off:.3g}); each row is divided by its sum. Were these softmax weights, without dropout "
                "and without padding rows?",
                stacklevel=7,
            )
