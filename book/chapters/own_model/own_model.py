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


def sink_clause(share: float) -> str:
    """A sentence on the share of rollout that the first token has."""
    if share >= 0.5:
        return "The causal mask gives it much of this, and an attention sink adds to it."
    return "An attention sink would have more than half."


def agreement_clause(tau: float) -> str:
    """The verb of a sentence on how one method ranks tokens against another, by their Kendall's tau."""
    if tau >= 0.1:
        return "ranks the tokens partly as"
    return "ranks the tokens in reverse of" if tau <= -0.1 else "ranks the tokens nearly independently of"


def learned_clause(probability: float, tokens: int) -> str:
    """A sentence on how sure a model is of its next token, or that it has learned nothing yet."""
    here = f"{100 * probability:.0f} %"
    if probability < 10 / tokens:
        return f"In this run the model has learned nothing yet: its likeliest next token has only {here}."
    return f"The model gives its next token a probability of {here}."
