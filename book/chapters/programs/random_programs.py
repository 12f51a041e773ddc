"""The chapter on random programs: the programs and methods that a run evaluates again."""

from __future__ import annotations

import functools
from typing import Annotated

import pandas as pd
from pydantic import Field, model_validator

from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.scoring import COMPARED, asked, published, rows_of
from book.chapters.chapter import Chapter
from book.chapters.parameters import Different, Seed, among
from book.chapters.programs.figures import programs_to_draw, questions_to_show

Method = Annotated[str, among(COMPARED)]


class Programs(Chapter):
    """Parameters of the chapter `random_programs`; it trains nothing, and records nothing."""

    seeds: Different[Seed] = Field(min_length=1, max_length=1_000)
    methods: Different[Method]
    shown: Seed

    @model_validator(mode="after")
    def _possible(self) -> Programs:
        if asked(self.shown) is None:
            raise ValueError(f"shown must be a program with at least 3 questions; {self.shown} has fewer")
        return self

    @property
    def label(self) -> str:
        """A label that names the programs."""
        return f"programs-{self.seeds[0]}-{self.seeds[-1]}"

    @property
    def asked_for(self) -> list[str]:
        """The methods to evaluate: those named, or all."""
        return self.methods or [*COMPARED]

    @functools.cached_property
    def rows(self) -> pd.DataFrame:
        """The scores of the methods on the programs, computed now."""
        return rows_of(self.seeds, {name: METHODS[name] for name in self.asked_for})

    def found_again(self) -> pd.DataFrame:
        """Scores computed now beside the recorded ones, for the rows that both have."""
        keys = ["seed", "method", "truth", "sign"]
        before = published(self.seeds).astype({"method": str, "truth": str, "sign": str, "value": float})
        both = self.rows.merge(before, on=keys, suffixes=("", " before"))
        return both.rename(columns={"value": "now", "value before": "recorded"})[[*keys, "now", "recorded"]]

    def to_draw(self) -> dict[str, dict[str, object]]:
        """Programs for `ProgramExplorer`, that of `shown` first, each on its question that reads most."""
        return programs_to_draw(self.shown)

    def examples(self) -> dict[str, dict[str, object]]:
        """The first questions of the program that is shown, for `MeasureExplorer`; the truth is *reads*."""
        return questions_to_show(self.shown, self.asked_for)
