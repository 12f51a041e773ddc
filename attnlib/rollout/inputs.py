"""What rollout is given, checked: attention, head weights, positions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Attentions = (
    Float[Tensor, "batch layer head query key"]
    | Float[Tensor, "layer head query key"]
    | Sequence[Tensor | None]
    | None
)
"""Attention of every layer and head: one tensor, or one `[batch head query key]` per layer."""

ROW_SUM_TOLERANCE = 0.02
"""How far a row of attention may be from summing to 1 before `rollout` warns; bfloat16's rounding passes."""


def as_layers(attentions: Attentions) -> tuple[list[Float[Tensor, "batch _ query key"]], bool]:
    """Attention as one `[batch head query key]` per layer, and whether it came with a batch dimension."""
    if attentions is None or (not isinstance(attentions, Tensor) and any(a is None for a in attentions)):
        raise ValueError(
            "attentions is None: the model ran on a fused kernel (SDPA, flash), which forms no attention "
            "matrix. Use rollout_of(model, input_ids), which needs none, or load the model with "
            'attn_implementation="eager" and call it with output_attentions=True.'
        )
    if isinstance(attentions, Tensor):
        if attentions.ndim not in (4, 5):
            raise ValueError(
                "attentions must be [batch layer head query key] or [layer head query key]. "
                f"Got shape {tuple(attentions.shape)} instead."
            )
        stacked = attentions if attentions.ndim == 5 else attentions[None]
        layers, batched = list(stacked.unbind(1)), attentions.ndim == 5
    else:
        layers, batched = [a for a in attentions if a is not None], True
    if not layers:
        raise ValueError("attentions must have at least one layer. Got none.")
    for index, layer in enumerate(layers):
        if layer.ndim != 4 or layer.shape[-1] != layer.shape[-2] or 0 in layer.shape[1:]:
            raise ValueError(
                f"attentions of layer {index} must be [batch head query key] with as many queries as keys, "
                f"and at least one of each. Got shape {tuple(layer.shape)} instead."
            )
        if layer.shape[0] != layers[0].shape[0] or layer.shape[2:] != layers[0].shape[2:]:
            raise ValueError(
                "attentions must have the same shape in every layer, except for the number of heads. Got "
                f"{tuple(layers[0].shape)} in layer 0 and {tuple(layer.shape)} in layer {index} instead."
            )
        if not layer.is_floating_point():
            raise ValueError(
                f"attentions must be floating-point. Got {layer.dtype} in layer {index} instead."
            )
    return layers, batched


def token_indices(
    given: Sequence[int] | Int[Tensor, " position"], n: int, name: str, device: torch.device
) -> Tensor:
    """Token positions as indices from 0, negative ones counted from the end; an error names the parameter."""
    index = torch.as_tensor(given, dtype=torch.long)  # where it is: no GPU is waited for to check a list
    if index.ndim != 1:
        raise ValueError(f"{name} must be a list of positions. Got shape {tuple(index.shape)} instead.")
    if index.numel() and (int(index.min()) < -n or int(index.max()) >= n):
        raise ValueError(f"{name} must be positions from {-n} to {n - 1}. Got {index.tolist()} instead.")
    return (index % n).to(device)


def sink_mask(sink: Sequence[int], n: int, device: torch.device) -> Bool[Tensor, " key"]:
    """True for the keys that stay."""
    keep = torch.ones(n, dtype=torch.bool, device=device)
    keep[token_indices(sink, n, "sink", device)] = False
    return keep


def check_head_weights(
    head_weights: Float[Tensor, "layer head"] | None, layers: list[Tensor]
) -> list[Tensor] | None:
    """One row of weights per layer; a `ValueError` if they do not fit."""
    if head_weights is None:
        return None
    heads = [layer.shape[1] for layer in layers]
    if tuple(head_weights.shape) != (len(layers), heads[0]) or len(set(heads)) > 1:
        raise ValueError(
            f"head_weights must be [layer head] = [{len(layers)} {heads[0]}], with as many heads in every "
            f"layer (there are {heads}). Got shape {tuple(head_weights.shape)} instead."
        )
    if not bool(torch.isfinite(head_weights).all()):
        raise ValueError("head_weights must be finite.")
    return list(head_weights)


def check_rows(
    layers: list[Float[Tensor, "batch _ query key"]],
    total: Float[Tensor, "batch layer query 1"],
    expected: list[float],
    first: int,
) -> None:
    """Refuse what is not finite, and warn of rows that do not sum to 1; `first` is the first layer's number.

    Looks at row sums over all heads, which any NaN or infinity reaches, so good attention is read only once.
    """
    if not total.numel():
        return
    total = total.detach()[..., 0]
    bounds = torch.stack([total.amin((0, 2)), total.amax((0, 2))]).tolist()
    for index, (low, high, right) in enumerate(zip(*bounds, expected, strict=True)):
        layer = first + index
        off = max(high - right, right - low) / max(1.0, abs(right))
        if not math.isfinite(off):
            bad = ~torch.isfinite(layers[index]).flatten(2).all(-1)
            found = ", ".join(f"(batch {b}, head {h})" for b, h in bad.nonzero()[:4].tolist())
            more = ", ..." if int(bad.sum()) > 4 else ""
            raise ValueError(
                f"attentions must be finite. Got NaN or infinity in layer {layer}: {found}{more}."
            )
        if off > ROW_SUM_TOLERANCE:
            warnings.warn(
                f"Attention rows of layer {layer} do not sum to 1 (their mean over heads is off by up to "
                f"{off:.3g}); each row is divided by its sum. Were these softmax weights, without dropout "
                "and without padding rows?",
                stacklevel=4,
            )
