"""What measures assume about a model; each assumption is tested once per model, on a short text.

A method that changes what a model computes, or how that is differentiated, relies on an assumption: that a
hidden token is really hidden, say, or that the model reads a token by its embedding alone. Architectures that
violate an assumption are found by the effect on their outputs, not by their names.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from attnlib.attribution.prompts import check_logits
from attnlib.attribution.stream import Hook, differentiating, hooked, passing, stream_of
from attnlib.models.attention import AttentionCall, evaluating
from attnlib.models.attention.forward import CannotRead, logits_of, model_dtype, rounding, short_texts
from attnlib.models.attention.inputs import keys_hidden
from attnlib.models.attention.interface import alone, implementations

Broken = Callable[[nn.Module, Int[Tensor, "2 token"]], str | None]
"""A test of an assumption on two texts with the same last token: an error message, or None if it holds."""

_found: WeakKeyDictionary[nn.Module, dict[Any, str | None]] = WeakKeyDictionary()


def check_assumption(model: nn.Module, broken: Broken, assumption: Any = None) -> None:
    """Raise a `ValueError` where a model violates an assumption.

    The assumption is tested once for each model, and again when modules, precision or kernel have changed.
    Open `with` blocks neither see nor change the test, and no random number is drawn.
    """
    kinds = tuple(type(module) for module in model.modules())
    key = assumption or broken, kinds, model_dtype(model), frozenset(implementations(model))
    found = _found.setdefault(model, {})
    if key not in found:
        with alone(), evaluating(model), torch.no_grad():
            try:
                found[key] = broken(model, short_texts(model))
            except RuntimeError as error:
                found[key] = (
                    f"{type(model).__name__} does not read the short text on which this measure has to try "
                    f"it: {error}"
                )
    if message := found[key]:
        raise ValueError(message)


def predicting(model: nn.Module, n: int) -> int:
    """Where a model predicts on a text of `n` tokens: at the last, or where its `predicts_at` says."""
    return int(getattr(model, "predicts_at", n - 1))


@torch.no_grad()
def hides_nothing_else(model: nn.Module, texts: Int[Tensor, "2 token"]) -> str | None:
    """Test that a token whose key is hidden from all others has no influence on them."""
    n = texts.shape[1]
    gone = n // 2 - 1
    other = texts[0].where(torch.arange(n, device=texts.device) != gone, texts[1])

    def from_others(call: AttentionCall) -> Bool[Tensor, "1 1 query key"]:
        key = torch.arange(call.key.shape[2], device=call.key.device) == gone
        itself = torch.arange(n - call.query.shape[2], n, device=call.key.device) == gone
        return (key & ~itself[:, None])[None, None]

    with keys_hidden(model, from_others):
        first, second = (
            logits_of(model, each[None], start=predicting(model, n))[:, :1] for each in (texts[0], other)
        )
    if alike(first, second, rounding(model)):
        return None
    return (
        f"{type(model).__name__} passes information between tokens outside the attention that can be "
        "changed, or selects keys by it: a token that is hidden from all others still moves the prediction. "
        'Take a measure that changes the text itself, such as "blank-out" or "ReAGent".'
    )


@torch.no_grad()
def reads_nothing_else(model: nn.Module, texts: Int[Tensor, "2 token"]) -> str | None:
    """Test that a model reads tokens by their input embeddings alone."""
    text, other, at = texts[:1], texts[1:], predicting(model, texts.shape[1])
    there, expected = stream_of(model, other, at)
    with passing(model, lambda _: there.clone()):
        found = logits_of(model, text, start=at)[:, 0]
    if alike(found, expected):
        return None
    return (
        f"{type(model).__name__} reads tokens by more than their input embeddings, which are all that this "
        'measure changes. Take a measure that changes the text itself, such as "blank-out" or "ReAGent".'
    )


def hands_gradients_on(model: nn.Module, texts: Int[Tensor, "2 token"]) -> str | None:
    """Test that gradients flow back through every part of a model, unless it cannot read so short a text."""
    cut = list[str]()

    def look(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        if cut or not torch.is_grad_enabled():  # inside a function with a backward pass of its own
            return
        read = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
        if len(read) != 1 or not isinstance(output, Tensor) or not output.is_floating_point():
            return
        (x,), of_each_token = read, output.shape[:-1] == read[0].shape[:-1]
        if of_each_token and not _differentiates(output, x) and not _is_constant(module, given, x, output):
            cut.append(f"{type(module).__module__}.{type(module).__name__}")

    hooks, at = [Hook(module, look) for module in model.modules()], predicting(model, texts.shape[1])
    leaf = passing(model, lambda x: x.detach().requires_grad_().clone())
    with differentiating(model), hooked(hooks), leaf, suppress(CannotRead):
        logits_of(model, texts[:1].clone(), start=at)
    if not cut:
        return None
    return (
        f"No gradient comes back through a part of {type(model).__name__} ({cut[0]}), as happens where "
        "weights are quantised, so that what it does would be left out. Take the model without quantisation, "
        'or a measure that changes the text itself, such as "blank-out" or "ReAGent".'
    )


def _waves(like: Tensor) -> Tensor:
    """A tensor like the given one, of distinct numbers of either sign."""
    return torch.arange(1, like.numel() + 1, device=like.device).sin().view(like.shape).to(like)


def _differentiates(output: Tensor, x: Tensor) -> bool:
    """Whether a gradient other than 0 flows back from a part's output to its input."""
    if not output.requires_grad:
        return False
    (found,) = torch.autograd.grad((output * _waves(output)).sum(), x, allow_unused=True, retain_graph=True)
    return found is not None and bool(found.any())


@torch.no_grad()
def _is_constant(module: nn.Module, given: tuple[Any, ...], x: Tensor, output: Tensor) -> bool:
    """Whether most of a part's output stays the same for another input, as with a choice of experts."""
    other = x + x.abs().max() / 8 * _waves(x)
    found = module.forward(*(other if each is x else each for each in given))
    return bool((found == output).float().mean() > 0.5)


def alike(found: Tensor, expected: Tensor, off: float = 0.0) -> bool:
    """Whether logits agree to half of the digits of the largest, or to the share `off` of it if larger."""
    check_logits(expected)
    there = expected.isfinite()  # some models exclude tokens
    allowed = max(off, half_of_digits(found)) * expected[there].abs().max()
    return bool(((found - expected)[there].abs() <= allowed).all())


def half_of_digits(numbers: Tensor) -> float:
    """The error allowed in numbers, relative to the largest: the square root of their precision."""
    return torch.finfo(numbers.dtype).eps ** 0.5
