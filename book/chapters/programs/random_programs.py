"""The chapter on random programs: which are asked anew, and by which methods."""

from __future__ import annotations

import functools
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field, model_validator
from torch import Tensor

from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.population import draw
from attnlib.benchmarking.programs import COUNT, Program
from attnlib.benchmarking.questions import ask, questions_of
from attnlib.benchmarking.scoring import COMPARED, asked, published, rows_of
from book.chapters.chapter import Chapter
from book.chapters.parameters import Different, Seed, among

OFFERED = range(1000, 1030)
"""Seeds of the programs that a reader can draw in the page, beside the one that is shown."""

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
        """The programs."""
        return f"programs-{self.seeds[0]}-{self.seeds[-1]}"

    @property
    def asked_for(self) -> list[str]:
        """The methods that are asked: those named, or all."""
        return self.methods or [*COMPARED]

    @functools.cached_property
    def rows(self) -> pd.DataFrame:
        """The scores of the methods on the programs, computed now."""
        return rows_of(self.seeds, {name: METHODS[name] for name in self.asked_for})

    def found_again(self) -> pd.DataFrame:
        """Scores computed now beside the recorded ones: those that both have."""
        keys = ["seed", "method", "truth", "sign"]
        before = published(self.seeds).astype({"method": str, "truth": str, "sign": str, "value": float})
        both = self.rows.merge(before, on=keys, suffixes=("", " before"))
        return both.rename(columns={"value": "now", "value before": "recorded"})[[*keys, "now", "recorded"]]

    def to_draw(self) -> dict[str, dict[str, object]]:
        """Programs for `ProgramExplorer`, that of `shown` first, each on its question that reads most."""
        found: dict[str, dict[str, object]] = {}
        for seed in dict.fromkeys((self.shown, *OFFERED)):
            program = draw(seed)
            questions = questions_of(program)
            if questions is None:
                continue
            row = int(questions.reads.sum(1).argmax())
            counts = any(program.variables[number].operation == COUNT for number in program.used())
            layers = f"{program.n_layers} layer{'s' * (program.n_layers > 1)}"
            found[f"{seed}: {layers}{', counts' * counts}"] = {
                "program": program,
                "text": "".join(in_letters(program, questions.ids[row, 1:])),
                "query": int(questions.query[row]),
            }
        return found

    def examples(self, most: int = 4) -> dict[str, dict[str, object]]:
        """The first questions of the program that is shown, for `MeasureExplorer`; the truth is *reads*."""
        made = asked(self.shown)
        assert made is not None
        model, questions = made
        program = draw(self.shown)
        scores = ask(model, questions, {name: METHODS[name] for name in self.asked_for})
        found: dict[str, dict[str, object]] = {}
        for row in range(min(most, len(questions))):
            tokens = in_letters(program, questions.ids[row])
            query = int(questions.query[row])
            label = f"{row + 1}: {' '.join(tokens[1:])}, output {int(questions.target[row])} at {query}"
            found[label] = {
                "tokens": tokens,
                "scores": {name: np.nan_to_num(each[row]) for name, each in scores.items()},
                "truth": questions.reads[row],
                "candidates": questions.candidates[row],
                "query": query,
                "expected": str(int(questions.target[row])),
            }
        return found


def in_letters(program: Program, ids: Tensor) -> list[str]:
    """Symbols as letters; the token of the beginning is ^."""
    letters = program.value_names(0)
    return [letters[each] for each in ids.tolist()]
