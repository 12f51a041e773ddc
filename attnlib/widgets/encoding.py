"""How attention travels to a widget: checked, then one byte per weight.

A weight ``w`` in [0, 1] is stored as the byte ``b = round(255 sqrt(w))`` and read back as ``(b / 255)^2``.
The square root spends the 256 steps where attention lives: among 60 keys an even weight is 0.017, where
plain rounding to 1/255 would be wrong by up to 12 % and the square root by at most 3 %. The error is at most
``sqrt(w)/255 + 1/255^2`` (0.004 for weights near 1). Zero is kept apart: ``b = 0`` exactly when ``w = 0``, so
that a masked key can be told from a small weight.

References are stored as bits, eight cells per byte, each distinct one once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8

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


@dataclass(frozen=True)
class Example:
    """One sequence (or pair of sequences) and its attention, checked and packed.

    Attributes:
        label: what the drop-down calls it.
        tokens: of the keys; also of the queries where ``query_tokens`` is None.
        query_tokens: of the queries, or None where queries and keys are the same sequence.
        weights: `quantise` of the attentions.
        masks: the distinct references, as bits in the order of the cells (``numpy.packbits``), each padded
            to whole bytes.
        mask_of: per layer and head, the index into ``masks``; -1 where there is no reference.
    """

    label: str
    tokens: tuple[str, ...]
    query_tokens: tuple[str, ...] | None
    weights: UInt8[np.ndarray, "layer head query key"]
    masks: tuple[bytes, ...]
    mask_of: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls,
        label: str,
        tokens: Sequence[str],
        attentions: Array,
        references: References = None,
        query_tokens: Sequence[str] | None = None,
    ) -> "Example":
        """Checks and packs; `AttentionExplorer` describes the arguments.

        Raises:
            ValueError: shapes that disagree, NaN, weights outside [0, 1], or a reference that is not bool.
        """
        keys = checked_tokens("tokens", tokens)
        queries = keys if query_tokens is None else checked_tokens("query_tokens", query_tokens)
        values = checked_weights(attentions, len(queries), len(keys))
        masks, mask_of = packed_masks(references, values.shape)
        return cls(label, keys, None if query_tokens is None else queries, quantise(values), masks, mask_of)

    @property
    def shape(self) -> tuple[int, ...]:
        """Layers, heads, queries, keys."""
        return self.weights.shape

    @property
    def packed(self) -> bytes:
        """The weights in order, as bytes."""
        return self.weights.tobytes()

    def most_on_reference(self) -> tuple[int, int, int]:
        """The layer and head with the largest share of attention on their reference, and the query there.

        Shares are means over the queries that have a reference; without one, it is the first head, and no
        query (-1).
        """
        best, found, cells = -1.0, (0, 0, -1), self.shape[2:]
        for (layer, head), index in np.ndenumerate(np.array(self.mask_of)):
            if index < 0:
                continue
            bits = np.frombuffer(self.masks[index], np.uint8)
            mask = np.unpackbits(bits, count=int(np.prod(cells))).reshape(cells)
            inside = (dequantise(self.weights[layer, head]) * mask).sum(1)
            asked = np.flatnonzero(mask.any(1))
            if len(asked) and (share := inside[asked].mean()) > best:
                best, found = share, (int(layer), int(head), int(asked[inside[asked].argmax()]))
        return found

    def describe(self) -> dict[str, Any]:
        """What the widget must know besides the bytes."""
        return {
            "label": self.label,
            "tokens": list(self.tokens),
            "query_tokens": None if self.query_tokens is None else list(self.query_tokens),
            "shape": list(self.shape),
            "mask_of": [list(row) for row in self.mask_of],
            "masks": len(self.masks),
        }


def numpy_of(array: Array | Sequence[Any]) -> np.ndarray:
    """A NumPy array of a list, or of a tensor on any device, of any dtype, with or without gradient."""
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        return array.float().numpy() if array.dtype == torch.bfloat16 else array.numpy()
    return np.asarray(array)


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
    """The distinct references as bits, and which of them each layer and head has; see `Example`."""
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
