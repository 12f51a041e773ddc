r"""Rollout, one layer at a time, of a model that runs or has run.

From the first layer up, column by column:

    R_0 = I[:, keys]        R_l = (P + R_(l-1)) / (t + 1)
    P = mean_h A_lh R_(l-1)        t = mean_h A_lh 1

The result is that of `attnlib.rollout.core`. With sinks, the sinks' rows of `R_(l-1)` are set to zero, and
one more column, 1 on all other rows, gives what is left of each row's attention, to divide the row by.

For a few queries, rollout goes from the last layer down: with `A = mean_h A_lh`, a layer is

    M = diag(a) A diag(c) + diag(b)        X <- X M

and `X`, with a row for every requested query, starts as these rows of the identity. Without sinks, `c = 1`
and `a = b = 1 / 2`. With sinks, `c` is 0 at these, and `a` is `1 / (A c)` times as large. Sinks, rows that
look at sinks only, and padding stay the same: `a = 0`, `b = 1`. The model runs unchanged. Its queries and
keys are kept, and attention is formed from them again, for those queries that `X` needs.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor, nn

from attnlib.models.attention import once
from attnlib.models.attention.call import AttentionCall, Product, Wanted
from attnlib.models.attention.forward import Mask, watched_pass
from attnlib.models.attention.interface import changed_from_outside, implementations
from attnlib.models.transformer import Transformer

Rows = Float[Tensor, "batch row token"]


class Recursion:
    """An observer (see `attnlib.models.attention.call`) that computes `R_l` while a model runs.

    Attributes:
        state: `R_l`.
        history: `R_1 ... R_l` of the queries from `first_kept` on; empty unless `cumulative`.
        identity: whether it started from the whole identity matrix.
    """

    def __init__(
        self,
        start: Float[Tensor, "batch token column"],
        *,
        real: Bool[Tensor, "batch token"] | None = None,
        cumulative: bool = False,
        non_sink: Bool[Tensor, " token"] | None = None,
        once: bool = False,
        first_kept: int = 0,
        identity: bool = False,
    ) -> None:
        self.state, self.layer, self.history = start, 0, list[Tensor]()
        self.real, self.non_sink, self.cumulative = real, non_sink, cumulative
        self.once, self.first_kept, self.identity = once, first_kept, identity

    def __call__(self, call: AttentionCall) -> Generator[Wanted, Product, None]:
        """Go through one layer."""
        self._follow_to(call.query.device)
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
        columns = keys
        if self.non_sink is not None:
            non_sink = self.non_sink[first_key:end, None].to(keys.dtype)
            columns = torch.cat([keys * non_sink, non_sink.expand(len(keys), -1, 1)], -1)
        # the attention that padding gets shows whether a kernel, or a model's own formula, applies the mask
        may_leak = self.real is not None and not (call.knows_mask and call.can_fuse)
        if may_leak:
            assert self.real is not None
            columns = torch.cat([columns, ~self.real[:, first_key:end, None]], -1)
        identity = self.identity and not self.layer and columns is keys
        product, total = yield Wanted(columns, self.once, identity)
        if may_leak:
            self._check_leaks(product[..., -1].detach(), slice(first_query, end))
            product = product[..., :-1]
        if self.non_sink is not None:
            product, rest = product[..., :-1], product[..., -1:]
            alone = (rest == 0) | ~self.non_sink[first_query:end, None]
            product = torch.where(alone, queries, product / torch.where(alone, 1, rest)) * total
        state = (product + queries) / (total + 1)
        if self.real is None:
            return state
        real = self.real[:, first_query:end, None]
        return torch.where(real, state, queries)  # padding looks nowhere, or anywhere: leave it alone

    def _follow_to(self, device: torch.device) -> None:
        """Move to the layer's device: a model may be split over several."""
        self.state = self.state.to(device)
        self.real = None if self.real is None else self.real.to(device)
        self.non_sink = None if self.non_sink is None else self.non_sink.to(device)

    def _check_leaks(self, leaked: Float[Tensor, "batch query"], queries: slice) -> None:
        """Raise a `ValueError` where tokens look at padding."""
        assert self.real is not None
        most = float((leaked * self.real[:, queries]).abs().amax())
        if most > 1e-3:
            raise ValueError(
                "The model's attention kernel does not leave out padding: a token gives it up to "
                f"{most:.2g} of its attention in layer {self.layer}. Register a mask for the kernel "
                "(AttentionMaskInterface.register), give prompts one by one, without padding, or choose "
                'another kernel with model.set_attn_implementation("sdpa").'
            )


class TopDownRecursion(Recursion):
    """Rollout of `queries`, from the last layer down, after a model has run."""

    def __init__(
        self, queries: Int64[Tensor, " row"], shape: tuple[int, int], dtype: torch.dtype, **options: Any
    ) -> None:
        super().__init__(one_hot(queries, shape, dtype), **options)
        self.requested: Rows = self.state.mT
        self.calls = list[AttentionCall]()

    def read(
        self, model: nn.Module, input_ids: Int[Tensor, "batch token"], mask: Mask, **model_inputs: Any
    ) -> bool:
        """Run a model; False if some layer's attention is not of the kind that can be formed again."""
        if not _may_be_formed_again(model, input_ids):
            return False

        def keep(call: AttentionCall) -> None:
            values = call.key[..., :0]  # none: they are not needed again, and take memory
            kept = AttentionCall(
                call.query, call.key, values, call.mask, causal=call.causal, scale=call.scale, bias=call.bias
            )
            kept.sums_to_1, kept.changes = call.sums_to_1, call.changes
            self.calls.append(kept)

        watched_pass(model, [keep], input_ids, mask, **model_inputs)
        return all(map(once.allowed, self.calls))

    def down(self) -> list[Rows]:
        """The rows of `R_L`, or of `R_1 ... R_L` if `cumulative`; drops the kept queries and keys."""
        rows = self.requested[:, :0]
        while self.calls:
            call = self.calls.pop()
            if self.cumulative or not rows.shape[1]:
                rows = torch.cat([self.requested, rows], 1)
            with torch.autocast(call.query.device.type, enabled=False):
                rows = self._through(call, rows)
        return list(rows.unflatten(1, (-1, self.requested.shape[1])).unbind(1))

    def _through(self, call: AttentionCall, x: Rows) -> Rows:
        """`X M`."""
        moved, left = torch.zeros_like(x), torch.zeros_like(x)
        for example, queries, keys, mean in once.head_means(call, needed=x.any(1)):
            ahead, alone = self._shares(example, queries, keys, mean)
            moved[example][:, keys].addmm_(x[example][:, queries] * ahead, mean)
            left[example][:, queries] = x[example][:, queries] * alone
        if self.non_sink is not None:
            moved *= self.non_sink
        return moved.add_(left)

    def _shares(
        self, example: int, queries: slice, keys: slice, mean: Float[Tensor, "query key"]
    ) -> tuple[Float[Tensor, " query"], Float[Tensor, " query"]]:
        """`a` and `b`."""
        ahead, alone = mean.new_full((2, len(mean)), 0.5)
        if self.non_sink is not None:
            rest = mean @ self.non_sink[keys].to(mean)
            only_sinks = (rest == 0) | ~self.non_sink[queries]
            ahead = torch.where(only_sinks, 0, 1 / rest) / 2
            alone = (1.0 + only_sinks) / 2
        if self.real is not None:
            real = self.real[example, queries]
            ahead, alone = torch.where(real, ahead, 0), torch.where(real, alone, 1)
        return ahead, alone


def _may_be_formed_again(model: nn.Module, input_ids: Int[Tensor, "batch token"]) -> bool:
    """Whether `once.allowed` may hold for all calls of a model, as far as is known before it runs."""
    precisions = {weight.dtype for weight in model.parameters() if weight.is_floating_point()}
    return (
        (isinstance(model, Transformer) or implementations(model) == {"sdpa"})
        and input_ids.device.type == "cpu"
        and input_ids.shape[1] >= once.FROM
        and precisions <= set(once.PRECISIONS)
        and not changed_from_outside()
    )


def one_hot(
    columns: Int64[Tensor, " column"], shape: tuple[int, int], dtype: torch.dtype
) -> Float[Tensor, "batch token column"]:
    """`I[:, columns]` for every batch element; `shape` is (batch, token)."""
    start = torch.zeros(*shape, len(columns), dtype=dtype, device=columns.device)
    start[:, columns, torch.arange(len(columns), device=columns.device)] = 1
    return start
