"""Head-mean attention of every layer, rollout and logits, of padded batches, from one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.models.attention.call import AttentionCall, Product, Wanted, Watcher
from attnlib.models.attention.forward import model_dtype, watched_pass
from attnlib.rollout.recursion import Recursion, one_hot

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
    if attention_mask is not None and bool((attention_mask[:, 1:] & ~attention_mask[:, :-1]).any()):
        raise ValueError("attention_mask must be padding on the right only. Got tokens after padding.")
    columns = torch.arange(input_ids.shape[1], device=input_ids.device)
    start = one_hot(columns, (len(input_ids), len(columns)), model_dtype(model))
    recursion, seen = Recursion(start, real=attention_mask), 0

    def mean(call: AttentionCall) -> Generator[Wanted, Product, None]:
        nonlocal seen
        product, _ = yield Wanted()
        if on_layer is not None:
            on_layer(seen, product)
        seen += 1

    watchers: list[Watcher] = [mean, recursion] if rollout else [mean]
    logits = watched_pass(model, watchers, input_ids, attention_mask, logits_from=logits_from)
    assert logits is not None
    return Pass(logits, recursion.state if rollout else None, seen)


@torch.no_grad()
def check_causal(model: nn.Module, input_ids: Int[Tensor, "batch token"]) -> None:
    """Raise a `ValueError` if the model's attention looks at tokens that come later.

    Looks at the attention itself, on these tokens (without padding), not at what the model says of itself.

    Raises:
        ValueError: it does; or as in `rollout_of`.
    """
    tokens = input_ids[:1] if input_ids.shape[1] > 1 else input_ids[:1].expand(1, 2)
    ahead: list[Tensor] = []

    def last_key(call: AttentionCall) -> Generator[Wanted, Product, None]:
        n = call.query.shape[2]
        last = one_hot(torch.tensor([n - 1], device=tokens.device), (1, n), model_dtype(model))
        product, _ = yield Wanted(last)
        ahead.append(product[:, :-1].abs().amax())

    watched_pass(model, [last_key], tokens, logits_from=0)
    if bool(torch.stack(ahead).amax() > 0):
        raise ValueError(
            f"{type(model).__name__} is not causal: its attention looks at tokens that come later, so it "
            "reads the answer that it should predict. Give a causal language model (for an attnlib "
            "Transformer, causal=True)."
        )
