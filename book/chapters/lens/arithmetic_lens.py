"""The chapter on the arithmetic lens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pandas as pd
import torch
from pydantic import Field, model_validator

from attnlib.files import CheckpointError
from attnlib.generators.arithmetic import Arithmetic, Splits, arithmetic, read_or_write
from attnlib.generators.base import Batch
from attnlib.models.transformer import Transformer, TransformerConfig
from attnlib.training import Plan, token_loss, token_scores, token_scores_and_loss
from attnlib.training.keeping import Snapshots, denser_early
from attnlib.training.scheduled_sampling import on_own_predictions, share_up_to, with_own_predictions
from book.chapters.chapter import Chapter, Run, Setup
from book.chapters.parameters import Amount, Count, Rate, Seeds, Several, Share, Text
from book.chapters.refusals import refuse_data_folder, refuse_same_names

OF_THE_LOSS = "plateau of the loss"
"""The original's schedule: the learning rate is halved when the validation loss stops improving."""

NAMES = {"+": "addition", "-": "subtraction", "*": "multiplication"}


@dataclass(frozen=True)
class LensRun(Run):
    """A model of some problems; its seed also determines the draws of scheduled sampling.

    Attributes:
        backwards: whether numbers are written with the units first, and padded.
        sampling: whether the model also learns from its own predictions (scheduled sampling).
        published: the sizes of splits drawn as in the original, which overlap; `None`: disjoint splits.
    """

    operators: str
    backwards: bool = False
    sampling: bool = False
    published: tuple[int, int, int] | None = None


class ArithmeticLens(Chapter):
    """Parameters, models and record of the chapter `arithmetic_lens`."""

    operators: Text
    also: Several[Text]
    lowest: Count
    highest: Count = Field(ge=1)
    n_operands: Count = Field(ge=2, le=6)
    negative: bool
    train_problems: Count = Field(ge=10)
    valid_problems: Count = Field(ge=10)
    test_problems: Count = Field(ge=10)
    data_folder: Text
    published: Several[Count]
    small: Count
    n_layers: Count = Field(ge=1, le=12)
    n_heads: Count = Field(ge=1, le=16)
    width: Count = Field(ge=8, le=2048)
    ff_width: Count = Field(ge=8, le=8192)
    dropout: Share = Field(lt=1)
    steps: Count = Field(ge=10)
    batch_size: Count = Field(ge=1)
    learning_rate: Rate
    units_first_rate: Rate
    schedule: Literal["onecycle", "plateau", "plateau of the loss", "constant"]
    clip: Amount
    sampling: Share
    moments: Count = Field(ge=2, le=60)
    problem: Text
    seeds: Seeds
    tensorboard: bool

    @model_validator(mode="after")
    def _possible(self) -> ArithmeticLens:
        drawn, main = self.model_copy(update={"data_folder": ""}), LensRun("", 0, self.operators)
        if self.operators in self.also:
            raise ValueError(
                f"also should be other operators than the main ones; got {self.operators!r} again"
            )
        for operators in [self.operators, *self.also]:
            drawn.splits(replace(main, operators=operators))
        if refuse_data_folder(self.data_folder):
            self.splits(main)
        if len(self.published) not in (0, 3) or any(n < 10 for n in self.published):
            raise ValueError(
                f"published should be three numbers of at least 10 problems, or empty; got {self.published}"
            )
        if self.published and self.n_operands != 2:
            raise ValueError(
                f"the original's splits are of 2 numbers; got n_operands={self.n_operands}: say published=[]"
            )
        try:
            self.task(main).annotate(self.question)
        except ValueError as error:
            raise ValueError(f"problem: {error}, with -p problem") from None
        TransformerConfig(20, n_heads=self.n_heads, width=self.width)
        refuse_same_names(self.runs())
        return self

    @property
    def label(self) -> str:
        """The main task in words."""
        return self.kind

    @property
    def question(self) -> str:
        """The reader's own problem, up to its =."""
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
        if self.data_folder and run.operators == self.operators and not run.published:
            return self._in_the_folder
        sizes = run.published or (self.train_problems, self.valid_problems, self.test_problems)
        return self.task(run).splits(*sizes, as_published=run.published is not None)

    @cached_property
    def _in_the_folder(self) -> Splits:
        """The main problems from `data_folder`; they are written there first if it is new or empty."""
        task = self.task(LensRun("", 0, self.operators))
        sizes = self.train_problems, self.valid_problems, self.test_problems
        try:
            return read_or_write(self.data_folder, task, lambda: task.splits(*sizes))
        except (OSError, CheckpointError) as error:
            raise ValueError(
                "data_folder should hold train.txt, val.txt and test.txt, or nothing at all; got "
                f"{self.data_folder!r} ({error})"
            ) from error

    def answers(self, run: LensRun, split: Literal["train", "valid", "test"]) -> list[Batch]:
        """The problems of a split in batches whose targets are the answers only."""
        answers_only = replace(self.task(run), operands_too=False)
        return answers_only.in_batches(getattr(self.splits(run), split))

    # ---- models --------------------------------------------------------------------------------------

    def runs(self) -> list[LensRun]:
        """Every model to train: the main kind first, one per seed."""
        first, kind = self.seeds[0], self.kind
        runs = [LensRun(self.name(seed), seed, self.operators) for seed in self.seeds]
        if self.sampling:
            names = [self.name(seed, ", scheduled sampling") for seed in self.seeds]
            runs += [replace(run, name=name, sampling=True) for run, name in zip(runs, names, strict=True)]
        runs += [LensRun(f"{kind}, units first", first, self.operators, backwards=True)]
        runs += [LensRun(kind_of(operators), first, operators) for operators in self.also]
        for n in [*self.published[:1], self.small] if self.published else []:
            if n:
                sizes = (n, self.published[1], self.published[2])
                runs += [LensRun(f"as published, {n:,} drawn", first, self.operators, published=sizes)]
        return runs

    def config(self, run: LensRun) -> TransformerConfig:
        """The model of a run: as the original's, causal, with sinusoidal positions, GELU and post-norm."""
        task = self.task(run)
        sizes = self.model_dump(include={"n_layers", "n_heads", "width", "ff_width", "dropout"})
        return TransformerConfig(
            len(task.tokenizer), causal=True, activation="gelu", max_length=task.max_length, **sizes
        )

    def setup(self, run: LensRun) -> Setup:
        """A transformer, stored at some steps of training (more densely early on), and its problems."""
        torch.manual_seed(run.seed)
        model = Transformer(self.config(run))
        batches: Callable[[int], Any] = self.task(run).batches(
            self.splits(run).train, self.batch_size, run.seed
        )
        loss: Callable[..., Any] = token_loss()
        if run.sampling:
            batches = with_own_predictions(batches, share_up_to(self.sampling, self.steps), seed=run.seed)
            loss = on_own_predictions(loss)
        moments = Snapshots(denser_early(self.steps, self.moments))
        score = token_scores_and_loss if self.schedule == OF_THE_LOSS else token_scores
        return Setup(model, batches, loss, self.plan(run), self.answers(run, "valid"), score, [moments])

    def plan(self, run: LensRun) -> Plan:
        """How the model of a run is trained."""
        how: dict[str, Any] = {"schedule": self.schedule}
        if self.schedule == OF_THE_LOSS:
            how = {"schedule": "plateau", "plateau_of": "valid_loss"}
        return Plan(
            steps=self.steps,
            learning_rate=self.units_first_rate if run.backwards else self.learning_rate,
            gamma=0.5,
            plateau_patience=5,
            clip=self.clip,
            evaluate_every=max(1, self.steps // 15),
            metric="exact_match",
            seed=run.seed,
            device=self.device,
            tensorboard=self.tensorboard,
            **how,
        )

    @property
    def kind(self) -> str:
        """The main task in words, such as "addition"."""
        return kind_of(self.operators)

    def name(self, seed: int, trained: str = "") -> str:
        """The name of a seed's main model, or with `trained` of one that is trained in another way."""
        return self.kind + trained + f", seed {seed}" * (len(self.seeds) > 1)

    def run_table(self) -> pd.DataFrame:
        """A row per run: its name and its set-up."""
        size = f"{self.n_layers} layers, {self.n_heads} heads, width {self.width}, {self.steps:,} steps"
        rows = [
            (run.name, run.operators, run.seed, run.sampling, run.backwards, run.published is not None, size)
            for run in self.runs()
        ]
        names = ["run", "operators", "seed", "sampling", "units_first", "as_published", "setting"]
        return pd.DataFrame(rows, columns=names)


def kind_of(operators: str) -> str:
    """A task in words, from its operators."""
    return " and ".join(NAMES.get(operator, operator) for operator in operators)
