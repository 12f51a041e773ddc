"""The chapter on generative rollout."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
from pydantic import Field, model_validator

from attnlib.attribution.attention import from_attention, mean_rolled
from attnlib.generators.needle import NeedleGenerator, NeedleSample
from attnlib.generators.prompts import EXAMPLES
from attnlib.models.pretrained import DEFAULT, TINY
from attnlib.rollout import UNINFORMATIVE
from attnlib.rollout.generative import informative
from book.chapters.chapter import Chapter
from book.chapters.generative.measures import (
    COMPARED,
    MEAN_ROLLOUT,
    NeedleRun,
    mass_by_kind,
    needle_ranks,
)
from book.chapters.generative.names import FORMS, MOST, items, name_rows
from book.chapters.generative.study import filtered_by_study
from book.chapters.parameters import Count, Prompt, Seed, Several, Text
from book.chapters.refusals import refuse_model_name


class GenerativeRollout(Chapter):
    """Parameters and record of the chapter `generative_rollout`."""

    model: Text
    prompt: Prompt
    continuation: Text
    chat: bool
    max_new_tokens: Count = Field(ge=1, le=512)
    top_k: Count = Field(ge=1, le=50)
    ignore: Several[Text]
    needles: Count = Field(le=2000)
    facts: Several[Count] = Field(min_length=1)
    blank_outs: Count
    names: Count = Field(le=MOST)
    seed: Seed

    @model_validator(mode="after")
    def _possible(self) -> GenerativeRollout:
        if not all(2 <= n <= 20 for n in self.facts):
            raise ValueError(f"facts should be numbers from 2 to 20; got {self.facts}")
        if self.names == 1:
            raise ValueError(f"names should be 0, or 2 to {MOST}, to be told from each other; got 1")
        if self.continuation and not self.prompt:
            raise ValueError(
                "continuation should stand behind a prompt of your own; got one without a prompt: set prompt "
                "too, or leave both empty"
            )
        refuse_model_name(self.model, known=(DEFAULT, TINY))
        return self

    @property
    def label(self) -> str:
        """The model's name."""
        return self.model.split("/")[-1]

    @property
    def prompts(self) -> dict[str, str]:
        """The prompts to continue, by name."""
        return {"your prompt": self.prompt} if self.prompt else EXAMPLES

    @property
    def passed_over(self) -> frozenset[str]:
        """The words and signs that the filter treats as uninformative."""
        return UNINFORMATIVE | set(self.ignore)

    def masses(self, model: Any, tokenizer: Any) -> pd.DataFrame:
        """Rollout's mass on each kind of token, of each prompt's last one; see `mass_by_kind`."""
        return mass_by_kind(model, tokenizer, self.prompts.values(), seed=self.seed)

    def items(self, tokenizer: Any) -> list[NeedleSample]:
        """The prompts of the needle test."""
        samples = NeedleGenerator(tokenizer, self.seed, self.facts).generate_samples()
        return list(itertools.islice(samples, self.needles))

    def ranks(self, model: Any, tokenizer: Any, items: list[NeedleSample]) -> NeedleRun:
        """The rank that each method gives to the needle, with and without the study's filter."""
        return needle_ranks(
            model,
            items,
            {name: name for name in COMPARED} | {MEAN_ROLLOUT: from_attention(mean_rolled)},
            occlusion_items=self.blank_outs,
            only_answered=self.model != TINY,
            informative=lambda ids: informative(ids, tokenizer, filtered_by_study),
        )

    def name_rows(self, model: Any, tokenizer: Any) -> pd.DataFrame:
        """The results of every measure on the texts of names, for all forms; see `names.name_rows`."""
        asked = [each for form in FORMS for each in items(tokenizer, self.names, form)]
        return name_rows(model, asked, only_answered=self.model != TINY)
