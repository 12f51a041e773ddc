"""Models that have learned nothing, to stand beside those that have."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import PreTrainedModel

from attnlib.models.base import Saved, seeded
from attnlib.models.pretrained import untrained_twin
from book.chapters.tells.single_head import SingleHead


def untrained(model: nn.Module, seed: int = 0) -> nn.Module:
    """A model of the same configuration with random weights, on the same device, in evaluation mode.

    Args:
        model: one of Hugging Face's, or of ours: one that can be kept in a file, or a recurrent one as asked.
        seed: of the weights; a copier's are those that its own seed begins with. The caller's random state is
            not touched.

    Raises:
        ValueError: it has no configuration to build another from.
    """
    if isinstance(model, PreTrainedModel):
        return untrained_twin(model, seed)
    if isinstance(model, SingleHead):
        asked: Any = type(model)
        return asked(untrained(model.model, seed)).eval()
    if not isinstance(model, Saved):
        raise ValueError(
            f"{type(model).__name__} has no configuration that an untrained twin could be built from. Give a "
            "Hugging Face model, or one of attnlib's that can be saved."
        )
    kind: Any = type(model)
    with seeded(seed):
        twin = kind(model.config)
    return twin.to(next(model.parameters()).device).eval()
