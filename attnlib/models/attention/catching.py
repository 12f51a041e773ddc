"""How a ride gets on board: catching a model's attention calls, whoever wrote the model.

Hugging Face models look their attention function up by name (`AttentionInterface`), at every call. While
`on_board` is open, the names that the model uses lead here. Nothing about the model itself changes, and
whoever is not on board (another thread that uses the same model, say) is passed straight on to the function
that was
there before: `on_board` may be open in several threads at once. Our own `Transformer` has an attribute per
layer to replace; there, a second thread waits for the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from attnlib.models.attention.call import AttentionCall
from attnlib.models.attention.registry import eager_function, implementations
from attnlib.models.mode import evaluating
from attnlib.models.transformer import Transformer, attend

Step = Callable[[AttentionCall], None]

_on_board: ContextVar[Step | None] = ContextVar("_on_board", default=None)
_lock, _transformer_lock = Lock(), Lock()
_users: Counter[str] = Counter()
_originals: dict[str, Callable | None] = {}


@contextmanager
def on_board(model: nn.Module, step: Step) -> Iterator[None]:
    """Call `step` with every attention call that `model` makes in this thread, right after the model's own.

    The model is in evaluation mode meanwhile (dropout would be neither attention nor reproducible);
    everything is as it was afterwards, whatever happens.

    Raises:
        ValueError: the model is neither a Hugging Face model that uses the attention interface, nor ours.
    """
    with ExitStack() as stack:
        if isinstance(model, Transformer):
            stack.enter_context(_transformer(model))
        elif hasattr(getattr(model, "config", None), "_attn_implementation"):
            stack.enter_context(_interface(implementations(model)))
        else:
            raise ValueError(
                f"{type(model).__name__} is neither a Hugging Face model nor an attnlib Transformer. Collect "
                "its attention weights and call rollout(attentions) on them."
            )
        stack.enter_context(evaluating(model))
        stack.callback(_on_board.reset, _on_board.set(step))
        yield


@contextmanager
def _interface(names: set[str]) -> Iterator[None]:
    functions = AttentionInterface._global_mapping  # there is no public way to take a name out again
    with _lock:
        for name in names:
            if not _users[name]:
                _originals[name] = functions.get(name)
                AttentionInterface.register(name, partial(_catch, name))
            _users[name] += 1
    try:
        yield
    finally:
        with _lock:
            for name in names:
                _users[name] -= 1
                if not _users[name]:
                    original = _originals.pop(name)
                    if original is None:
                        functions.pop(name, None)
                    else:
                        AttentionInterface.register(name, original)


def _catch(
    name: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """What an attention function is called with, and has to return."""
    original = _originals.get(name) or eager_function(module)
    step = _on_board.get()
    if step is None:
        return original(module, query, key, value, attention_mask, **kwargs)
    if name == "eager":
        call = _EagerCall(original, module, query, key, value, attention_mask, kwargs)
        step(call)
        return torch.cat(call.outputs, 1), None
    output = original(module, query, key, value, attention_mask, **kwargs)
    kind = _SdpaCall if name == "sdpa" else _HuggingFaceCall
    step(kind(original, module, query, key, attention_mask, kwargs))
    return output


class _HuggingFaceCall(AttentionCall):
    """A kernel that is known by name only: it is called again as it is, in the model's own precision."""

    can_block = False

    def __init__(
        self,
        original: Callable,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        kwargs: dict,
    ) -> None:
        explicit = kwargs.get("is_causal")
        causal = getattr(module, "is_causal", True) if explicit is None else explicit
        super().__init__(
            query,
            key,
            mask if mask is not None and mask.ndim == 4 else None,
            causal=bool(causal) and query.shape[2] > 1,
            scale=kwargs.get("scaling"),
            bias=kwargs.get("position_bias"),
        )
        self.original, self.module, self.passed_mask = original, module, mask
        self.kwargs = kwargs | {"dropout": 0.0}

    def fused(self, x: Tensor) -> Tensor:
        x = x.to(self.query.dtype)
        return self.original(self.module, self.query, self.key, x, self.passed_mask, **self.kwargs)[0]


class _SdpaCall(_HuggingFaceCall):
    """torch's kernel, which multiplies in float32 whatever the model computes in."""

    can_block = True

    def fused(self, x: Tensor) -> Tensor:
        mask, bias = (
            t.to(x.dtype) if t is not None and t.is_floating_point() else t for t in (self.mask, self.bias)
        )
        kwargs = self.kwargs | ({} if bias is None else {"position_bias": bias})
        query, key = self.query.to(x.dtype), self.key.to(x.dtype)
        return self.original(self.module, query, key, x, mask, **kwargs)[0]


class _EagerCall(_HuggingFaceCall):
    """A model's own formula, on a block of queries at a time; its output falls off on the way."""

    can_fuse, can_block = False, True

    def __init__(
        self,
        original: Callable,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        kwargs: dict,
    ) -> None:
        super().__init__(original, module, query, key, mask, kwargs)
        self.causal = False  # eager functions know masks only
        self.value, self.outputs = value, list[Tensor]()

    def rows(self, start: int, stop: int, low: int, high: int) -> Tensor:
        """As in `AttentionCall`; keeps the output of these queries."""
        block, keys = slice(start, stop), slice(low, high)
        kwargs = dict(self.kwargs)
        if self.bias is not None:
            kwargs["position_bias"] = self.bias[..., block, keys]
        mask = None if self.mask is None else self.mask[..., block, keys]
        output, attention = self.original(
            self.module, self.query[:, :, block], self.key[:, :, keys], self.value[:, :, keys], mask, **kwargs
        )
        self.outputs.append(output)
        return attention


@contextmanager
def _transformer(model: Transformer) -> Iterator[None]:
    with _transformer_lock:
        attentions: list[Any] = [layer.attention for layer in model.layers]
        before = [attention.attend for attention in attentions]
        for attention in attentions:
            attention.attend = partial(_catch_own, attention.attend)
        try:
            yield
        finally:
            for attention, function in zip(attentions, before, strict=True):
                attention.attend = function


def _catch_own(
    original: Callable, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    output = original(q, k, v, allowed, **kwargs)
    if (step := _on_board.get()) is not None:
        step(_OwnCall(original, q, k, allowed, kwargs))
    return output


class _OwnCall(AttentionCall):
    """A call of `attnlib.models.transformer.attend`, or of whatever a reader put in its place."""

    def __init__(
        self, original: Callable, q: Tensor, k: Tensor, allowed: Tensor | None, kwargs: dict
    ) -> None:
        super().__init__(q, k, allowed, causal=kwargs.get("causal", False))
        self.original, self.allowed, self.kwargs = original, allowed, kwargs | {"need_weights": False}
        self.can_block = original is attend

    def fused(self, x: Tensor) -> Tensor:
        query, key = self.query.to(x.dtype), self.key.to(x.dtype)
        return self.original(query, key, x, self.allowed, **self.kwargs)[0].transpose(1, 2)
