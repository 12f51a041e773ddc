"""The chapter on interventions, which reads the records of `algorithmic_reasoning`: its parameters."""

from __future__ import annotations

from typing import Literal

import pandas as pd
from pydantic import Field

from book.chapters.chapter import Chapter
from book.chapters.records import came_with_the_book
from book.chapters.records.own import with_own_runs

READ = "algorithmic_reasoning"
"""The chapter whose records are read."""


class AttentionIntervention(Chapter):
    """Parameters of the chapter `attention_intervention`, which trains nothing and records nothing."""

    own_runs: bool
    level: float = Field(gt=0, lt=1)
    enough: float = Field(gt=0, le=1)
    attention: Literal["above uniform", "mass", "mass ID"]

    @property
    def rule(self) -> dict[str, float]:
        """The rule of the verdicts; see `tables.judged`."""
        return {"level": self.level, "enough": self.enough}

    def rows(self) -> pd.DataFrame:
        """The bundled records of the chapter, and with `own_runs` the reader's own runs."""
        return with_own_runs(READ) if self.own_runs else came_with_the_book(READ)

    @property
    def label(self) -> str:
        """The rule, and the measure of attention that accuracy is compared with."""
        return f"level-{self.level:g}-enough-{self.enough:g}-{self.attention}"
