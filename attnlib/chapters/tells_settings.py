"""Where questions with a known answer come from: the settings of the chapter `where_attention_tells`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from attnlib.generators.base import IGNORE
from attnlib.generators.rasp.language import language
from attnlib.measures.questions import Questions
from attnlib.models.compiled import compiled

LENGTH = 10
"""Symbols of a sequence."""


@dataclass(frozen=True)
class Setting:
    """A model, and questions about it whose sources are known.

    Attributes:
        needs: the chapter whose models it takes; None where nothing is trained.
        make: from the chapter's parameters and a seed to the model and its questions.
    """

    needs: str | None
    make: Callable[[Any, int], tuple[nn.Module, Questions]]


def program(name: str, p: Any, seed: int) -> tuple[nn.Module, Questions]:
    """A compiled program: one output of each sequence, which its last selector says the source of."""
    found = compiled(language(name, 10, bos=True), LENGTH)
    sequences = found.language.sequences(
        3 * p.questions, split="test", seed=seed, min_length=LENGTH, max_length=LENGTH
    )
    batch = found.language.batch(sequences)
    n, rows = len(batch), torch.arange(len(batch))
    query = 1 + rows % LENGTH
    others = batch.target_ids != IGNORE
    others[rows, query] = False
    truth = batch.target_attention[max(found.heads)][rows, query] & others
    with torch.no_grad():
        predicted = found.model(batch.input_ids).logits.argmax(-1)[rows, query]
    target = batch.target_ids[rows, query]
    asked = Questions(
        setting=found.run,
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        query=query,
        target=target,
        truth=truth,
        candidates=others,
        right=predicted == target,
        in_distribution=torch.ones(n, dtype=torch.bool),
    )
    there = truth.any(1)
    return found.model, asked.where(there & (there.cumsum(0) <= p.questions))


SETTINGS: dict[str, Setting] = {
    f"{name}, compiled": Setting(None, partial(program, name)) for name in ("reverse", "hist", "sort")
}
"""By name."""
