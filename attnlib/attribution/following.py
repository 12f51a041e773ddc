r"""Following layers down: from the query of the last one to the tokens that entered the first.

With `C_l[i, j]` the share of token `j` in what token `i` is made of after layer `l`,

    scores = C_L[q] C_(L-1) ... C_1

which is `attnlib.rollout.rollout` with `residual=False` (the residual connection is in `C` already), made
from the top: of the last layer one row is needed, and in a causal model no row after the query's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jaxtyping import Float
from torch import Tensor

from attnlib.models.attention.parts import LayerParts

ROOM = 2**18
"""How many numbers of `[key query width]` are worked on at a time: what a core's own cache takes."""

ATTENTION_ROOM = 2**22
"""How many of `[head query key]`."""

Rows = Callable[[LayerParts, Float[Tensor, "batch head query key"], slice], Float[Tensor, "batch query key"]]
"""What each of some queries got from each key, from a layer, its `A_h` for them, and which they are."""


def followed_down(layers: list[LayerParts], query: int, rows: Rows) -> Float[Tensor, "batch key"]:
    """The scores of the module's docstring, from `rows` that are not normalised yet.

    `layers` is empty after that: what is worked out of a layer is forgotten as soon as it was used.
    """
    reach, n = max(layer.keys(slice(0, query + 1)).stop for layer in layers), layers[0].stream.shape[1]
    needed = slice(0, query + 1 if reach <= query + 1 else n)
    found = shares(layers.pop(), slice(query, query + 1), rows)
    while layers:
        found = found[..., needed] @ shares(layers.pop(), needed, rows)
    return found[:, 0]


def shares(layer: LayerParts, queries: slice, rows: Rows) -> Float[Tensor, "batch query key"]:
    """`C`: rows divided by their sums. A query that got nothing from anywhere is its own."""
    batch, n, _ = layer.stream.shape
    found = layer.stream.new_zeros(batch, queries.stop - queries.start, n)
    for some in blocks(queries, batch * n * layer.call.query.shape[1], ATTENTION_ROOM):
        keys, at = layer.keys(some), slice(some.start - queries.start, some.stop - queries.start)
        found[:, at, keys] = rows(layer, layer.attention(some), some)
    total = found.sum(-1, keepdim=True)
    found.div_(total.where(total > 0, 1))
    found.diagonal(queries.start, -2, -1).add_(total[..., 0] == 0)
    return found


def blocks(queries: slice, of_one: int, room: int) -> Iterator[slice]:
    """Queries in blocks, of `of_one` numbers each, that there is room for; at least one at a time."""
    size = max(1, room // of_one)
    for start in range(queries.start, queries.stop, size):
        yield slice(start, min(start + size, queries.stop))


def within(some: slice, all_of: slice) -> slice:
    """Where some of a slice stand, counted from its beginning."""
    return slice(some.start - all_of.start, some.stop - all_of.start)
