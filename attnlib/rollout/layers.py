"""Head-mean attention of every layer, rollout and logits, of padded batches, from one forward pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.models.attention.call import AttentionCall
from attnlib.models.attention.catching import on_board
from attnlib.models.transformer import Transformer
from attnlib.rollout.recursion import Ride, one_hot
from attnlib.rollout.value_slot import check_layers, check_prompt, model_dtype

OnLayer = Callable[[int, Float[Tensor, "batch query key"]], None]


class Pass(NamedTuple):
    """What `follow_layers` found.

    Attributes:
        logits: of the positions from `logits_from` on.
        rollout: as `rollout_of`; what rows and columns of padding hold means nothing.
        layers: how many layers there are.
    """

    logits: Float[Tensor, "batch position vocabulary"]
    rollout: Float[Tensor, "batch query key"] | None
    layers: int


@torch.no_grad()
def follow_layers(
    model: nn.Module,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    *,
    on_layer: OnLayer | None = None,
    rollout: bool = True,
    logits_from: int = 0,
) -> Pass:
    """Run a causal language model once, and see its attention on the way, on any kernel.

    Each layer's attention is formed once, in blocks of rows, and averaged over heads: `on_layer` gets that
    average and takes from it what it needs, and rollout goes on with it. Memory beyond the forward pass is
    `batch x N x N` for the average, and for rollout, whatever the number of layers and heads.

    Args:
        model: as in `rollout_of`.
        input_ids: the tokens.
        attention_mask: True for tokens, False for padding, which stands on the right.
        on_layer: called with a layer's number, from 0, and its head-mean attention.
        rollout: whether to compute it.
        logits_from: the first position to give logits of (a vocabulary's worth each).

    Raises:
        ValueError: as in `rollout_of`; or padding is not on the right, or the model has no logits.
    """
    check_prompt(model, input_ids, attention_mask)
    if attention_mask is not None and bool((attention_mask[:, 1:] & ~attention_mask[:, :-1]).any()):
        raise ValueError("attention_mask must be padding on the right only. Got tokens after padding.")
    (batch, n), device, dtype = input_ids.shape, input_ids.device, model_dtype(model)
    ride = Ride(one_hot(torch.arange(n, device=device), (batch, n), dtype), real=attention_mask)
    seen = 0

    def step(call: AttentionCall) -> None:
        nonlocal seen
        with torch.autocast(device.type, enabled=False):
            mean, total = call.head_mean(dtype)
            if on_layer is not None:
                on_layer(seen, mean)
            if rollout:
                ride.through(_Formed(call, mean, total))
        seen += 1

    with on_board(model, step):
        logits = logits_of(model, input_ids, attention_mask, logits_from)
    check_layers(model, seen)
    return Pass(logits, ride.state if rollout else None, seen)


class _Formed(AttentionCall):
    """A call whose head-mean attention is there already."""

    def __init__(self, call: AttentionCall, mean: Tensor, total: Tensor | float) -> None:
        super().__init__(call.query, call.key)
        self.mean, self.total = mean, total

    def product(self, x: Tensor, weights: Tensor | None, kernel: str) -> tuple[Tensor, Any]:
        """As in `AttentionCall`."""
        return self.mean @ x, self.total


def logits_of(
    model: Any,
    input_ids: Int[Tensor, "batch token"],
    attention_mask: Bool[Tensor, "batch token"] | None = None,
    start: int = 0,
) -> Float[Tensor, "batch position vocabulary"]:
    """The logits from position `start` on, of a Hugging Face language model or of an attnlib `Transformer`.

    Raises:
        ValueError: the model gives no logits.
    """
    keep, options = input_ids.shape[1] - start, dict[str, Any]()
    if not isinstance(model, Transformer):
        known = inspect.signature(model.forward).parameters
        options = {"use_cache": False} if "use_cache" in known else {}
        options |= {"logits_to_keep": keep} if "logits_to_keep" in known else {}
        attention_mask = None if attention_mask is None else attention_mask.long()
    logits = getattr(model(input_ids=input_ids, attention_mask=attention_mask, **options), "logits", None)
    if logits is None or logits.ndim != 3:
        raise ValueError(
            f"{type(model).__name__} predicts no token at every position, so there is nothing to evaluate. "
            "Give a causal language model (AutoModelForCausalLM, or an attnlib Transformer)."
        )
    return logits[:, -keep:]


@torch.no_grad()
def check_causal(model: nn.Module, input_ids: Int[Tensor, "batch token"]) -> None:
    """Raise a `ValueError` if the model's attention looks at tokens that come later.

    Looks at the attention itself, on these tokens (without padding), not at what the model says of itself.

    Raises:
        ValueError: it does; or as in `rollout_of`.
    """
    tokens = input_ids[:1] if input_ids.shape[1] > 1 else input_ids[:1].expand(1, 2)
    check_prompt(model, tokens, None)
    ahead: list[Tensor] = []

    def step(call: AttentionCall) -> None:
        n = call.query.shape[2]
        last = one_hot(torch.tensor([n - 1], device=tokens.device), (1, n), model_dtype(model))
        ahead.append(call.product(last, None, "auto")[0][:, :-1].abs().amax())

    with on_board(model, step):
        logits_of(model, tokens)
    check_layers(model, len(ahead))
    if bool(torch.stack(ahead).amax() > 0):
        raise ValueError(
            f"{type(model).__name__} is not causal: its attention looks at tokens that come later, so it "
            "reads the answer that it should predict. Give a causal language model (for an attnlib "
            "Transformer, causal=True)."
        )
