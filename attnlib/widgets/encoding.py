"""How numbers are sent to a widget: checked, stored as one byte per weight, and compressed.

A weight ``w`` in [0, 1] is stored as the byte ``b = round(255 sqrt(w))`` and read back as ``(b / 255)^2``.
The square root puts most of the 256 steps at small weights: uniform attention over 60 keys has the weight
0.017, where plain rounding to 1/255 would be wrong by up to 12 % and the square root by at most 3 %. The
error is at most ``sqrt(w)/255 + 1/255^2`` (0.004 for weights near 1). ``b`` is 0 exactly when ``w`` is 0, so
that a masked key can be told from a small weight.

References are stored as bits, eight cells per byte, and each distinct reference is stored once.

The bytes are compressed by raw deflate. The front end decompresses them by its own code, since the browser's
``DecompressionStream`` is asynchronous and answers only after the page is drawn.
"""

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, UInt8

from attnlib.checks import check, check_finite, check_mask, check_shape, check_some
from attnlib.stats.ragged import numpy_of

Array = torch.Tensor | np.ndarray
References = Mapping[tuple[int, int], Array] | Array | None

ROUNDING = 1e-3
"""How far outside [0, 1] a weight may lie, for rounding errors of averages and half precision."""


def quantise(weights: Float[np.ndarray, "*shape"]) -> UInt8[np.ndarray, "*shape"]:
    """The weights, in [0, 1], as bytes ``round(255 sqrt(w))``, where only an exact zero becomes 0."""
    steps = np.rint(255 * np.sqrt(weights))
    return np.where(weights > 0, np.maximum(steps, 1), 0).astype(np.uint8)


def dequantise(steps: UInt8[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The weights ``(b / 255)^2`` that the bytes of `quantise` stand for, as the front end reads them."""
    return (steps.astype(np.float64) / 255) ** 2


def deflate(steps: UInt8[np.ndarray, "*shape"]) -> bytes:
    """The bytes compressed by raw deflate (RFC 1951), without the header of zlib."""
    packer = zlib.compressobj(level=9, wbits=-15)
    return packer.compress(steps.tobytes()) + packer.flush()


def check_tokens(name: str, tokens: Sequence[str]) -> tuple[str, ...]:
    """The tokens as a tuple; raises a ValueError unless they are a list of at least one string."""
    fits = not isinstance(tokens, str) and all(isinstance(token, str) for token in tokens)
    check(fits, f"{name} must be a list of strings, one per token", tokens)
    check_some(**{name: tokens})
    return tuple(tokens)


def check_weights(attentions: Array, queries: int, keys: int) -> Float[np.ndarray, "layer head query key"]:
    """The weights, clipped to [0, 1]; ValueError for a wrong shape, or beyond `ROUNDING` outside [0, 1]."""
    values = numpy_of(attentions)
    check_shape((*values.shape[:2], queries, keys), "[layer head query key]", attentions=values)
    check(values.size, "attentions must have a layer and a head", values.shape)
    values = values.astype(np.float64)
    check_finite("[layer head query key]", attentions=values)
    ends = (values.min(), values.max())
    within = min(ends) >= -ROUNDING and max(ends) <= 1 + ROUNDING
    check(within, "attentions must be from 0 to 1, as softmax gives them", ends)
    return values.clip(0, 1)


def packed_masks(
    references: References, shape: tuple[int, ...]
) -> tuple[tuple[bytes, ...], tuple[tuple[int, ...], ...]]:
    """The distinct references, and per layer and head the index into them, -1 where there is none.

    A reference is stored as bits in the order of the cells (``numpy.packbits``), padded to whole bytes.
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
        fits = 0 <= layer < layers and 0 <= head < heads
        check(fits, f"references must be of layers below {layers} and heads below {heads}", (layer, head))
        mask = numpy_of(reference)
        check_mask(cells, "[query key]", **{f"the reference of layer {layer}, head {head}": mask})
        mask_of[layer][head] = masks.setdefault(np.packbits(mask).tobytes(), len(masks))
    return tuple(masks), tuple(tuple(row) for row in mask_of)
