"""How numbers travel to a widget: checked, then one byte per weight, compressed.

A weight ``w`` in [0, 1] is stored as the byte ``b = round(255 sqrt(w))`` and read back as ``(b / 255)^2``.
The square root spends the 256 steps where attention lives: among 60 keys an even weight is 0.017, where
plain rounding to 1/255 would be wrong by up to 12 % and the square root by at most 3 %. The error is at most
``sqrt(w)/255 + 1/255^2`` (0.004 for weights near 1). Zero is kept apart: ``b = 0`` exactly when ``w = 0``, so
that a masked key can be told from a small weight.

References are stored as bits, eight cells per byte, each distinct one once.

The bytes are compressed by raw deflate, which the front end undoes itself: ``DecompressionStream`` answers
only when the page is drawn already.
"""

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, UInt8

from attnlib.stats.ragged import numpy_of

Array = torch.Tensor | np.ndarray
References = Mapping[tuple[int, int], Array] | Array | None

ROUNDING = 1e-3
"""How far outside [0, 1] a weight may lie: softmax in half precision and averages round that much."""


def quantise(weights: Float[np.ndarray, "*shape"]) -> UInt8[np.ndarray, "*shape"]:
    """Weights in [0, 1] to bytes, ``round(255 sqrt(w))``, where only an exact zero becomes 0."""
    steps = np.rint(255 * np.sqrt(weights))
    return np.where(weights > 0, np.maximum(steps, 1), 0).astype(np.uint8)


def dequantise(steps: UInt8[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Bytes of `quantise` back to weights, ``(b / 255)^2``, as the widget does."""
    return (steps.astype(np.float64) / 255) ** 2


def deflate(steps: UInt8[np.ndarray, "*shape"]) -> bytes:
    """Raw deflate (RFC 1951), without the header of zlib."""
    packer = zlib.compressobj(level=9, wbits=-15)
    return packer.compress(steps.tobytes()) + packer.flush()


def checked_tokens(name: str, tokens: Sequence[str]) -> tuple[str, ...]:
    """The tokens; ValueError unless they are strings, one or more."""
    if isinstance(tokens, str):
        raise ValueError(
            f"{name} must be a list of strings, one per token; got one string. "
            f"For one token per character pass list({tokens[:12]!r})."
        )
    if wrong := [token for token in tokens if not isinstance(token, str)]:
        raise ValueError(
            f"{name} must be strings; got {wrong[0]!r} ({type(wrong[0]).__name__}). "
            f"Token ids become strings by tokenizer.convert_ids_to_tokens(ids)."
        )
    if not len(tokens):
        raise ValueError(f"{name} is empty; there must be at least one token.")
    return tuple(tokens)


def checked_weights(attentions: Array, queries: int, keys: int) -> Float[np.ndarray, "layer head query key"]:
    """The weights, cut to [0, 1]; ValueError unless they fit the tokens and lie there, up to `ROUNDING`."""
    values = numpy_of(attentions)
    if values.ndim != 4:
        hint = (
            "take one of the batch, attentions[0]" if values.ndim == 5 else "add the missing axes with None"
        )
        raise ValueError(
            f"attentions must have the four axes [layer head query key]; got shape {values.shape}: {hint}."
        )
    if values.shape[2:] != (queries, keys):
        raise ValueError(
            f"attentions of shape {values.shape} have {values.shape[2]} queries and {values.shape[3]} keys, "
            f"but there are {queries} query tokens and {keys} key tokens. "
            "Cut the padding off, or pass query_tokens when queries and keys are different sequences."
        )
    if 0 in values.shape:
        raise ValueError(f"attentions of shape {values.shape} hold no layer or no head; there must be one.")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(
            f"attentions hold {values[place]} at [layer head query key] = {list(place)}; weights must be "
            "finite. A row that may attend to nothing should be all zeros: torch.nan_to_num(attentions)."
        )
    if values.min() < -ROUNDING or values.max() > 1 + ROUNDING:
        raise ValueError(
            f"attentions must lie in [0, 1]; got values from {values.min():.3g} to {values.max():.3g}. "
            "Pass the weights after the softmax, not the scores before it."
        )
    return values.clip(0, 1)


def packed_masks(
    references: References, shape: tuple[int, ...]
) -> tuple[tuple[bytes, ...], tuple[tuple[int, ...], ...]]:
    """The distinct references, and per layer and head the index into them, -1 where there is none.

    A reference is as bits in the order of the cells (``numpy.packbits``), padded to whole bytes.
    """
    layers, heads, *cells = shape
    if references is None:
        each: dict[tuple[int, int], Array] = {}
    elif isinstance(references, Mapping):
        each = dict(references)
    else:
        each = {(layer, head): references for layer in range(layers) for head in range(heads)}
    masks: dict[bytes, int] = {}
    mask_of = [[-1] * heads for _ in range(layers)]
    for (layer, head), reference in each.items():
        if not (0 <= layer < layers and 0 <= head < heads):
            raise ValueError(
                f"references has a key {(layer, head)}, but layers run from 0 to {layers - 1} "
                f"and heads from 0 to {heads - 1}."
            )
        mask = numpy_of(reference)
        if mask.shape != tuple(cells):
            raise ValueError(
                f"the reference of layer {layer}, head {head} has shape {mask.shape}; "
                f"it must be [query key] = {tuple(cells)}, like the attentions."
            )
        if mask.dtype != bool:
            raise ValueError(
                f"the reference of layer {layer}, head {head} has dtype {mask.dtype}; it must be bool: "
                "True where the query should look. Pass reference.bool() or reference > 0."
            )
        mask_of[layer][head] = masks.setdefault(np.packbits(mask).tobytes(), len(masks))
    return tuple(masks), tuple(tuple(row) for row in mask_of)
