r"""Attention pushed onto chosen keys while a model runs: does accuracy follow?

Looking where an algorithm looks may be a cause of right answers, or only go with them. So we intervene: in
chosen heads, the attention $A$ of every query with a reference is replaced on its way to the values $V$,

$$\text{mixture: } A' = (1 - s)\,A + s\,\frac{S}{\sum_k S_{qk}}
\qquad\qquad \text{as published: } A' = A + s\,S$$

with $S_{qk}$ = 1 where query $q$ should look, else 0, and $s$ the strength. A mixture is attention again: its
rows sum to 1, $s = 0$ changes nothing and $s = 1$ leaves nothing of what the head looked at by itself. The
published form (Spiegel et al. 2025, their repository's reinforcement notebooks) adds to weights that summed
to 1 already, so a head's output also grows with $s$, and with the number of reference keys.

A head's output is linear in its attention, so $A' V$ needs $A V$ and $S V$ only: the intervention works
behind any kernel, fused ones included, and costs one product with a 0/1 matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AttentionInterface

from attnlib.generators.base import Head
from attnlib.models.attention.registry import eager_function, implementations
from attnlib.models.transformer import Transformer

_lock = RLock()


@contextmanager
def reinforced(
    model: nn.Module,
    reference: Bool[Tensor, "batch query key"],
    strength: float | int,
    heads: Sequence[Head] | None = None,
    *,
    as_published: bool = False,
) -> Iterator[None]:
    """Push attention onto `reference` in every call of `model` inside the `with` block.

    The attention that the model returns when asked for is the changed one. Queries without a reference are
    left alone. A call with fewer queries than keys (a generation that goes on from its cache) is taken for
    the last ones of its keys, and a shorter sequence than the reference for its beginning. Another thread
    that wants to intervene waits.

    Args:
        model: a Hugging Face model that uses the attention interface, or our own `Transformer`.
        reference: S, for the batch that the model will be called with, padding included.
        strength: s; in [0, 1], or any number at least 0 `as_published`.
        heads: which (layer, head)s; all if None.
        as_published: see the module's docstring.

    Raises:
        ValueError: a strength or a head that cannot be, a model of another kind, or (inside the block) a
            batch that the reference does not fit.

    Example:
        >>> from attnlib.models import Transformer, TransformerConfig
        >>> model = Transformer(TransformerConfig(5, n_layers=1, causal=True))
        >>> first = torch.zeros(1, 3, 3, dtype=torch.bool)
        >>> first[..., 0] = True
        >>> with reinforced(model, first, 1.0):
        ...     output = model(torch.tensor([[1, 2, 3]]), output_attentions=True)
        >>> output.attentions[0, 0, 0, :, 0]
        tensor([1., 1., 1.], grad_fn=<SelectBackward0>)
    """
    if strength < 0 or (strength > 1 and not as_published):
        allowed = "at least 0" if as_published else "from 0 to 1"
        raise ValueError(f"strength should be {allowed}; got {strength}")
    modules = _attention_modules(model)
    places = _chosen(heads, modules)
    pushes = {id(m): _Push(reference, strength, places[i], as_published) for i, m in enumerate(modules)}
    change = _own_functions(model, pushes) if isinstance(model, Transformer) else _interface(model, pushes)
    with _lock, change:
        yield


def causal_null(
    reference: Bool[Tensor, "batch query key"], seed: int = 0, *, first_key: int = 1
) -> Bool[Tensor, "batch query key"]:
    """As many keys per query as the reference has, drawn at random from those that the query may see.

    The control of `reinforced`: the same push, onto keys that the algorithm has no use for (or only by
    chance). Every key before a query, and the query itself, is as likely as any other.

    Args:
        reference: causal; right-padded sequences, with nothing on padding.
        seed: of the draws.
        first_key: keys before this one are never drawn; 1 spares the beginning-of-sequence token.
    """
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(reference.shape, generator=generator).to(reference.device)
    positions = torch.arange(reference.shape[-1], device=reference.device)
    visible = (positions <= positions[:, None]) & (positions >= first_key)
    order = draws.masked_fill(~visible, 2.0).argsort(-1).argsort(-1)  # rank of each key's draw in its row
    return (order < reference.sum(-1, keepdim=True)) & visible


class _Push:
    """What is done to one layer's attention."""

    def __init__(self, reference: Tensor, strength: float | int, heads: list[int] | None, add: bool) -> None:
        self.reference, self.strength, self.heads, self.add = reference, float(strength), heads, add

    def pattern(self, values: Tensor, n_queries: int, n_heads: int) -> tuple[Tensor, Tensor]:
        """S (rows summing to 1, unless it is added as published), and where A gives way to it."""
        batch, _, n_keys, _ = values.shape
        have = self.reference.shape
        if have[0] != batch or have[1] < n_keys:
            raise ValueError(
                f"the reference is for {have[0]} sequences of up to {have[1]} tokens, and the model was "
                f"called with {batch} of {n_keys}: call it inside reinforced() with that one batch only"
            )
        target = self.reference[:, n_keys - n_queries : n_keys, :n_keys].to(values.device, values.dtype)
        counts = target.sum(-1, keepdim=True)
        if not self.add:
            target = target / counts.clamp(min=1)
        chosen = torch.zeros(n_heads, device=values.device, dtype=values.dtype)
        chosen[slice(None) if self.heads is None else self.heads] = 1.0
        return target[:, None], chosen[:, None, None] * (counts > 0)[:, None]

    def change(
        self, mixed: Tensor, values: Tensor, weights: Tensor | None
    ) -> tuple[Float[Tensor, "batch head query channel"], Tensor | None]:
        """A'V in place of AV, and A' in place of A where A is there."""
        n_heads, n_queries = mixed.shape[1:3]
        target, where = self.pattern(values, n_queries, n_heads)
        keep = 1.0 if self.add else 1 - self.strength * where
        push = self.strength * where
        values = values.repeat_interleave(n_heads // values.shape[1], 1)  # grouped-query attention
        changed = keep * mixed + push * (target @ values)
        return changed, None if weights is None else keep * weights + push * target


def _attention_modules(model: nn.Module) -> list[nn.Module]:
    """The modules that compute attention, one per layer, first to last."""
    if isinstance(model, Transformer):
        return [layer.attention for layer in model.layers]  # type: ignore[misc]
    modules = [m for m in model.modules() if isinstance(getattr(m, "layer_idx", None), int)]
    modules = [m for m in modules if "Attention" in type(m).__name__]
    if not implementations(model) or len({m.layer_idx for m in modules}) != len(modules) or not modules:
        raise ValueError(
            f"{type(model).__name__} is neither an attnlib Transformer nor a Hugging Face decoder with one "
            "self-attention per layer: its attention cannot be changed from outside"
        )
    return sorted(modules, key=lambda m: m.layer_idx)  # type: ignore[arg-type, return-value]


def _chosen(heads: Sequence[Head] | None, modules: list[nn.Module]) -> list[list[int] | None]:
    """The chosen heads of every layer; None for all of them."""
    if heads is None:
        return [None] * len(modules)
    n_heads = [_n_heads(module) for module in modules]
    for layer, head in heads:
        if not (0 <= layer < len(modules) and 0 <= head < n_heads[layer]):
            raise ValueError(
                f"there is no head L{layer}H{head}; the model has {len(modules)} layers of {n_heads[0]} heads"
            )
    return [[head for place, head in heads if place == layer] for layer in range(len(modules))]


def _n_heads(module: Any) -> int:
    config = getattr(module, "config", None)
    return module.n_heads if config is None else config.num_attention_heads


@contextmanager
def _own_functions(model: Transformer, pushes: dict[int, _Push]) -> Iterator[None]:
    attentions: list[Any] = [layer.attention for layer in model.layers]
    before = [attention.attend for attention in attentions]
    for attention in attentions:
        attention.attend = partial(_own, attention.attend, pushes[id(attention)])
    try:
        yield
    finally:
        for attention, function in zip(attentions, before, strict=True):
            attention.attend = function


def _own(original: Callable, push: _Push, q: Tensor, k: Tensor, v: Tensor, *rest: Any, **kwargs: Any) -> Any:
    mixed, weights = original(q, k, v, *rest, **kwargs)
    return push.change(mixed, v, weights)


@contextmanager
def _interface(model: nn.Module, pushes: dict[int, _Push]) -> Iterator[None]:
    functions = AttentionInterface._global_mapping  # there is no public way to take a name out again
    before = {name: functions.get(name) for name in implementations(model)}
    for name, original in before.items():
        AttentionInterface.register(name, partial(_theirs, original, pushes))
    try:
        yield
    finally:
        for name, original in before.items():
            if original is None:
                functions.pop(name, None)
            else:
                AttentionInterface.register(name, original)


def _theirs(
    original: Callable | None,
    pushes: dict[int, _Push],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *rest: Any,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """What an attention function is called with and returns; other models' calls pass through."""
    mixed, weights = (original or eager_function(module))(module, query, key, value, *rest, **kwargs)
    push = pushes.get(id(module))
    if push is None:
        return mixed, weights
    changed, weights = push.change(mixed.transpose(1, 2), value, weights)
    return changed.transpose(1, 2), weights
