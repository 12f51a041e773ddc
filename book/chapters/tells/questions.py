"""Predictions of a model whose sources are known: what every measure of attribution can be tested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

ID, OOD = "ID", "OOD"


@dataclass(frozen=True)
class Questions:
    """Predictions of one model, padded on the right, with the tokens that each of them needs.

    Attributes:
        setting: what is asked, in a few words: "addition", "needle".
        input_ids: what the model reads.
        attention_mask: True for tokens, False for padding.
        query: the position that predicts.
        target: what is right: a token, or a class.
        truth: the tokens that the algorithm needs, all of them candidates.
        candidates: the tokens that they are among: neither padding, nor what the query cannot see, nor the
            query's own.
        right: whether the model predicts the target.
        in_distribution: whether the model was trained on questions like this one.
        foil: what else might have stood there; None where nothing is near at hand.
        counterfactual: the same prompts with the tokens of `truth`, and others that have to follow, so that
            the right answer is another one (the foil, where there is one); None where there is none.
    """

    setting: str
    input_ids: Int64[Tensor, "item token"]
    attention_mask: Bool[Tensor, "item token"]
    query: Int64[Tensor, " item"]
    target: Int64[Tensor, " item"]
    truth: Bool[Tensor, "item token"]
    candidates: Bool[Tensor, "item token"]
    right: Bool[Tensor, " item"]
    in_distribution: Bool[Tensor, " item"]
    foil: Int64[Tensor, " item"] | None = None
    counterfactual: Int64[Tensor, "item token"] | None = None

    def __post_init__(self) -> None:
        if bool((self.truth & ~self.candidates).any()):
            raise ValueError(f"{self.setting}: tokens of `truth` should be candidates")

    def __len__(self) -> int:
        """How many predictions there are."""
        return len(self.input_ids)

    def where(self, chosen: Bool[Tensor, " item"]) -> Questions:
        """Some of them."""
        return self._each(lambda part: part[chosen])

    def to(self, device: torch.device | str) -> Questions:
        """The same on another device."""
        return self._each(lambda part: part.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Questions:
        parts: Any = {name: change(part) for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **parts)
