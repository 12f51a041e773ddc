r"""What rollout looks like without any learning: the null model.

In a causal model every query can look at itself and what is before it. If it looked at all of that equally,

    A[q, k] = 1 / (q + 1)  for k <= q

rollout would still prefer early keys (they are in every later query's reach, layer after layer) and the query
itself (by the residual connection). `uniform_causal_rollout` is that pattern, and `null_ratio` divides by it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib.checks import check_at_least
from attnlib.options import plain_options
from attnlib.rollout.dense import non_sink_mask, token_indices
from attnlib.rollout.recursion import one_hot


@plain_options
def uniform_causal_rollout(
    n: int,
    layers: int,
    *,
    keys: Sequence[int] | Int[Tensor, " key"] | None = None,
    rows: Sequence[int] | Int[Tensor, " query"] | None = None,
    cumulative: bool = False,
    sink: Sequence[int] | None = None,
) -> Float[Tensor, "query key"] | Float[Tensor, "layer query key"]:
    r"""Rollout of uniform causal attention, `A[q, k] = 1 / (q + 1)` for `k <= q`.

    `A R` is a running mean, so a layer costs `n x keys` operations. In float64.

    Args:
        n: the number of tokens.
        layers: the number of layers.
        keys: key positions to return; all by default.
        rows: query positions to return; all by default.
        cumulative: as in `rollout`: `[layer query key]`.
        sink: as in `rollout`.

    Example:
        >>> uniform_causal_rollout(2, layers=1)
        tensor([[1.0000, 0.0000],
                [0.2500, 0.7500]], dtype=torch.float64)
    """
    check_at_least(1, n=n, layers=layers)
    cpu = torch.device("cpu")
    columns = torch.arange(n) if keys is None else token_indices(keys, n, "keys", cpu)
    queries = slice(None) if rows is None else token_indices(rows, n, "rows", cpu)
    non_sink = non_sink_mask([] if sink is None else sink, n, cpu)[:, None].double()
    seen = non_sink.cumsum(0)
    alone = (seen == 0) | (non_sink == 0)
    state, states = one_hot(columns, (1, n), torch.float64)[0], []
    for _ in range(layers):
        mean = torch.where(alone, state, (state * non_sink).cumsum(0) / seen.clamp(min=1))
        state = (mean + state) / 2
        states.append(state[queries])
    return torch.stack(states) if cumulative else states[-1]


def null_ratio(
    rolled: Float[Tensor, "*batch query key"], null: Float[Tensor, "*batch query key"]
) -> Float[Tensor, "*batch query key"]:
    """Rollout divided by the null model's: 1 where attention moved as much as uniform attention would.

    Zero where the null model has zero (keys after the query, sinks), where rollout has zero too.
    """
    null = null.to(rolled)
    return torch.where(null != 0, rolled / torch.where(null != 0, null, 1), 0)
