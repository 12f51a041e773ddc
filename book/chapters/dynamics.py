"""What the chapters on how attention learns measure and record, once their models are trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import pandas as pd

from attnlib.stats.agreement_tables import Agreements, AgreementSettings, agreement_tables
from attnlib.stats.ragged import RunScores

Tables = dict[tuple[str, ...], pd.DataFrame]


@dataclass(frozen=True)
class DynamicsResults:
    """Agreements of attention with relevance, and the two stages.

    Attributes:
        scores: of every run, on the splits "train", "validation" and "test"; the first run is explained.
        measure: of agreement.
    """

    UNIT: ClassVar[str]
    LEVELS: ClassVar[tuple[str, ...]] = ("measure", "split", "checkpoints", "interval")
    FLIP_DELTA: ClassVar[bool] = True
    BESIDE: ClassVar[tuple[str, ...]] = ()  # what a way of counting is called by further `LEVELS`

    scores: Mapping[str, Mapping[str, RunScores]]
    measure: str

    @property
    def here(self) -> Mapping[str, RunScores]:
        """What is reported on."""
        return self.scores["test"]

    @cached_property
    def explained(self) -> Agreements:
        """The agreements on test, with checkpoints chosen on validation."""
        settings = AgreementSettings(measure=self.measure)
        return Agreements.of(self.here, self.scores["validation"], settings=settings)

    @property
    def gold(self) -> str:
        """The run whose attention is explained."""
        return next(iter(self.here))

    @cached_property
    def chosen(self) -> dict[str, int]:
        """The checkpoints that validation chooses: see `Agreements.chosen`."""
        return self.explained.chosen

    @cached_property
    def stages(self) -> pd.DataFrame:
        """Relevance and attention over training: see `Agreements.stages`."""
        return self.explained.stages()

    @cached_property
    def ways(self) -> Tables:
        """All agreements, by split, how checkpoints were chosen, and what is drawn again."""
        return self._ways(self.measure)

    @property
    def over_units(self) -> pd.DataFrame:
        """The agreements on test, with checkpoints chosen on validation."""
        return self.ways["test", "held out", self.UNIT]

    @property
    def chance(self) -> float:
        """The agreement with shuffled attention."""
        return self.over_units.set_index("metric")["value"]["A_hat"]

    def rows(self) -> pd.DataFrame:
        """What is recorded: `LEVELS`, `metric`, `value`, `low`, `high` and `n`; not what is infinite."""
        tables = self._named(self.measure, self.ways)
        here = self.measure, "test", "held out", self.UNIT, *self.BESIDE
        tables[here] = pd.concat([tables[here], at_steps(self.stages), *self._further()])
        tables |= self._beside()
        for other in ("top match", "kendall"):
            if other != self.measure:
                tables |= self._named(other, self._ways(other))
        levels = list(self.LEVELS)
        rows = pd.concat(tables, names=levels).reset_index(levels)
        return rows[rows["value"] < float("inf")]

    def _ways(self, measure: str) -> Tables:
        ways = agreement_tables(self.scores, measure, unit=self.UNIT, flip_delta=self.FLIP_DELTA)
        return {(*way,): table for way, table in ways.items()}

    def _named(self, measure: str, ways: Tables) -> Tables:
        return {(measure, *way, *self.BESIDE): table for way, table in ways.items()}

    def _further(self) -> list[pd.DataFrame]:
        """What else there is on test, with checkpoints chosen on validation."""
        return []

    def _beside(self) -> Tables:
        """What else there is, by `LEVELS`."""
        return {}


def at_steps(stages: pd.DataFrame) -> pd.DataFrame:
    """The two stages with the step in the name of the metric."""
    at_step = "step " + stages["step"].astype(str) + ": " + stages["metric"]
    return stages.assign(metric=at_step).drop(columns="step")
