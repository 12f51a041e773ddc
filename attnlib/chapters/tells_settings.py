"""Where questions with a known answer come from: the settings of the chapter `where_attention_tells`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from attnlib.attribution.prompts import Method
from attnlib.generators.base import IGNORE
from attnlib.generators.rasp.language import language
from attnlib.measures.questions import Questions
from attnlib.models.compiled import PROGRAMS, compiled

LENGTH = 10
"""Symbols of a sequence."""

SPARE = 3
"""How many sequences are drawn for each question that is wanted: not every output has a source elsewhere."""


@dataclass(frozen=True)
class Setting:
    """A compiled program, and one output of each sequence, which its last selector says the source of.

    Attributes:
        name: the language.
        needs: the chapter whose models are asked; None where nothing is trained.
        transformer: whether every measure can be asked about its models.
    """

    name: str
    needs: ClassVar[str | None] = None
    transformer: ClassVar[bool] = True

    def seeds(self, p: Any) -> list[int]:
        """The seeds of the models: there is one."""
        return [0]

    def words(self, p: Any, ids: Int64[Tensor, " token"]) -> list[str]:
        """What tokens are called."""
        tokens: list[str] = language(self.name, 10, bos=True).tokenizer.convert_ids_to_tokens(ids.tolist())
        return tokens

    def methods(self, names: Iterable[str]) -> dict[str, str | Method]:
        """The measures of these names that its models are explained by."""
        return {name: name for name in names}

    def make(self, p: Any, seed: int, others: bool = False) -> tuple[nn.Module, Questions]:
        """The model of a seed, and what it is asked, without counterfactuals of either kind."""
        found = compiled(language(self.name, 10, bos=True), LENGTH)
        n, lengths = SPARE * p.questions, {"min_length": LENGTH, "max_length": LENGTH}
        batch = found.language.batch(found.language.sequences(n, split="test", **lengths))
        rows, query = torch.arange(n), 1 + torch.arange(n) % LENGTH
        among = batch.target_ids != IGNORE
        among[rows, query] = False
        truth = batch.target_attention[max(found.heads)][rows, query] & among
        with torch.no_grad():
            predicted = found.model(batch.input_ids).logits.argmax(-1)[rows, query]
        target, there = batch.target_ids[rows, query], truth.any(1)
        asked = Questions(
            setting=found.run,
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            query=query,
            target=target,
            truth=truth,
            candidates=among,
            right=predicted == target,
            in_distribution=torch.ones(n, dtype=torch.bool),
        )
        return found.model, asked.where(there & (there.cumsum(0) <= p.questions))


SETTINGS: dict[str, Setting] = {f"{name}, compiled": Setting(name) for name in PROGRAMS}
"""By name."""
