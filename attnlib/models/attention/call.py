r"""One call of a layer's attention, which can be changed, and multiplied with matrices of observers.

With `A_h` the attention of the layer's head `h` and `X` a matrix `[key column]`:

    P = mean_h A_h X            t = mean_h A_h 1

There are three ways to compute `P` and `t`, and `products` chooses by shape:

`fused`
    Scaled-dot-product attention computes `A_h V` from queries, keys and values without storing `A_h`. It is
    called once more with `X` in place of `V`, as many columns at a time as a head has channels. Operations
    per query and visible key: `2 heads channels` for each of the `columns / channels` passes.

`blocks`
    Rows of `A_h` are formed for a block of queries, averaged over heads, multiplied with all observers'
    matrices, and discarded. Operations per query and visible key: `heads channels + columns`, which is less,
    but scores pass through memory. Without a fused kernel (soft-capped scores, learned sinks), this is the
    only way.

`once`
    If the observer allows it, and the text is long and on a CPU: `A_h` is formed only once, for both the
    layer's output and `P` (`attnlib.models.attention.once`).

Changes (`Affine`) act on `A_h X`, or on rows of `A_h`, before heads are averaged.

An observer, such as rollout's `Recursion`, is a generator function: it is called with every call of
attention, yields once what it wants to know (`Wanted`), and receives the answer.

    the model's layer           AttentionCall.answer              observer(call)

    attends to its keys   -->   1  changes = ...
                                2  next(...)                -->   yield Wanted(X)
                                3  products(...): P and t
                                4  send((P, t))             -->   P, t = ..., for its new state
                                5  output(), if not from 3
    goes on with it       <--   6  changes

All observers of a call are started (2) before any is answered (4): attention is formed once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from attnlib.models.attention import once

BLOCK_BYTES = {"cpu": 2**24, "cuda": 2**28}
"""Bytes of attention weights in a block: about a CPU's cache; a small part of a GPU's memory."""

FUSED_PASSES = {"cpu": 1, "cuda": 4}
"""The largest number of passes for which `fused` is chosen. On CPUs, blocks were measured to be as fast per
pass; on GPUs, fused kernels gain more, because scores never reach the GPU's memory."""


class Affine(NamedTuple):
    """A change of a layer's attention: a multiple of the original plus a multiple of another matrix.

        A'_h = a_h A_h + b_h S_h

    with `a_h` and `b_h` a number for each query, and `S_h` any matrix `[query key]`. So a head's output is
    `A'_h V = a_h (A_h V) + b_h (S_h V)`, whatever kernel computes `A_h V`. A second change acts on the result
    of the first.

    Attributes:
        keep: `a`.
        push: `b`.
        onto: `S`; None if nothing is added.
        sums_to_1: whether rows that sum to 1 before the change sum to 1 after it.
    """

    keep: Float[Tensor, "#batch #head #query 1"] | float
    push: Float[Tensor, "#batch #head #query 1"] | float = 0.0
    onto: Float[Tensor, "#batch #head query key"] | None = None
    sums_to_1: bool = True

    def of(
        self, mixed: Float[Tensor, "batch head query column"], values: Float[Tensor, "batch _ key column"]
    ) -> Float[Tensor, "batch head query column"]:
        """`A'X` from `AX` and `X`; `X` may have fewer heads (grouped-query attention)."""
        if self is AS_IT_IS:
            return mixed
        if self.onto is None:
            return (self.keep * mixed).to(mixed.dtype)
        if values.shape[1] > 1:
            values = values.repeat_interleave(mixed.shape[1] // values.shape[1], 1)
        return (self.keep * mixed + self.push * (self.onto @ values.to(self.onto.dtype))).to(mixed.dtype)

    def of_rows(
        self, rows: Float[Tensor, "batch head query key"], start: int, stop: int, low: int, high: int
    ) -> Float[Tensor, "batch head query key"]:
        """`A'` from `A`, both of queries `start .. stop - 1` and keys `low .. high - 1`."""
        if self is AS_IT_IS:
            return rows

        def part(x: Tensor | float) -> Tensor | float:
            return x[..., start:stop, :] if isinstance(x, Tensor) and x.shape[-2] > 1 else x

        changed = part(self.keep) * rows
        if self.onto is not None:
            changed = changed + part(self.push) * self.onto[..., start:stop, low:high]
        return changed.to(rows.dtype)


AS_IT_IS = Affine(1.0)
"""No change, and no multiplication by 1."""


class Wanted(NamedTuple):
    """An observer's request for `P` and `t` of a layer's attention, as the module's docstring defines them.

    Attributes:
        matrix: `X`, in the precision to multiply in; None for the identity: `P` is then the mean over heads.
        once: whether `P` and the layer's output may be computed together, where that is faster.
        identity: whether the matrix is known to be the identity, so that `once` need not multiply by it.
    """

    matrix: Float[Tensor, "batch key column"] | None = None
    once: bool = False
    identity: bool = False


Product = tuple[Float[Tensor, "batch query column"], Float[Tensor, "batch query 1"] | float]
"""`P` and `t`."""


class AttentionCall:
    """One call of attention by a layer, with its arguments; see the module's docstring.

    Attributes:
        query: queries, after positions were applied.
        key: keys, with as many heads as the query, or a divisor of that (grouped-query attention).
        value: values, with as many heads as the key.
        mask: boolean, True where a query may look; or added to scores: 0 where it may look, else a very
            negative number. None for everywhere, or everywhere up to the query itself if `causal`.
        causal: see `mask`.
        scale: multiplies the scores before the softmax.
        bias: added to the scaled scores.
        changes: the changes of the attention, in this order; `products` applies them, too.
        can_fuse: whether `fused` can be called.
        can_block: whether `rows` can be called.
        sums_to_1: whether every row of the attention is known to sum to 1.
        knows_mask: whether `mask` and `causal` determine where a query may look.
        window: how many keys, the latest ones, a query may look at, if the layer has a sliding window.
        mixed: the layer's output, if it was computed together with a product.
    """

    can_fuse = can_block = sums_to_1 = knows_mask = True
    window: int | None = None
    mixed: Float[Tensor, "batch head query channel"] | None = None

    def __init__(
        self,
        query: Float[Tensor, "batch head query channel"],
        key: Float[Tensor, "batch kv_head key channel"],
        value: Float[Tensor, "batch kv_head key _"],
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        scale: float | None = None,
        bias: Tensor | None = None,
    ) -> None:
        if mask is not None:  # some masks have one row for all queries
            mask = mask.expand(*mask.shape[:-2], query.shape[2], mask.shape[-1])
        self.query, self.key, self.value, self.mask = query.detach(), key.detach(), value, mask
        self.causal, self.bias, self.changes = causal, bias, list[Affine]()
        self.scale = query.shape[-1] ** -0.5 if scale is None else scale

    @property
    def dtype(self) -> torch.dtype:
        """The precision of attention weights: float32, or the queries' if that is higher."""
        return torch.promote_types(self.query.dtype, torch.float32)

    def answer(
        self, changes: Sequence[Change], observers: Sequence[Observer], gradients: bool = False
    ) -> tuple[Float[Tensor, "batch head query channel"], Tensor | None]:
        """Inform observers; return the changed output and, if the kernel returns it, changed attention."""
        self.changes = [change(self) for change in changes]
        if observers:
            with torch.set_grad_enabled(gradients), torch.autocast(self.query.device.type, enabled=False):
                self._inform(observers)
        mixed, weights = self.output() if self.mixed is None else (self.mixed, None)
        for change in self.changes:
            mixed = change.of(mixed, self.value)
            if weights is not None:
                weights = change.of_rows(weights, 0, weights.shape[-2], 0, weights.shape[-1])
        return mixed, weights

    def output(self) -> tuple[Float[Tensor, "batch head query channel"], Tensor | None]:
        """The layer's output and attention (or None) without any changes."""
        raise NotImplementedError

    def fused(
        self, x: Float[Tensor, "batch kv_head key channel"]
    ) -> Float[Tensor, "batch head query channel"]:
        """`A_h X` for every head, by the fused kernel, without changes."""
        raise NotImplementedError

    def rows(self, start: int, stop: int, low: int, high: int) -> Float[Tensor, "batch head query key"]:
        """Attention of queries `start .. stop - 1` on keys `low .. high - 1`, without changes.

        The caller has to know that it is zero on all other keys (`keys_of`).
        """
        batch, heads, _, channels = self.query.shape
        groups, dtype = self.key.shape[1], self.dtype
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

    def visible(self) -> Bool[Tensor, "#batch #head query key"]:
        """True where a query may look at a key.

        Raises:
            ValueError: only the kernel determines where a query may look (`knows_mask` is False).
        """
        if not self.knows_mask:
            raise ValueError(
                "Where a query may look is known to this model's attention kernel only. Choose another with "
                'model.set_attn_implementation("sdpa").'
            )
        if self.mask is not None:
            return _allowed(self.mask)
        queries, keys = self.query.shape[2], self.key.shape[2]
        everywhere = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=self.query.device)
        return everywhere.tril() if self.causal else everywhere

    @property
    def has_every_key(self) -> bool:
        """Whether keys are those of all tokens so far, in order, and queries are those of the last tokens.

        This is False for a cache with a sliding window or preallocated memory, as far as can be detected.
        """
        n_queries, n_keys = self.query.shape[2], self.key.shape[2]
        if n_queries == n_keys:
            return True
        if self.window is not None and n_keys == self.window - 1 + n_queries:
            return False
        return not self.knows_mask or bool(self.visible()[..., -1, -1].all())

    def products(self, wanted: Sequence[Wanted]) -> list[Product]:
        """`P` and `t` for each element of `wanted`; attention is formed once for all of them, if at all."""
        if len(wanted) == 1 and wanted[0].once and once.allowed(self):
            x = wanted[0].matrix
            if x is None or (x.dtype == self.dtype and not x.requires_grad):
                product, self.mixed = once.product(self, None if wanted[0].identity else x)
                return [(product, 1.0)]
        widths = [self.key.shape[2] if one.matrix is None else one.matrix.shape[-1] for one in wanted]
        passes = sum(-(-width // self.query.shape[-1]) for width in widths)
        many = passes > FUSED_PASSES.get(self.query.device.type, 1) or any(x.matrix is None for x in wanted)
        if not self.can_fuse or (self.can_block and many):
            return self._by_blocks(wanted)
        return [self._by_fused(one) for one in wanted]

    def _inform(self, observers: Sequence[Observer]) -> None:
        """Steps 2 to 4 of the module's docstring; an observer that returns None wants nothing."""
        started = [one for observer in observers if (one := observer(self)) is not None]
        wanted = [next(one) for one in started]
        for one, product in zip(started, self.products(wanted) if wanted else [], strict=True):
            with suppress(StopIteration):  # raised when the generator returns
                one.send(product)

    def changed_rows(self, queries: slice) -> Float[Tensor, "batch head query key"]:
        """Attention, after changes, of a slice of queries on the keys of `keys_of`, in float32 or better.

        Raises:
            ValueError: the kernel forms no attention weights.
        """
        if not self.can_block:
            raise ValueError(
                "The model's attention kernel forms no attention weights. Choose another with "
                'model.set_attn_implementation("sdpa").'
            )
        where = queries.start, queries.stop, *self.keys_of(queries.start, queries.stop)
        rows = self.rows(*where)
        for change in self.changes:
            rows = change.of_rows(rows, *where)
        return rows.to(self.dtype)

    def keys_of(self, start: int, stop: int) -> tuple[int, int]:
        """The first key that any of these queries may look at, and the one after the last."""
        if any(change.onto is not None for change in self.changes):  # `onto` may be on any key
            return 0, self.key.shape[2]
        if self.mask is None:
            return 0, stop if self.causal else self.key.shape[2]
        mask = self.mask[..., start:stop, :]
        if mask.device.type != "cpu":  # reading the mask would synchronise with the device
            return 0, self.key.shape[2]
        seen = _allowed(mask).flatten(0, -2).any(0).nonzero()
        return (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, self.key.shape[2])

    def _by_fused(self, one: Wanted) -> Product:
        width, (batch, heads, keys, _) = self.query.shape[-1], self.key.shape
        x = one.matrix
        if x is None:
            x = torch.eye(keys, dtype=self.dtype, device=self.key.device).expand(batch, -1, -1)
        known = self.sums_to_1 and all(change.sums_to_1 for change in self.changes)
        if not known:  # one more column, for `t`
            x = pad(x, (0, 1), value=1.0)
        parts = []
        for chunk in x.split(width, -1):
            columns = chunk.shape[-1]
            # kernels need values as wide as queries; the fallback for other widths stores the attention
            values = pad(chunk, (0, width - columns))[:, None].expand(-1, heads, -1, -1)
            mixed = self.fused(values)[..., :columns].to(x.dtype)
            for change in self.changes:
                mixed = change.of(mixed, chunk[:, None])
            parts.append(mixed.mean(1))
        product = torch.cat(parts, -1) if len(parts) != 1 else parts[0]
        if not known:
            return product[..., :-1], product[..., -1:]
        return product, 1.0

    def _by_blocks(self, wanted: Sequence[Wanted]) -> list[Product]:
        (batch, heads, queries, _), keys = self.query.shape, self.key.shape[2]
        budget = BLOCK_BYTES.get(self.query.device.type, BLOCK_BYTES["cpu"])
        size = max(16, min(512, budget // (batch * heads * keys * 4)))
        found = [(list[Tensor](), list[Tensor]()) for _ in wanted]
        for start in range(0, queries, size):
            stop = min(start + size, queries)
            low, high = self.keys_of(start, stop)
            with torch.no_grad():  # gradients flow to matrices only
                rows = self.rows(start, stop, low, high)
                for change in self.changes:
                    rows = change.of_rows(rows, start, stop, low, high)
            means: dict[torch.dtype, Tensor] = {}
            for one, (products, totals) in zip(wanted, found, strict=True):
                x = one.matrix
                dtype = self.dtype if x is None else x.dtype
                if (mean := means.get(dtype)) is None:
                    mean = means[dtype] = rows.to(dtype).mean(1)
                products.append(pad(mean, (low, keys - high)) if x is None else mean @ x[:, low:high])
                totals.append(mean.sum(-1, keepdim=True))
        return [(torch.cat(products, 1), torch.cat(totals, 1)) for products, totals in found]


def _allowed(mask: Tensor) -> Bool[Tensor, "*batch query key"]:
    """True where a mask, boolean or additive, lets a query look at a key."""
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


Change = Callable[[AttentionCall], Affine]
"""A function that returns the change of a call's attention."""

Observer = Callable[[AttentionCall], Generator[Wanted, Product, None] | None]
"""A generator function that observes a call (see the module's docstring), or returns None to ignore it."""
