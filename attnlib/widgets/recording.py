"""How generative rollout travels to a widget: checked, one byte per entry, compressed.

Entries lie in the order [generated layer prompt]. Shares of a whole are stored as ``round(255 sqrt(w))``
(`attnlib.widgets.encoding`). Where values exceed 1, as ratios to a null model do, they span more orders of
magnitude: they are divided by their largest value ``s`` and stored as ``round(255 (w / s)^(1/4))``, off by
about ``0.008 s^(1/4) w^(3/4)``.

The bytes are compressed by raw deflate, which the front end undoes itself: ``DecompressionStream`` answers
only when the page is drawn already. Real rollouts shrink to about a third.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8

from attnlib.rollout import GenerativeRollout
from attnlib.rollout.generative import Ignore, describe
from attnlib.widgets.encoding import ROUNDING, Array, checked_tokens, numpy_of, quantise


@dataclass(frozen=True)
class Recording:
    """One prompt and what was generated from it, checked and packed.

    Attributes:
        label: what the drop-down calls it.
        prompt: text of the prompt's tokens.
        generated: text of the generated tokens.
        shape: generated tokens, prompt tokens, layers.
        packed: the matrix, stored and compressed as the module describes.
        scale: what the byte 255 stands for: the largest value, or 1 for shares.
        shares: whether the entries are shares of a whole: in every layer, a generated token's sum is at
            most 1.
        ignored: which prompt tokens the filter hides.
    """

    label: str
    prompt: tuple[str, ...]
    generated: tuple[str, ...]
    shape: tuple[int, int, int]
    packed: bytes
    scale: float
    shares: bool
    ignored: tuple[bool, ...]

    @classmethod
    def of(
        cls,
        label: str,
        prompt_words: Sequence[str],
        generated_words: Sequence[str],
        matrix: Array,
        ignored: Array | Sequence[bool] | None = None,
    ) -> "Recording":
        """Checks and packs; `GenerationExplorer` describes the arguments.

        Raises:
            ValueError: shapes that disagree, NaN, negative values, or ``ignored`` that is not bool.
        """
        prompt = checked_tokens("prompt_words", prompt_words)
        generated = checked_tokens("generated_words", generated_words)
        values = _checked(matrix, len(generated), len(prompt))
        shares = bool(values.sum(1).max() <= 1 + ROUNDING)
        scale = 1.0 if shares else float(values.max())
        packed = deflate(stored(values, scale, shares))
        hidden = _flags(ignored, len(prompt))
        return cls(label, prompt, generated, values.shape, packed, scale, shares, hidden)

    def describe(self) -> dict[str, Any]:
        """What the widget must know besides the bytes."""
        return {
            "label": self.label,
            "prompt": list(self.prompt),
            "generated": list(self.generated),
            "shape": list(self.shape),
            "bytes": len(self.packed),
            "scale": self.scale,
            "shares": self.shares,
            "ignored": [i for i, hidden in enumerate(self.ignored) if hidden],
        }


def stored(
    values: Float[np.ndarray, "generated prompt layer"], scale: float = 1.0, shares: bool = True
) -> UInt8[np.ndarray, "generated layer prompt"]:
    """Values from 0 to ``scale`` as bytes."""
    parts = (values / scale).clip(0, 1)
    return quantise(parts if shares else np.sqrt(parts)).transpose(0, 2, 1)


def deflate(steps: UInt8[np.ndarray, "*shape"]) -> bytes:
    """Raw deflate (RFC 1951), without the header of zlib."""
    packer = zlib.compressobj(level=9, wbits=-15)
    return packer.compress(steps.tobytes()) + packer.flush()


def parts_of(result: GenerativeRollout, tokenizer: Any, ignore: Ignore) -> dict[str, Any]:
    """The arguments of an explorer that show a result."""
    if not result.words:
        words, special = describe(result.prompt, tokenizer)
        result = replace(result, words=words, special=special)
    every = pieces([*result.prompt.tolist(), *result.tokens.tolist()], tokenizer)
    return {
        "prompt_words": every[: len(result.prompt)],
        "generated_words": every[len(result.prompt) :],
        "matrix": result.matrix,
        "ignored": ~result.informative(ignore),
    }


NEIGHBOURS = 8
"""So many tokens before one decide how it is decoded."""


def pieces(ids: Sequence[int], tokenizer: Any) -> list[str]:
    """What each token adds to the text, with its blanks: one string per id.

    A token decoded alone loses the blank before it in some vocabularies, so it is decoded after its
    neighbours. Of a character that is spread over several tokens, the last shows it, the others ``\ufffd``.
    """
    texts, before = [], ""
    for i in range(len(ids)):
        start = max(i - NEIGHBOURS, 0)
        if start:
            before = tokenizer.decode(ids[start:i], clean_up_tokenization_spaces=False)
        text = tokenizer.decode(ids[start : i + 1], clean_up_tokenization_spaces=False)
        same = 0
        while same < min(len(before), len(text)) and before[same] == text[same]:
            same += 1
        texts.append(text[same:])
        before = text
    return texts


def _checked(matrix: Array, generated: int, prompt: int) -> Float[np.ndarray, "generated prompt layer"]:
    values = numpy_of(matrix).astype(np.float64)
    if values.ndim != 3 or values.shape[:2] != (generated, prompt) or not values.shape[2]:
        raise ValueError(
            f"matrix must be [generated prompt layer] = [{generated} {prompt} layers], as many as there are "
            f"words, with at least one layer; got shape {values.shape}."
        )
    wrong = np.argwhere(~(np.isfinite(values) & (values >= -ROUNDING)))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        raise ValueError(
            f"matrix holds {values[place]:.3g} at [generated prompt layer] = {list(place)}; its values must "
            "be finite and not negative."
        )
    return values.clip(min=0)


def _flags(ignored: Array | Sequence[bool] | None, prompt: int) -> tuple[bool, ...]:
    if ignored is None:
        return (False,) * prompt
    flags = numpy_of(ignored if isinstance(ignored, torch.Tensor) else np.asarray(ignored))
    if flags.shape != (prompt,) or flags.dtype != bool:
        raise ValueError(
            f"ignored must be bool, one for each of the {prompt} prompt tokens; got {flags.dtype} of shape "
            f"{flags.shape}. Pass ~result.informative()."
        )
    return tuple(bool(flag) for flag in flags)
