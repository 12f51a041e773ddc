"""The chapter on copying: permutations, where KTIW is hard to learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Int64
from pydantic import Field, model_validator

from attnlib.generators.copying import UNSEEN, Copying
from attnlib.generators.order import chunks
from attnlib.models.copier import Copier, CopierConfig, copying_loss, copying_scores
from attnlib.training.keeping import Snapshots
from book.chapters.chapter import Run, Setup
from book.chapters.copying.heads import CopyingHeads, HeadRun
from book.chapters.copying.measures import CopyingLooks
from book.chapters.copying.tables import (
    HeadResults,
    curves_over_seeds,
    differences_learned,
    learned_at,
    median_steps,
    shares_learned,
)
from book.chapters.dynamics import checkpoint_steps
from book.chapters.parameters import Count, Different, Growing, Rate, among

OPTIONS: dict[str, dict[str, Any]] = {
    "both directions": {"bidirectional": True},
    "without context": {"context": "none"},
}
"""Variants of the models of the hard and the easy task."""


@dataclass(frozen=True)
class CopyRun(Run):
    """Parallel models of one task, one per seed; `context` and `bidirectional` are as in `CopierConfig`.

    Attributes:
        group: the kind of model in words, which runs of other seeds share.
        after: steps on the easy task before these models' training; 0: they begin with random weights.
    """

    task: Copying
    seeds: tuple[int, ...]
    group: str
    steps: int
    context: Literal["attention", "uniform", "none"] = "attention"
    bidirectional: bool = False
    after: int = 0


class SequenceCopying(CopyingHeads):
    """Parameters, models and record of the chapter `sequence_copying`."""

    length: Count = Field(ge=2, le=500)
    symbols: Count = Field(ge=2, le=5000)
    more_symbols: Count = Field(ge=3, le=5000)
    between: Growing
    options: Different[Annotated[str, among(OPTIONS)]]
    hidden: Count = Field(ge=1, le=4096)
    batch_size: Count = Field(ge=1)
    learning_rate: Rate
    steps: Count = Field(ge=1)
    uniform_steps: Count = Field(ge=1)
    early: Count
    head_starts: Growing
    every: Count = Field(ge=1)
    budgets: Growing = Field(min_length=1)
    learned: Rate
    sequences: Count = Field(ge=1)
    seeds: Count = Field(ge=2, le=1000)
    stacked: Count = Field(ge=1)

    @model_validator(mode="after")
    def _possible(self) -> SequenceCopying:
        if not self.length <= self.symbols < self.more_symbols:
            raise ValueError(
                f"without repetition, symbols should be at least length = {self.length}, and fewer than "
                f"more_symbols = {self.more_symbols}; got {self.symbols}"
            )
        if outside := [m for m in self.between if not self.symbols < m < self.more_symbols]:
            raise ValueError(
                f"between should be numbers between symbols = {self.symbols} and more_symbols = "
                f"{self.more_symbols}; got {outside}"
            )
        for name in ("budgets", "head_starts"):
            given = getattr(self, name)
            if outside := [step for step in given if not 1 <= step <= self.steps]:
                raise ValueError(f"{name} should be from 1 to steps = {self.steps}; got {outside}")
        if self.early not in (looks := self.moments(self.uniform_steps)):
            raise ValueError(
                f"early should be a step at which models are looked at, of {looks}; got {self.early}"
            )
        return self

    @property
    def label(self) -> str:
        """The name of the hard task."""
        return f"{self.length}-of-{self.symbols}"

    # ---- tasks and runs ------------------------------------------------------------------------------

    @property
    def hard(self) -> Copying:
        """The task in which every sequence contains all symbols (if there are as many symbols as places)."""
        return Copying(self.length, self.symbols)

    @property
    def easy(self) -> Copying:
        """The task with more symbols."""
        return Copying(self.length, self.more_symbols)

    @property
    def repeated(self) -> Copying:
        """The task in which symbols may occur again."""
        return Copying(self.length, self.symbols, repetition=True)

    @property
    def doses(self) -> list[Copying]:
        """Tasks with an increasing number of symbols, from the hard one to the easy one."""
        return [self.hard, *(Copying(self.length, m) for m in self.between), self.easy]

    @property
    def roomy(self) -> Copying:
        """The hard task with the easy one's vocabulary, so that models of the easy task can learn it."""
        return replace(self.hard, room=self.more_symbols)

    def runs(self) -> list[CopyRun]:
        """Every model to train: tasks with attention, then without, then with a head start."""
        tasks = [*self.doses, self.repeated]
        groups = [self._run(task, task.name, self.steps) for task in tasks]
        for task in tasks:
            groups.append(self._run(task, f"{task.name}, uniform", self.uniform_steps, context="uniform"))
        for option in self.options:
            for task in (self.hard, self.easy):
                groups.append(self._run(task, f"{task.name}, {option}", self.steps, **OPTIONS[option]))
        if self.head_starts:
            longer = self.steps + self.head_starts[-1]
            groups.append(self._run(self.roomy, self.control, longer))
        for after in self.head_starts:
            groups.append(self._run(self.roomy, self.head_start(after), self.steps, after=after))
        stacks = [tuple(range(self.seeds)[part]) for part in chunks(self.seeds, self.stacked)]
        return [self._stack(run, seeds) for run in groups for seeds in stacks]

    @property
    def groups(self) -> list[str]:
        """The kinds of models, each once."""
        return list(dict.fromkeys(run.group for run in self.runs()))

    @property
    def control(self) -> str:
        """The name of the hard task's models with the larger vocabulary and no head start."""
        return f"{self.hard.name}, no head start"

    def head_start(self, after: int) -> str:
        """The name of the hard task's models that begin with `after` steps of the easy task."""
        return f"{self.hard.name}, after {after} steps of {self.easy.name}"

    def _run(self, task: Copying, group: str, steps: int, **how: Any) -> CopyRun:
        return CopyRun(group, 0, task, (), group, steps, **how)

    def _stack(self, run: CopyRun, seeds: tuple[int, ...]) -> CopyRun:
        first, last = seeds[0], seeds[-1]
        name = f"{run.group}, seed{f's {first} to {last}' if last > first else f' {first}'}"
        return replace(run, name=name, seed=first, seeds=seeds)

    # ---- models --------------------------------------------------------------------------------------

    def setup(self, run: CopyRun | HeadRun) -> Setup:
        """Parallel models of a task, and an endless supply of sequences."""
        if isinstance(run, HeadRun):
            return self.head_setup(run)
        config = CopierConfig(
            run.task.vocabulary,
            self.hidden,
            run.seeds,
            bidirectional=run.bidirectional,
            context=run.context,
        )
        model = self._begun(run) if run.after else Copier(config)
        looked_at = run.task.batch(self.sequences, [[seed, UNSEEN] for seed in run.seeds])
        shown = run.task.of(np.repeat(self.shown, len(run.seeds), 0))
        relevance = run.context == "uniform"
        hooks: list[Any] = [CopyingLooks(self.moments(run.steps), looked_at, shown, relevance=relevance)]
        if run.group == self.easy.name and self.head_starts:
            hooks.append(Snapshots(self.head_starts))
        batches = run.task.batches(self.batch_size, run.seeds)
        plan = self.copying_plan(run, self.learning_rate, self.every)
        return Setup(model, batches, copying_loss, plan, [looked_at], copying_scores, hooks)

    def _begun(self, run: CopyRun) -> Copier:
        """The models of the same seeds after `run.after` steps of the easy task."""
        easy = self._stack(self._run(self.easy, self.easy.name, self.steps), run.seeds)
        if easy.name not in self.trained:
            self.train(easy, progress=False)
        return self.kept(easy.name).at(run.after)

    @property
    def shown(self) -> Int64[np.ndarray, "1 1 length"]:
        """A sequence of the hard task, which is possible in all other tasks, too."""
        return self.hard.sequences(1, np.random.default_rng(UNSEEN))[None]

    def moments(self, steps: int) -> tuple[int, ...]:
        """The numbers of updates after which models are examined."""
        return checkpoint_steps(steps, self.every, (0,))

    # ---- what was seen -------------------------------------------------------------------------------

    def looks(self, group: str) -> list[tuple[CopyRun, CopyingLooks]]:
        """The stored measurements of a group's trained models, stack by stack of parallel models."""
        found = [each for each in self.trained.values() if getattr(each.run, "group", None) == group]
        if not found:
            there = dict.fromkeys(getattr(each.run, "group", "") for each in self.trained.values())
            raise KeyError(f"no models are called {group!r}; trained are {', '.join(there) or 'none'}")
        return [(each.run, each.hooks[0]) for each in found]  # type: ignore[misc]

    def curves(self, *groups: str) -> pd.DataFrame:
        """Measurements over training (see `copying_look`): a row per group (column `task`), seed and step."""
        tables = [
            looks.curves(run.seeds).assign(task=group) for group in groups for run, looks in self.looks(group)
        ]
        return pd.concat(tables, ignore_index=True)

    def learning(self, curves: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        """The tables of `learned_at` and `shares_learned`, and the KTIW signal under uniform attention."""
        times = learned_at(curves, self.learned)
        even = {f"{task.name}, uniform": task.name for task in [*self.doses, self.repeated]}
        hints = curves_over_seeds(curves[curves["task"].isin(even)], ["auc", "largest"])
        return times, shares_learned(times, self.budgets), hints.replace({"task": even})

    def explored(self, models: Sequence[tuple[str, int]]) -> dict[str, Any]:
        """The explorer's data of one sequence in several models over training."""
        scores, written = {}, {}
        for group, seed in models:
            run, looks = next(each for each in self.looks(group) if seed in each[0].seeds)
            name, place = f"{group}, seed {seed}", run.seeds.index(seed)
            scores[name] = looks.attention(place).numpy()
            written[name] = [self._text(ids, run.task) for ids in looks.written(place)]
        source = [*map(str, self.shown[0, 0]), "<end>"]
        truth = np.eye(len(source), dtype=bool)
        parts = {"targets": [source] * len(next(iter(scores.values()))), "truth": truth}
        return {"source": source, "scores": scores, "written": written, **parts}

    def _text(self, ids: Sequence[int], task: Copying) -> str:
        marks = {task.end: "<end>", task.start: "<start>"}
        return " ".join(marks.get(i, str(i)) for i in ids)

    def with_head_start(self, times: pd.DataFrame) -> pd.DataFrame:
        """When models of the hard task learned (see `learned_at`), including the steps of the head start."""
        before = {self.control: 0} | {self.head_start(after): after for after in self.head_starts}
        there = times[times["task"].isin(before)]
        return there.assign(step=there["step"] + there["task"].map(before).astype(int))

    def dose_response(self, shares: pd.DataFrame, times: pd.DataFrame, hints: pd.DataFrame) -> pd.DataFrame:
        """The early KTIW signal, the share that learns in time and the median step, by number of symbols."""
        at = hints[(hints["metric"] == "auc") & (hints["step"] == self.early)].set_index("task")
        within = shares[shares["budget"] == self.budgets[0]].set_index("task")
        half, rows = median_steps(times).set_index("task")["value"], []
        for task in self.doses:
            found: dict[str, Any] = {"name": str(task.symbols)}
            for axis, row in (("x", at.loc[task.name]), ("y", within.loc[task.name])):
                found |= {axis: row["value"], f"{axis}_low": row["low"], f"{axis}_high": row["high"]}
            rows.append(found | {"median": half[task.name]})
        return pd.DataFrame(rows)

    def rows(self, shares: pd.DataFrame, times: pd.DataFrame, hints: pd.DataFrame) -> pd.DataFrame:
        """The rows to record: shares that learn, their differences, median steps, KTIW signals."""
        main = [self.hard.name, self.easy.name, self.repeated.name]
        counts = shares.assign(metric="learned")
        apart = differences_learned(shares[shares["task"].isin(main)], self.hard.name)
        medians = median_steps(times).assign(metric="median step")
        at = hints[hints["step"].isin([self.early, self.uniform_steps])]
        at = at.replace({"metric": {"auc": "hint (AUC)", "largest": "largest relevance"}})
        tables = [counts, apart.assign(metric=f"learned, less {self.hard.name}"), medians, at]
        found = pd.concat(tables, ignore_index=True)
        return found[found["value"].abs() < float("inf")].assign(setting=self.setting)

    def all_rows(self, curves: pd.DataFrame, heads: HeadResults) -> pd.DataFrame:
        """All rows to record: of models of every group, and of heads."""
        times, shares, hints = self.learning(curves)
        of_heads = heads.rows().assign(setting=self.heads_setting)
        return pd.concat([self.rows(shares, times, hints), of_heads], ignore_index=True)

    @property
    def setting(self) -> str:
        """The set-up in words, for tables."""
        said = [
            f"length {self.length}",
            f"{self.seeds} seeds",
            f"hidden {self.hidden}, batch {self.batch_size}, learning rate {self.learning_rate:g}",
            "bf16" * (self.precision == "bf16"),
        ]
        return "; ".join(part for part in said if part)
