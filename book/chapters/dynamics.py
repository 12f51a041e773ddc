"""Measurements and records of the chapters on training dynamics of attention, once models are trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int64, Integer
from torch import Tensor

from attnlib.files import write_atomically
from attnlib.stats.agreement_runs import AgreementSettings
from attnlib.stats.agreement_tables import Agreements, agreement_tables
from attnlib.stats.ragged import RunScores
from attnlib.training.keeping import kept

SCORES = ("alpha", "beta", "delta")

MEASURES = ("top match", "kendall")
"""Measures of agreement that every record has, beside the chapter's own measure."""

Tables = dict[tuple[str, ...], pd.DataFrame]

EARLY = (0, 10, 50, 100, 150, 200)
"""The early checkpoints of the original study, in numbers of updates."""


def checkpoint_steps(steps: int = 4000, every: int = 250, early: Iterable[int] = EARLY) -> tuple[int, ...]:
    """The checkpoints in numbers of updates: the early ones, every `every` updates, and the last.

    The defaults give the 22 checkpoints of the original, which counts from 0 and calls the last one 3999.
    """
    if steps < 1 or every < 1:
        raise ValueError(f"steps and every should be at least 1; got {steps} and {every}")
    return tuple(sorted({*(step for step in early if step < steps), *range(every, steps, every), steps}))


@dataclass(frozen=True)
class TokenScores:
    """Attention, relevance and gradient influence of each input token, for each prediction of a model.

    A row is a prediction (of a document's class, of a target token); the values of all rows are concatenated.
    Lengths include special tokens; relevance and `log_probability` are of the right answer.
    """

    lengths: Int64[Tensor, " row"]
    alpha: Float[Tensor, " token"]
    beta: Float[Tensor, " token"]
    log_probability: Float[Tensor, " row"]
    right: Bool[Tensor, " row"]
    delta: Float[Tensor, " token"] | None = None

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.lengths)

    @property
    def accuracy(self) -> float:
        """The share of rows that the model predicts correctly."""
        return float(self.right.double().mean())

    def of(self, row: int) -> dict[str, Float[Tensor, " token"]]:
        """`alpha`, `beta` and, if there is one, `delta` of one row."""
        start = int(self.lengths[:row].sum())
        names = ["alpha", "beta"] + (["delta"] if self.delta is not None else [])
        return {name: getattr(self, name)[start : start + int(self.lengths[row])] for name in names}


@dataclass(frozen=True)
class DynamicsResults:
    """Agreements of attention with relevance, and the two stages.

    Attributes:
        scores: of every run, on the splits "train", "validation" and "test"; the first run is explained.
    """

    UNIT: ClassVar[str]
    LEVELS: ClassVar[tuple[str, ...]] = ("measure", "split", "checkpoints", "interval")
    FLIP_DELTA: ClassVar[bool] = True
    BESIDE: ClassVar[tuple[str, ...]] = ()  # values of further `LEVELS` in the keys of tables

    scores: Mapping[str, Mapping[str, RunScores]]
    measure: str

    @property
    def here(self) -> Mapping[str, RunScores]:
        """The scores of every run on the test split, which is reported."""
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
        """All agreements, by split, by the way checkpoints were chosen, and by the resampled unit."""
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
        """The rows to record: `LEVELS`, `metric`, `value`, `low`, `high`, `n`; without values inf and NaN."""
        tables = self._named(self.measure, self.ways)
        here = self.measure, "test", "held out", self.UNIT, *self.BESIDE
        tables[here] = pd.concat([tables[here], at_steps(self.stages), *self._further()])
        seeds, each = (*here[:3], "seeds", *self.BESIDE), self.explained.each_seed()
        each = each.assign(metric=each["metric"] + ", " + each["seed"], low=np.nan, high=np.nan)
        tables[seeds] = pd.concat([tables[seeds], each.drop(columns="seed")])
        tables |= self._beside()
        for other in MEASURES:
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

    def write_scores(self, folder: str | Path, words: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        """Write all scores to `<folder>/split=<split>/run=<run>/step=<step>/scores.parquet`.

        A file has the columns `row` and `token`, both counted from 0, `group`, if rows have one, the words,
        and the run's scores; `pandas.read_parquet(folder)` reads all files as one table.
        """
        for split, runs in self.scores.items():
            for name, run in runs.items():
                for step, table in by_step(run):
                    place = Path(folder, f"split={split}", f"run={name}", f"step={step}")
                    place.mkdir(parents=True, exist_ok=True)
                    named = table.assign(**words[split])
                    write_atomically(place / "scores.parquet", named.to_parquet(index=False))

    def _further(self) -> list[pd.DataFrame]:
        """Further tables of a subclass on test, with checkpoints chosen on validation."""
        return []

    def _beside(self) -> Tables:
        """Further tables of a subclass, by `LEVELS`."""
        return {}


def by_step(run: RunScores) -> Iterator[tuple[int, pd.DataFrame]]:
    """The step and the table of scores of each of a run's checkpoints: see `DynamicsResults.write_scores`."""
    starts = np.repeat(np.cumsum(run.lengths) - run.lengths, run.lengths)
    row = np.repeat(np.arange(len(run.lengths)), run.lengths)
    about = {"row": row, "token": np.arange(len(row)) - starts}
    about |= {} if run.groups is None else {"group": run.groups[row]}
    scores = {name: values for name in SCORES if (values := getattr(run, name)) is not None}
    for place, step in enumerate(run.steps.tolist()):
        yield step, pd.DataFrame(about | {name: values[place] for name, values in scores.items()})


def at_steps(stages: pd.DataFrame) -> pd.DataFrame:
    """The table of stages with the step in the name of the metric."""
    at_step = "step " + stages["step"].astype(str) + ": " + stages["metric"]
    return stages.assign(metric=at_step).drop(columns="step")


def over_training(
    steps: Iterable[int],
    scores_at: Callable[[int], TokenScores],
    groups: Integer[np.ndarray, " row"] | None = None,
) -> RunScores:
    """The scores of tokens at each checkpoint of a run, stacked for the statistics."""
    found = {step: scores_at(step) for step in steps}
    first, scores = next(iter(found.values())), dict[str, np.ndarray]()
    for name in SCORES:
        values = [getattr(each, name) for each in found.values()]
        if any(value is not None for value in values):
            none = np.zeros_like(first.alpha.numpy())
            scores[name] = np.stack([none if value is None else value.numpy() for value in values])
    right = np.stack([each.right.numpy() for each in found.values()])
    return RunScores(first.lengths.numpy(), np.array([*found]), right=right, groups=groups, **scores)


def kept_scores(path: Path, whose: Mapping[str, Any], made: Callable[[], TokenScores]) -> TokenScores:
    """Scores of a checkpoint from its file; computed and saved if that is missing or not of `whose`."""

    def tensors() -> dict[str, Any]:
        return {name: value for name, value in vars(made()).items() if value is not None}

    return TokenScores(**kept(path, {"kind": "token scores", **whose}, tensors))
