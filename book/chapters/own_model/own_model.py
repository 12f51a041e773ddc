"""The chapter that takes a reader's own model."""

from __future__ import annotations

from pydantic import Field, model_validator

from attnlib.models.pretrained import DEFAULT, TINY
from book.chapters.chapter import Chapter
from book.chapters.parameters import Count, Prompt, Text
from book.chapters.refusals import refuse_model_name


class OwnModel(Chapter):
    """Parameters of the chapter `own_model`; it trains nothing, and records nothing."""

    model: Text
    prompt: Prompt
    max_new_tokens: Count = Field(ge=1, le=512)
    sums: Count = Field(ge=1, le=10_000)

    @model_validator(mode="after")
    def _possible(self) -> OwnModel:
        refuse_model_name(self.model, known=(DEFAULT, TINY))
        return self

    @property
    def label(self) -> str:
        """The model's name."""
        return self.model.split("/")[-1]
