"""Kinds of `AttentionCall`, by what computes attention: SDPA, eager code, another kernel, our `attend`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlib.models.attention.call import AttentionCall, Product, Wanted
from attnlib.models.transformer import attend


class NamedCall(AttentionCall):
    """A call of a Hugging Face kernel of which only the name is known, in the model's own precision.

    Rows of its attention may not sum to 1 (in some kernels, learned sinks take part in the softmax).
    """

    can_block = sums_to_1 = knows_mask = False

    def __init__(
        self,
        original: Callable,
        module: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attention_mask: Any,
        **how: Any,
    ) -> None:
        causal = getattr(module, "is_causal", True) if how.get("is_causal") is None else how["is_causal"]
        mask = attention_mask if isinstance(attention_mask, Tensor) and attention_mask.ndim == 4 else None
        causal, scale = bool(causal) and q.shape[2] > 1, how.get("scaling")
        super().__init__(q, k, v, mask, causal=causal, scale=scale, bias=how.get("position_bias"))
        self.original, self.module, self.passed_mask = original, module, attention_mask
        self.inputs, self.passed, self.kwargs = (q, k, v), how, how | {"dropout": 0.0}
        self.window = how.get("sliding_window")

    def output(self) -> tuple[Tensor, Tensor | None]:
        """As in `AttentionCall`."""
        mixed, weights = self.original(self.module, *self.inputs, self.passed_mask, **self.passed)
        return mixed.transpose(1, 2), weights

    def fused(self, x: Tensor) -> Tensor:
        """As in `AttentionCall`."""
        x = x.to(self.query.dtype)
        mixed, _ = self.original(self.module, self.query, self.key, x, self.passed_mask, **self.kwargs)
        return mixed.transpose(1, 2)


class SdpaCall(NamedCall):
    """A call of torch's scaled-dot-product kernel; `fused` computes in the precision of its matrix."""

    can_block = sums_to_1 = knows_mask = True

    def fused(self, x: Tensor) -> Tensor:
        """As in `AttentionCall`."""
        mask, bias = (
            t.to(x.dtype) if t is not None and t.is_floating_point() else t for t in (self.mask, self.bias)
        )
        kwargs = self.kwargs | ({} if bias is None else {"position_bias": bias})
        query, key = self.query.to(x.dtype), self.key.to(x.dtype)
        return self.original(self.module, query, key, x, mask, **kwargs)[0].transpose(1, 2)


class EagerCall(NamedCall):
    """A call of a model's eager attention; when observed, it is computed by blocks of queries.

    The blocks' outputs are kept, and joined to the layer's output.
    """

    can_fuse, can_block, knows_mask = False, True, True

    def __init__(self, *call: Any, **how: Any) -> None:
        super().__init__(*call, **how)
        self.causal = False  # eager functions use the mask only
        self.outputs, self.keeping = list[Tensor](), False

    def _by_blocks(self, wanted: Sequence[Wanted]) -> list[Product]:
        self.outputs, self.keeping = [], True  # other callers of `rows` keep no outputs
        found = super()._by_blocks(wanted)
        self.keeping = False
        return found

    def output(self) -> tuple[Tensor, Tensor | None]:
        """As in `AttentionCall`; without attention weights if they were formed in blocks."""
        if not self.outputs or torch.is_grad_enabled():  # blocks are formed without gradients
            return super().output()
        return torch.cat(self.outputs, 1).transpose(1, 2), None

    def rows(self, start: int, stop: int, low: int, high: int) -> Tensor:
        """As in `AttentionCall`; also keeps the output of these queries while `_by_blocks` runs."""
        block, keys = slice(start, stop), slice(low, high)
        kwargs = dict(self.kwargs)
        if self.bias is not None:
            kwargs["position_bias"] = self.bias[..., block, keys]
        mask = None if self.mask is None else self.mask[..., block, keys]
        query, key, value = self.query[:, :, block], self.key[:, :, keys], self.value[:, :, keys]
        output, attention = self.original(self.module, query, key, value, mask, **kwargs)
        if self.keeping:
            self.outputs.append(output)
        return attention


class OwnCall(AttentionCall):
    """A call of `attnlib.models.transformer.attend`, or of a function that the user put in its place."""

    def __init__(
        self, original: Callable, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None, **how: Any
    ) -> None:
        super().__init__(q, k, v, allowed, causal=how.get("causal", False))
        self.original, self.allowed, self.passed, self.inputs = original, allowed, how, (q, k, v)
        self.kwargs = how | {"need_weights": False, "dropout": 0.0}
        self.can_block = self.sums_to_1 = self.knows_mask = original is attend

    def output(self) -> tuple[Tensor, Tensor | None]:
        """As in `AttentionCall`."""
        return self.original(*self.inputs, self.allowed, **self.passed)

    def fused(self, x: Tensor) -> Tensor:
        """As in `AttentionCall`."""
        query, key = self.query.to(x.dtype), self.key.to(x.dtype)
        return self.original(query, key, x, self.allowed, **self.kwargs)[0]
