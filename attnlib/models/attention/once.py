r"""Attention of long texts, formed once both for the layer's output and for an observer's product.

A fused kernel keeps no attention weights, so multiplying them with another matrix means computing them again.
Here they are formed for a block of `ROWS` queries and one head at a time, and used while in the CPU's cache:

    E = 2^(scale log2(e) q k^T - max)        A_h = E / (E 1)        O_h = A_h V        M = mean_h A_h

with `A_h` the attention of head `h`, exactly its softmax, `O_h` the head's output, and `M` the mean over
heads, from which rollout is computed: each block of `M` is multiplied with a matrix, then discarded. (`2^x`
takes a quarter of the time of `e^x` on CPUs.) Memory is that of two blocks, `2 ROWS keys` numbers, whatever
the number of heads and layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

ROWS = 128
"""Queries in a block: enough for fast products, and few enough for caches to hold 4,096 keys of each."""

FROM = 128
"""The smallest number of tokens; on shorter texts, the overhead of blocks outweighs the gain."""

PRECISIONS = torch.float32, torch.float64
"""Precisions in which the softmax is accurate enough."""

TILE = 256
"""Rows of `X` that are multiplied at once, up to the last column that is not zero in these rows."""


def allowed(call: Any) -> bool:
    """Whether a call's attention can be formed once, and faster than otherwise; decided only here.

    GPUs are excluded: their fused kernels are faster, because scores never reach the GPU's memory.
    """
    query, n = call.query, call.query.shape[2]
    return (
        call.sums_to_1
        and not call.changes
        and query.device.type == "cpu"
        and query.dtype in PRECISIONS
        and query.dtype == call.key.dtype == call.value.dtype  # may differ under autocast
        and call.key.shape[2] == n >= FROM
        and (call.mask is None or call.mask.dtype == torch.bool)
        and call.bias is None
    )


def product(
    call: Any, x: Float[Tensor, "batch key column"] | None
) -> tuple[Float[Tensor, "batch query column"], Float[Tensor, "batch head query channel"]]:
    """`M X` (or `M`, if `X` is None) and `O`, as the module's docstring defines them."""
    (batch, heads, n, _), channels = call.query.shape, call.value.shape[-1]
    found = call.query.new_zeros(batch, n, n if x is None else x.shape[-1])
    output = call.query.new_empty(batch, n, heads, channels).transpose(1, 2)
    reach = [] if x is None else _reach(x)
    for example, queries, keys, mean in head_means(call, output):
        if x is None:
            found[example, queries, keys] = mean
        else:
            _multiply(mean, keys, x[example], reach, found[example, queries])
    return found, output


@torch.no_grad()
def head_means(
    call: Any,
    output: Float[Tensor, "batch head query channel"] | None = None,
    needed: Bool[Tensor, "batch query"] | None = None,
) -> Iterator[tuple[int, slice, slice, Float[Tensor, "query key"]]]:
    """Yield `(example, queries, keys, M)` for each block of queries, and write `O` to `output`.

    `M` is zero for other keys. Its memory is overwritten by the next block. A query that may look nowhere
    has `A = 0` and `O = 0`. Blocks without any `needed` query are left out.
    """
    (batch, heads, n, _), group = call.query.shape, call.query.shape[1] // call.key.shape[1]
    share = 1 / heads
    scale = call.scale * math.log2(math.e)
    future = torch.ones(ROWS, ROWS, dtype=torch.bool, device=call.query.device).triu_(1)
    room = call.query.new_empty(2, ROWS * n)
    for example in range(batch):
        query = call.query[example].unbind()
        key, value = call.key[example].mT.unbind(), call.value[example].unbind()
        for start in range(0, n, ROWS):
            queries = slice(start, min(start + ROWS, n))
            if needed is not None and not bool(needed[example, queries].any()):
                continue
            keys, hidden = _looks_at(call, example, queries)
            shape = queries.stop - start, keys.stop - keys.start
            scores, mean = (part[: shape[0] * shape[1]].view(shape) for part in room)
            for head in range(heads):
                torch.mm(query[head][queries] * scale, key[head // group][:, keys], out=scores)
                if hidden is not None:
                    scores.masked_fill_(hidden[head % len(hidden)], -torch.inf)
                elif call.causal:
                    scores[:, start - keys.start :].masked_fill_(future[: shape[0], : shape[0]], -torch.inf)
                # rows without any key: 2^(-inf - lowest) = 0; their sum of 0 is replaced by 1
                scores.sub_(scores.amax(1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)).exp2_()
                total = scores.sum(1, keepdim=True).clamp_(min=1).reciprocal_()
                if output is not None:
                    mixed = torch.mm(scores, value[head // group][keys])
                    torch.mul(mixed, total, out=output[example, head, queries])
                if head:
                    mean.addcmul_(scores, total, value=share)
                else:
                    torch.mul(scores, total * share, out=mean)
            yield example, queries, keys, mean


def _looks_at(call: Any, example: int, queries: slice) -> tuple[slice, Bool[Tensor, "_ query key"] | None]:
    """A slice with all keys that these queries may look at, and a mask: True for hidden keys in the slice."""
    keys = slice(*call.keys_of(queries.start, queries.stop))
    if call.mask is None:
        return keys, None
    return keys, ~call.mask[example % len(call.mask), :, queries, keys]


def _reach(x: Float[Tensor, "batch key column"]) -> list[tuple[slice, int]]:
    """Slices of `TILE` rows of `x`, each with the number of columns up to the last one that is not zero."""
    if x.shape[-1] <= 2 * TILE:
        return [(slice(0, x.shape[1]), x.shape[-1])]
    tiles = [slice(start, min(start + TILE, x.shape[1])) for start in range(0, x.shape[1], TILE)]
    filled = (x[:, tile].any(1).any(0).nonzero() for tile in tiles)
    return [
        (tile, int(found[-1]) + 1 if len(found) else 0) for tile, found in zip(tiles, filled, strict=True)
    ]


def _multiply(
    mean: Float[Tensor, "query key"],
    keys: slice,
    x: Float[Tensor, "all_keys column"],
    reach: list[tuple[slice, int]],
    product: Float[Tensor, "query column"],
) -> None:
    """Add `mean @ x[keys]` to `product`, skipping the columns of `x` that are zero by `reach`."""
    for tile, columns in reach:
        start, stop = max(tile.start, keys.start), min(tile.stop, keys.stop)
        if start < stop:
            part = mean[:, start - keys.start : stop - keys.start]
            product[:, :columns].addmm_(part, x[start:stop, :columns])
