"""What every generator yields: one `Sample`, or many padded into a `Batch`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

IGNORE = -100
"""The target of a position where nothing is predicted: the `ignore_index` of torch's cross entropy."""

Head = tuple[int, int]
"""A head's place in the model: `(layer, head)`, both counted from 0."""

PINNED = {"cuda"}
"""The device types that copy asynchronously from pinned memory."""

T = TypeVar("T")
M = TypeVar("M", bound="Movable")


@dataclass(frozen=True)
class Sample:
    """One example: a text, the ids a model reads, and where its attention should be.

    Attributes:
        text: the example as a person would type it, without special tokens.
        input_ids: ids the model reads.
        target_ids: id to predict at each position; `IGNORE` where there is none.
        reference: where a query that predicts the next token should look; `None` if the task has none.
        evaluated: where `reference` is defined.
        target_attention: where each head with a known algorithm should look: `{(layer, head): [query, key]}`.
    """

    text: str
    input_ids: Int64[Tensor, " token"]
    target_ids: Int64[Tensor, " token"]
    reference: Bool[Tensor, "token token"] | None = None
    evaluated: Bool[Tensor, "token token"] | None = None
    target_attention: dict[Head, Bool[Tensor, "token token"]] = field(default_factory=dict)


class Movable:
    """Base class of batches and other dataclasses of tensors."""

    def to(self: M, device: torch.device | str) -> M:
        """A copy with all tensors on another device."""
        return moved(self, device)


@dataclass(frozen=True)
class Batch(Movable):
    """Samples of different lengths, padded on the right into rectangles.

    Attributes:
        input_ids: ids the model reads; padding carries the tokenizer's padding id.
        target_ids: id to predict at each position; `IGNORE` on padding and where nothing is predicted.
        attention_mask: True for tokens, False for padding (the word is Hugging Face's).
        reference: see `Sample`; False on padding.
        evaluated: see `Sample`; False on padding.
        target_attention: see `Sample`; False on padding.
    """

    input_ids: Int64[Tensor, "batch token"]
    target_ids: Int64[Tensor, "batch token"]
    attention_mask: Bool[Tensor, "batch token"]
    reference: Bool[Tensor, "batch token token"] | None = None
    evaluated: Bool[Tensor, "batch token token"] | None = None
    target_attention: dict[Head, Bool[Tensor, "batch token token"]] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many samples the batch holds."""
        return len(self.input_ids)

    @property
    def inputs(self) -> dict[str, Any]:
        """The keyword arguments of a model's call: `model(**batch.inputs)`."""
        return {"input_ids": self.input_ids, "attention_mask": self.attention_mask}


def moved(value: T, device: torch.device | str) -> T:
    """A tensor, or a dictionary or dataclass with all of its tensors, on another device.

    Copies to a GPU go through pinned memory: they are queued, and do not wait for the GPU's earlier work.
    """
    found: Any = value
    if isinstance(value, Tensor):
        plain = value.device.type != "cpu" or torch.device(device).type not in PINNED
        found = value.to(device) if plain else value.pin_memory().to(device, non_blocking=True)
    elif isinstance(value, dict):
        found = {name: moved(each, device) for name, each in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: moved(getattr(value, each.name), device) for each in fields(value)}
        found = replace(value, **parts)
    return found
