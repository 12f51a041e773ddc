"""Parameters of the chapter on the arithmetic lens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from pydantic import Field, model_validator

from attnlib.chapters.base import Chapter
from attnlib.generators.arithmetic import Arithmetic, Splits, arithmetic
from attnlib.models.transformer import TransformerConfig
from attnlib.training import Plan

NAMES = {"+": "addition", "-": "subtraction", "*": "multiplication"}


@dataclass(frozen=True)
class LensRun:
    """One model to train.

    Attributes:
        operators: of its problems.
        seed: of its weights, the order of its batches and its coins.
        backwards: whether its numbers are written units first, and padded.
        sampling: whether it also learns from its own predictions.
        published: how many problems its splits, drawn as the original's, have; none: disjoint ones.
    """

    operators: str
    seed: int = 0
    backwards: bool = False
    sampling: bool = False
    published: tuple[int, int, int] | None = None


class ArithmeticLens(Chapter):
    """Parameters of the chapter `arithmetic_lens`."""

    operators: str
    also: list[str]
    lowest: int = Field(ge=0)
    highest: int = Field(ge=1)
    n_operands: int = Field(ge=2, le=6)
    negative: bool
    train_problems: int = Field(ge=10)
    valid_problems: int = Field(ge=10)
    test_problems: int = Field(ge=10)
    published: list[int]
    small: int = Field(ge=0)
    n_layers: int = Field(ge=1, le=12)
    n_heads: int = Field(ge=1, le=16)
    width: int = Field(ge=8, le=2048)
    ff_width: int = Field(ge=8, le=8192)
    dropout: float = Field(ge=0, lt=1)
    steps: int = Field(ge=10)
    batch_size: int = Field(ge=1)
    learning_rate: float = Field(gt=0, le=1)
    units_first_rate: float = Field(gt=0, le=1)
    schedule: Literal["onecycle", "plateau", "constant"]
    clip: float = Field(ge=0)
    sampling: float = Field(ge=0, le=1)
    moments: int = Field(ge=2, le=60)
    problem: str
    seeds: list[int] = Field(min_length=1)
    tensorboard: bool

    @model_validator(mode="after")
    def _possible(self) -> ArithmeticLens:
        for operators in [self.operators, *self.also]:
            self.splits(LensRun(operators))
        if len(self.published) not in (0, 3) or any(n < 10 for n in self.published):
            raise ValueError(
                f"published should be three numbers of at least 10 problems, or empty; got {self.published}"
            )
        if self.published and self.n_operands != 2:
            raise ValueError(
                f"the original's splits are of 2 numbers; got n_operands={self.n_operands}: say published=[]"
            )
        self.task(LensRun(self.operators)).annotate(self.question)
        TransformerConfig(20, n_heads=self.n_heads, width=self.width)
        return self

    @property
    def label(self) -> str:
        """The main task in words."""
        return self.kind

    @property
    def question(self) -> str:
        """The problem of one's own, up to its =."""
        return self.problem if "=" in self.problem else f"{self.problem}="

    def task(self, run: LensRun) -> Arithmetic:
        """The problems of a run, and how they are written."""
        return arithmetic(
            run.operators,
            (self.lowest, self.highest),
            n_operands=self.n_operands,
            reversed_digits=run.backwards,
            padded=run.backwards,
            negative=self.negative,
            operands_too=run.published is not None,
        )

    def splits(self, run: LensRun) -> Splits:
        """The problems of a run to train, validate and test on."""
        sizes = run.published or (self.train_problems, self.valid_problems, self.test_problems)
        return self.task(run).splits(*sizes, as_published=run.published is not None)

    def config(self, run: LensRun) -> TransformerConfig:
        """The model of a run: as the original's, causal, with sinusoidal positions, GELU and post-norm."""
        task = self.task(run)
        sizes: dict[str, Any] = self.model_dump(
            include={"n_layers", "n_heads", "width", "ff_width", "dropout"}
        )
        return TransformerConfig(
            len(task.tokenizer), causal=True, activation="gelu", max_length=task.max_length, **sizes
        )

    def plan(self, run: LensRun) -> Plan:
        """How the model of a run is trained."""
        data = {"operators", "lowest", "highest", "n_operands", "negative", "batch_size", "sampling"}
        data |= {"train_problems", "valid_problems", "test_problems"}
        return Plan(
            steps=self.steps,
            learning_rate=self.units_first_rate if run.backwards else self.learning_rate,
            schedule=self.schedule,
            gamma=0.5,
            plateau_patience=5,
            clip=self.clip,
            evaluate_every=max(1, self.steps // 15),
            metric="exact_match",
            seed=run.seed,
            device=self.device,
            tensorboard=self.tensorboard,
            about={**self.model_dump(include=data), **vars(run)},
        )

    def runs(self) -> dict[str, LensRun]:  # type: ignore[override]
        """Every model to train, by what it is called."""
        many = len(self.seeds) > 1
        runs = {self.name(seed): LensRun(self.operators, seed) for seed in self.seeds}
        if self.sampling:
            label = f"{self.kind}, scheduled sampling"
            for seed in self.seeds:
                runs[label + f", seed {seed}" * many] = LensRun(self.operators, seed, sampling=True)
        first = self.seeds[0]
        runs[f"{self.kind}, units first"] = LensRun(self.operators, first, backwards=True)
        for operators in self.also:
            runs[kind_of(operators)] = LensRun(operators, first)
        for n in [*self.published[:1], self.small] if self.published else []:
            if not n:
                continue
            sizes = (n, self.published[1], self.published[2])
            runs[f"as published, {n:,} drawn"] = LensRun(self.operators, first, published=sizes)
        return runs

    @property
    def kind(self) -> str:
        """The main task in words, such as "addition"."""
        return kind_of(self.operators)

    def name(self, seed: int) -> str:
        """What the main model of a seed is called."""
        return self.kind + f", seed {seed}" * (len(self.seeds) > 1)

    def run_table(self) -> pd.DataFrame:
        """A row per run: what it is called and its set-up."""
        size = f"{self.n_layers} layers, {self.n_heads} heads, width {self.width}, {self.steps:,} steps"
        rows = [
            (name, run.operators, run.seed, run.sampling, run.backwards, run.published is not None, size)
            for name, run in self.runs().items()
        ]
        names = ["run", "operators", "seed", "sampling", "units_first", "as_published", "setting"]
        return pd.DataFrame(rows, columns=names)


def kind_of(operators: str) -> str:
    """A task by the names of its operators."""
    return " and ".join(NAMES.get(operator, operator) for operator in operators)
