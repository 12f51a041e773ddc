r"""The cost of an attribution method, compared with one forward pass of the same model on the same prompt.

`passes`
    floating-point operations of matrix products, divided by those of a forward pass: equal on any machine.
    Other operations (a maximum flow, a softmax) are not counted.
`seconds`
    processor time of the method divided by that of a forward pass: each is the median over repetitions. The
    two alternate, so that a machine that slows down slows both.
`megabytes`
    peak memory of all tensors, without the model and the prompt; the first row is that of a forward pass.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int64
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import (
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
    shape_wrapper,
)
from torch.utils.weak import WeakIdKeyDictionary

from attnlib.attribution.registry import METHODS, Methods, attributions, named
from attnlib.models.attention import evaluating
from attnlib.models.attention.forward import logits_of

FORWARD = "one forward pass"
"""The name of the table's first row, the unit of `passes` and `seconds`."""

SEVERAL = 5
"""Forward passes that are timed together, after each call of a method."""

ENOUGH = 2.0
"""Seconds of processor time after which a method is not repeated."""

_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_CPU_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
_FLOPS: dict[Any, Callable[..., int]] = dict(flop_registry) | {  # the registry lacks attention on CPUs
    _CPU: shape_wrapper(lambda query, key, value, *_, **__: sdpa_flop_count(query, key, value)),
    _CPU_BACKWARD: shape_wrapper(
        lambda grad, query, key, value, *_, **__: sdpa_backward_flop_count(grad, query, key, value)
    ),
}


def cost_table(
    model: nn.Module,
    input_ids: Int64[Tensor, "1 token"],
    methods: Methods = tuple(METHODS),
    *,
    counterfactual: Int64[Tensor, "1 token"] | None = None,
    repetitions: int = 5,
) -> pd.DataFrame:
    """The cost of every method on one prompt, at its last position; NaN for one that raises a ValueError.

    Columns `method`, `passes`, `seconds`, `megabytes` (see the module's docstring) and `note` (the error).
    """
    asked: dict[str, Any] = {"query": input_ids.shape[1] - 1}
    if counterfactual is not None:
        asked["counterfactual"] = counterfactual

    @torch.no_grad()
    def forward() -> None:
        with evaluating(model):
            logits_of(model, input_ids, start=asked["query"])

    flops, peak = counted(forward)
    rows = [(FORWARD, 1.0, 1.0, peak / 1e6, f"{_seconds(forward):.3f} s here")]
    for name, method in named(methods).items():
        call = partial(attributions, model, input_ids, {name: method}, **asked)
        try:
            call()
        except ValueError as error:
            rows.append((name, float("nan"), float("nan"), float("nan"), str(error)))
            continue
        own, peak = counted(call)
        rows.append((name, own / flops, _time_ratio(call, forward, repetitions), peak / 1e6, ""))
    return pd.DataFrame(rows, columns=["method", "passes", "seconds", "megabytes", "note"])


def counted(call: Callable[[], Any]) -> tuple[int, int]:
    """Floating-point operations of a call's matrix products; the most bytes that its tensors hold at once."""
    with _Counted() as counted:
        call()
    return counted.flops, counted.peak


class _Counted(TorchDispatchMode):
    """Counts the operations of matrix products, and the bytes of new tensors until they are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.known: Any = WeakIdKeyDictionary()
        self.now = self.peak = self.flops = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs, kind = kwargs or {}, function._overloadpacket
        self._note([args, kwargs], made=False)
        if kind not in _FLOPS:
            with self:  # count the operations that this one is composed of
                parts = function.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        found = function(*args, **kwargs)
        if kind in _FLOPS:
            self.flops += _FLOPS[kind](*args, **kwargs, out_val=found)
        self._note(found, made=True)
        return found

    def _note(self, values: Any, made: bool) -> None:
        for each in tree_leaves(values):
            if not isinstance(each, Tensor) or (storage := each.untyped_storage()) in self.known:
                continue
            self.known[storage] = True
            if made:
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._let_go, storage.nbytes())

    def _let_go(self, size: int) -> None:
        self.now -= size


def _seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _time_ratio(call: Callable[[], Any], forward: Callable[[], Any], repetitions: int) -> float:
    """The median time of a call over that of a forward pass, which is short and so run `SEVERAL` times."""
    long, short = list[float](), list[float]()
    while len(long) < repetitions and (not long or sum(long) < ENOUGH):
        long.append(_seconds(call))
        short.append(_seconds(lambda: [forward() for _ in range(SEVERAL)]) / SEVERAL)
    return median(long) / median(short)
