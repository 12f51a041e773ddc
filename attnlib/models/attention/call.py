r"""One layer's attention, caught at the moment it is computed, and multiplied with a matrix of ours.

With `A_h` the attention of the layer's head `h`, `w_h` the head's weight and `X` a matrix `[key column]`:

    P = sum_h w_h A_h X            t = sum_h w_h A_h 1

There are two ways to `P` and `t`, and `product` chooses by shape:

`fused`
    Scaled-dot-product attention computes `A_h V` from queries, keys and values and forms no `A_h`: it is
    called once more with `X` in place of `V`, as many columns at a time as a head has channels. Operations
    per query
    and visible key: `2 heads channels` for each of the `columns / channels` passes.

`blocks`
    Rows of `A_h` are formed for a block of queries, averaged over heads, multiplied, forgotten. Operations
    per
    query and visible key: `heads channels + columns`, which is less, but scores pass through memory. The only
    way where there is no fused kernel: soft-capped scores, learned sinks.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

BLOCK_BYTES = {"cpu": 2**24, "cuda": 2**28}
"""How much attention a block holds: about a CPU's cache; a small part of a GPU's memory."""

FUSED_PASSES = {"cpu": 1, "cuda": 4}
"""Up to how many passes `fused` is taken. One, measured, on CPUs, where blocks are as fast per pass. A GPU
gains more from scores that never reach its memory."""


class AttentionCall:
    """What a layer called attention with; see the module's docstring.

    Attributes:
        query: after positions were applied.
        key: with as many heads as the query, or a divisor of that (grouped-query attention).
        mask: where a query may look: True, or 0 to be added; else False, or a very negative number. None for
            everywhere, or everywhere up to the query itself if `causal`.
        causal: see `mask`.
        scale: multiplies the scores before the softmax.
        bias: added to the scaled scores.
        can_fuse: whether `fused` is there.
        can_block: whether `rows` is there.
    """

    can_fuse = True
    can_block = True

    def __init__(
        self,
        query: Float[Tensor, "batch head query channel"],
        key: Float[Tensor, "batch kv_head key channel"],
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        scale: float | None = None,
        bias: Tensor | None = None,
    ) -> None:
        if mask is not None:  # some are the same for every query
            mask = mask.expand(*mask.shape[:-2], query.shape[2], mask.shape[-1])
        self.query, self.key, self.mask, self.causal, self.bias = (
            query.detach(),
            key.detach(),
            mask,
            causal,
            bias,
        )
        self.scale = query.shape[-1] ** -0.5 if scale is None else scale

    def product(
        self, x: Float[Tensor, "batch key column"], weights: Float[Tensor, " head"] | None, kernel: str
    ) -> tuple[Float[Tensor, "batch query column"], Float[Tensor, "batch query 1"] | float]:
        """`P` and `t`.

        Args:
            x: `X`, in the precision to multiply in.
            weights: `w_h`; `1 / heads` for None.
            kernel: "fused", "blocks", or "auto": `fused` if it is there and needs at most `FUSED_PASSES`.

        Raises:
            ValueError: this model has not got the kernel asked for.
        """
        if kernel == "auto":
            few = -(-x.shape[-1] // self.query.shape[-1]) <= FUSED_PASSES.get(x.device.type, 1)
            kernel = "fused" if self.can_fuse and (few or not self.can_block) else "blocks"
        if not (self.can_fuse if kernel == "fused" else self.can_block):
            raise ValueError(f'kernel="{kernel}" does not know this model\'s attention. Use kernel="auto".')
        return self._by_fused(x, weights) if kernel == "fused" else self._by_blocks(x, weights, x.dtype)

    def head_mean(
        self, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "batch query key"], Float[Tensor, "batch query 1"] | float]:
        """`P` and `t` for `X = I`: the attention itself, averaged over heads."""
        if self.can_block:
            return self._by_blocks(None, None, dtype)
        every = torch.eye(self.key.shape[2], dtype=dtype, device=self.key.device)
        return self._by_fused(every.expand(len(self.key), -1, -1), None)

    def fused(
        self, x: Float[Tensor, "batch kv_head key channel"]
    ) -> Float[Tensor, "batch query head channel"]:
        """`A_h X` for every head, from the fused kernel."""
        raise NotImplementedError

    def rows(self, start: int, stop: int, low: int, high: int) -> Float[Tensor, "batch head query key"]:
        """Attention of queries `start .. stop - 1` on keys `low .. high - 1`, outside of which it is zero."""
        batch, heads, _, channels = self.query.shape
        groups, dtype = self.key.shape[1], torch.promote_types(self.query.dtype, torch.float32)
        query = (self.query[:, :, start:stop].to(dtype) * self.scale).reshape(batch, groups, -1, channels)
        scores = (query @ self.key[:, :, low:high].to(dtype).mT).view(batch, heads, stop - start, -1)
        never = torch.finfo(dtype).min
        if self.bias is not None:
            scores += self.bias[..., start:stop, low:high]
        if self.mask is not None:
            mask = self.mask[..., start:stop, low:high]
            scores = scores.masked_fill_(~mask, never) if mask.dtype == torch.bool else scores.add_(mask)
        elif self.causal:
            future = torch.ones(stop - start, stop - start, dtype=torch.bool, device=scores.device).triu_(1)
            scores[..., start - low : stop - low].masked_fill_(future, never)
        return torch.softmax(scores, -1)

    def _visible(self, start: int, stop: int) -> tuple[int, int]:
        """The first key that any of these queries may look at, and the one after the last."""
        if self.mask is None:
            return 0, stop if self.causal else self.key.shape[2]
        mask = self.mask[..., start:stop, :]
        if mask.device.type != "cpu":  # finding out would stop the device's queue
            return 0, self.key.shape[2]
        mask = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
        seen = mask.flatten(0, -2).any(0).nonzero()
        return (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, self.key.shape[2])

    def _by_fused(self, x: Tensor, weights: Tensor | None) -> tuple[Tensor, float]:
        width, heads = self.query.shape[-1], self.key.shape[1]
        parts = []
        for chunk in x.split(width, -1):
            columns = chunk.shape[-1]
            # kernels want values as wide as queries; the fallback for other widths forms the attention matrix
            padded = torch.nn.functional.pad(chunk, (0, width - columns))
            mixed = self.fused(padded[:, None].expand(-1, heads, -1, -1))[..., :columns]
            parts.append(mixed.mean(2) if weights is None else torch.einsum("h,bqhc->bqc", weights, mixed))
        product = torch.cat(parts, -1) if len(parts) != 1 else parts[0]
        return product.to(x.dtype), 1.0 if weights is None else float(weights.sum())

    def _by_blocks(
        self, x: Tensor | None, weights: Tensor | None, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """`P` and `t`; without `x`, for the identity."""
        (batch, heads, queries, _), keys = self.query.shape, self.key.shape[2]
        budget = BLOCK_BYTES.get(self.query.device.type, BLOCK_BYTES["cpu"])
        size = max(16, min(512, budget // (batch * heads * keys * 4)))
        products, totals = [], []
        for start in range(0, queries, size):
            stop = min(start + size, queries)
            low, high = self._visible(start, stop)
            with torch.no_grad():  # gradients go to x only
                rows = self.rows(start, stop, low, high).to(dtype)
                mean = rows.mean(1) if weights is None else torch.einsum("h,bhqk->bqk", weights, rows)
            whole = torch.nn.functional.pad(mean, (low, keys - high)) if x is None else mean @ x[:, low:high]
            products.append(whole)
            totals.append(mean.sum(-1, keepdim=True))
        return torch.cat(products, 1), torch.cat(totals, 1)
