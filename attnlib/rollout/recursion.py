r"""Rollout, one layer at a time, while a model runs.

    R_0 = I[:, keys]        R_l = (P + R_(l-1)) / (t + 1)
    P = sum_h w_h A_lh R_(l-1)        t = sum_h w_h A_lh 1

The same as `attnlib.rollout.dense`, column by column: with sinks, `R_(l-1)` goes in without its sinks'
rows, and one more column, 1 on every other row, tells what is left of each row's attention to divide by.
"""

from __future__ import annotations

from collections.abc import Generator

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attnlib.models.attention.call import AttentionCall, Product, Wanted


class Recursion:
    """`R_l` while a model runs: a watcher of its attention.

    Attributes:
        state: `R_l`.
        layer: `l`, how many layers it has been through.
        history: `R_1 ... R_l` of the queries from `first_kept` on; empty unless `cumulative`.
    """

    def __init__(
        self,
        start: Float[Tensor, "batch token column"],
        *,
        real: Bool[Tensor, "batch token"] | None = None,
        head_weights: Float[Tensor, "layer head"] | None = None,
        residual: bool = True,
        cumulative: bool = False,
        stays: Bool[Tensor, " token"] | None = None,
        kernel: str = "auto",
        first_kept: int = 0,
    ) -> None:
        self.state, self.layer, self.history = start, 0, list[Tensor]()
        self.real, self.head_weights, self.residual, self.stays = real, head_weights, residual, stays
        self.cumulative, self.kernel, self.first_kept = cumulative, kernel, first_kept

    def __call__(self, call: AttentionCall) -> Generator[Wanted, Product, None]:
        """One layer.

        Raises:
            ValueError: the layer's queries and keys are not the tokens that the matrix is about.
        """
        if (queries := call.query.shape[2]) != self.state.shape[1] or call.key.shape[2] != queries:
            raise ValueError(
                f"Rollout follows self-attention over the {self.state.shape[1]} tokens of input_ids; layer "
                f"{self.layer} attends from {queries} queries to {call.key.shape[2]} keys. Cross-attention, "
                "memories and learned prefixes cannot be followed."
            )
        self.state = yield from self.step(call, self.state, self.state)
        if self.cumulative:
            self.history.append(self.state[:, self.first_kept :])
        self.layer += 1

    def step(
        self,
        call: AttentionCall,
        keys: Float[Tensor, "batch key column"],
        queries: Float[Tensor, "batch query column"],
        end: int | None = None,
    ) -> Generator[Wanted, Product, Tensor]:
        """`R_l` of the queries, from `R_(l-1)` of keys and queries, both of which stop before token `end`."""
        end = keys.shape[1] if end is None else end
        first_key, first_query = end - keys.shape[1], end - queries.shape[1]
        weights = self._weights_of_layer(call)
        if self.stays is None:
            product, total = yield Wanted(keys, weights, kernel=self.kernel)
        else:
            stays = self.stays[first_key:end, None].to(keys.dtype)
            rest = stays.expand(len(keys), -1, 1)
            product, total = yield Wanted(torch.cat([keys * stays, rest], -1), weights, kernel=self.kernel)
            product, rest = product[..., :-1], product[..., -1:]
            alone = (rest == 0) | ~self.stays[first_query:end, None]
            product = torch.where(alone, queries, product / torch.where(alone, 1, rest)) * total
        if self.residual:
            state = (product + queries) / (total + 1)
        elif isinstance(total, Tensor):
            state = product / torch.where(total == 0, 1, total)
        else:
            state = product / (total or 1)
        if self.real is None:
            return state
        real = self.real[:, first_query:end, None]
        return torch.where(real, state, queries)  # padding looks nowhere, or anywhere: leave it alone

    def _weights_of_layer(self, call: AttentionCall) -> Tensor | None:
        if self.head_weights is None:
            return None
        layers, heads = self.head_weights.shape
        if self.layer >= layers or heads != call.query.shape[1]:
            raise ValueError(
                f"head_weights must be [layer head] of the model. Got {layers} layers of {heads} heads; "
                f"layer {self.layer} has {call.query.shape[1]} heads."
            )
        return self.head_weights[self.layer].to(self.state)


def one_hot(
    columns: Int64[Tensor, " column"], shape: tuple[int, int], dtype: torch.dtype
) -> Float[Tensor, "batch token column"]:
    """`I[:, columns]` for every batch element; `shape` is (batch, token)."""
    start = torch.zeros(*shape, len(columns), dtype=dtype, device=columns.device)
    start[:, columns, torch.arange(len(columns), device=columns.device)] = 1
    return start
