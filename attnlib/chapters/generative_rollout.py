"""The chapter on generative rollout."""

from __future__ import annotations

from pydantic import Field, model_validator

from attnlib.chapters.base import Chapter
from attnlib.chapters.refusals import refuse_model_name
from attnlib.models.pretrained import DEFAULT, TINY


class GenerativeRollout(Chapter):
    """Parameters and record of the chapter `generative_rollout`."""

    model: str
    prompt: str
    chat: bool
    max_new_tokens: int = Field(ge=1, le=512)
    top_k: int = Field(ge=1, le=50)
    ignore: list[str]
    needles: int = Field(ge=0, le=2000)
    facts: list[int] = Field(min_length=1)
    blank_outs: int = Field(ge=0)
    seed: int = Field(ge=0)

    @model_validator(mode="after")
    def _possible(self) -> GenerativeRollout:
        if not all(2 <= n <= 20 for n in self.facts):
            raise ValueError(f"facts should be numbers from 2 to 20; got {self.facts}")
        refuse_model_name(self.model, known=(DEFAULT, TINY))
        return self

    @property
    def label(self) -> str:
        """The model's name."""
        return self.model.split("/")[-1]
