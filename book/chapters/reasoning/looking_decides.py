"""The page that judges what `algorithmic_reasoning` recorded: its parameters, and what it reads."""

from __future__ import annotations

from typing import Literal

import pandas as pd
from pydantic import Field

from book.chapters.chapter import Chapter
from book.chapters.records import came_with_the_book, records

READ = "algorithmic_reasoning"
"""The chapter whose records these are."""


class LookingDecides(Chapter):
    """Parameters of the page `looking_decides`; it trains nothing, and records nothing."""

    own_runs: bool
    level: float = Field(gt=0, lt=1)
    enough: float = Field(gt=0, le=1)
    attention: Literal["above uniform", "mass", "mass ID"]

    @property
    def rule(self) -> dict[str, float]:
        """What verdicts are made by; see `verdicts.judged`."""
        return {"level": self.level, "enough": self.enough}

    def rows(self) -> pd.DataFrame:
        """What is recorded of the chapter; runs of the reader's own only if they are to count."""
        return records(READ) if self.own_runs else came_with_the_book(READ)

    @property
    def label(self) -> str:
        """The rule, and the attention that is held against accuracy."""
        return f"level-{self.level:g}-enough-{self.enough:g}-{self.attention}"
