r"""Rollout of a few queries, from the last layer down.

With `A` the head mean of a layer's attention (or its weighted sum), whose rows sum to `t`, a layer is

    M = diag(a) A diag(c) + diag(b)        X <- X M

and `X`, with a row for every query asked for, starts as those of the identity. Plainly `c = 1` and
`a = b = 1 / (t + 1)`; without the residual connection `a = 1 / t` and `b = 0`. With sinks `c` is 0 there, and
`a` is `t / (A c)` times as large. Sinks, rows that look at sinks only, and padding are left alone: `a = 0`,
`b = 1`. The model runs as it would without us. Its queries and keys are kept, and attention is formed from
them again, of those queries that count.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

from attnlib.models.attention.forward import Mask, n_layers, watched_pass
from attnlib.models.attention.once import (
    FormedOnce,
    head_means,
    is_formed_by_head,
    may_be_formed_by_head,
    plain_calls,
    sum_of,
)
from attnlib.rollout.recursion import Recursion, one_hot

Rows = Float[Tensor, "batch row token"]


class Descent(Recursion):
    """Rollout of `queries`, once a model has been read.

    Attributes:
        asked: rows of the identity.
        calls: what every layer forms attention of, first to last.
    """

    def __init__(
        self, queries: Int64[Tensor, " row"], shape: tuple[int, int], dtype: torch.dtype, **options: Any
    ) -> None:
        super().__init__(one_hot(queries, shape, dtype), **options)
        self.asked: Rows = self.state.mT
        self.calls = list[FormedOnce]()

    def read(
        self, model: nn.Module, input_ids: Int[Tensor, "batch token"], mask: Mask, **model_inputs: Any
    ) -> bool:
        """Run a model; False if some layer's attention is not of the kind that can be formed again."""
        if not may_be_formed_by_head(model, input_ids):
            return False

        def keep(_: int, call: FormedOnce) -> None:
            values = call.key[..., :0]  # none: they are not needed again, and take memory
            kept = FormedOnce(
                call.query, call.key, values, call.mask, causal=call.causal, scale=call.scale, bias=call.bias
            )
            kept.sums_to_1 = call.sums_to_1
            self.calls.append(kept)

        with plain_calls(model, keep):
            watched_pass(model, [], input_ids, mask, **model_inputs)
        return len(self.calls) == n_layers(model) and all(map(is_formed_by_head, self.calls))

    def down(self) -> list[Rows]:
        """`R_L`; or `R_1 ... R_L` if `cumulative`, whose rows join at layer `l`. Forgets queries and keys."""
        rows = self.asked[:, :0]
        while self.calls:
            call = self.calls.pop()
            self.layer = len(self.calls)
            if self.cumulative or not rows.shape[1]:
                rows = torch.cat([self.asked, rows], 1)
            with torch.autocast(call.query.device.type, enabled=False):
                rows = self._through(call, rows)
        return list(rows.unflatten(1, (-1, self.asked.shape[1])).unbind(1))

    def _through(self, call: FormedOnce, x: Rows) -> Rows:
        """`X M`."""
        weights = self._weights_of_layer(call)
        moved, left = torch.zeros_like(x), torch.zeros_like(x)
        for example, queries, keys, mean in head_means(call, weights, needed=x.any(1)):
            ahead, alone = self._shares(example, queries, keys, mean, sum_of(weights))
            moved[example][:, keys].addmm_(x[example][:, queries] * ahead, mean)
            left[example][:, queries] = x[example][:, queries] * alone
        if self.stays is not None:
            moved *= self.stays
        return moved.add_(left)

    def _shares(
        self, example: int, queries: slice, keys: slice, mean: Float[Tensor, "query key"], total: float
    ) -> tuple[Float[Tensor, " query"], Float[Tensor, " query"]]:
        """`a` and `b`."""
        norm = total + 1 if self.residual else total or 1.0
        ahead = mean.new_full((len(mean),), 1 / norm)
        alone = mean.new_full((len(mean),), self.residual / norm)
        if self.stays is not None:
            rest = mean @ self.stays[keys].to(mean)
            only_sinks = (rest == 0) | ~self.stays[queries]
            ahead = torch.where(only_sinks, 0, total / rest) / norm
            alone = (self.residual + total * only_sinks) / norm
        if self.real is not None:
            real = self.real[example, queries]
            ahead, alone = torch.where(real, ahead, 0), torch.where(real, alone, 1)
        return ahead, alone
