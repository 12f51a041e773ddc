"""The settings of a training run (`Plan`) and its results (`History`)."""

from __future__ import annotations

from dataclasses import asdict, field
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from attnlib.checks import check
from attnlib.models.devices import pick_device


@dataclass(frozen=True, config={"extra": "forbid"})
class Plan:
    """The settings of a training run. Wrong settings raise a `ValueError` that says what is allowed.

    Attributes:
        steps: updates of the weights.
        learning_rate: the highest learning rate.
        schedule: how the learning rate changes: "constant"; "onecycle" (torch's OneCycleLR over all steps);
            "exponential" (times `gamma` every `epoch_steps` steps); "plateau" (times `gamma` when
            `plateau_patience` evaluations in a row have not improved on the best).
        warmup: steps until the learning rate is at its highest. For "constant" and "exponential" it rises
            linearly; for "onecycle" this is the rising phase, whose last step has the highest rate (0 means
            30 % of the steps, as in torch).
        gamma: see `schedule`.
        epoch_steps: see `schedule`.
        plateau_patience: see `schedule`.
        plateau_of: the evaluation's value that "plateau" monitors, the lower the better; by default
            `metric`, with `higher_is_better`.
        optimizer: "adam" (weight decay is added to the gradient) or "adamw" (weight decay is decoupled).
        betas: decay of Adam's two moving averages; "onecycle" cycles the first one, as torch does.
        weight_decay: see `optimizer`.
        clip: largest norm of the gradient of all weights together; 0: unlimited.
        evaluate_every: steps between evaluations; a checkpoint is written at each.
        metric: the evaluation's value that decides which model is best.
        higher_is_better: whether the best metric is the highest or the lowest.
        stop_at: stop early when the metric is at least this (at most, if lower is better) ...
        patience: ... in this many evaluations in a row.
        seed: seed of dropout and of all else that torch draws; the caller makes the initial weights.
        device: "cpu", "cuda", "cuda:1", "mps"; "auto": the first available GPU, else the CPU.
        precision: "float32", or "bf16": torch's autocast (weights stay float32). Use "bf16" on a GPU, or on a
            processor with AVX-512; other processors multiply in bf16 20 times slower than in float32.
        log_every: steps between updates of the bar, TensorBoard, and checks that the loss is finite.
        tensorboard: write events to `folder/tensorboard`.
    """

    steps: int = Field(ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: Literal["constant", "onecycle", "exponential", "plateau"] = "constant"
    warmup: int = Field(default=0, ge=0)
    gamma: float = Field(default=0.98, gt=0, le=1)
    epoch_steps: int = Field(default=1000, ge=1)
    plateau_patience: int = Field(default=3, ge=1)
    plateau_of: str = ""
    optimizer: Literal["adam", "adamw"] = "adam"
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = Field(default=0.0, ge=0)
    clip: float = Field(default=0.0, ge=0)
    evaluate_every: int = Field(default=500, ge=1)
    metric: str = "accuracy"
    higher_is_better: bool = True
    stop_at: float | None = None
    patience: int = Field(default=3, ge=1)
    seed: int = 0
    device: str = "auto"
    precision: Literal["float32", "bf16"] = "float32"
    log_every: int = Field(default=50, ge=1)
    tensorboard: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Plan:
        check(all(0 <= beta < 1 for beta in self.betas), "betas must be at least 0 and below 1", self.betas)
        check(not self.warmup or self.schedule != "plateau", 'warmup must be 0 with "plateau"', self.warmup)
        alone = self.warmup == 1 and self.schedule == "onecycle"
        check(not alone, 'warmup of "onecycle" must be 0 (its default) or at least 2', self.warmup)
        check(self.warmup < self.steps, f"warmup must be below steps={self.steps}", self.warmup)
        return self

    def settings(self) -> dict[str, Any]:
        """The settings that the weights depend on, with the device by its type, for the cache key."""
        free = ("log_every", "tensorboard", *["plateau_of"] * (not self.plateau_of))
        settings = {name: value for name, value in asdict(self).items() if name not in free}
        return settings | {"device": pick_device(self.device, here=False).type}

    def torch_device(self) -> torch.device:
        """The torch device that `device` means on this machine."""
        return pick_device(self.device)


@plain_dataclass
class History:
    """The results of a run, one row per evaluation.

    Attributes:
        rows: step; the evaluation's values; every loss, as a mean over the steps since the previous row; lr;
            seconds of training so far, earlier sessions included.
        metric: the value that decides which model is best; `None` if the run has no evaluation.
        higher_is_better: whether the best metric is the highest.
        interrupted: whether Ctrl-C ended the run.
        steps: updates made until the run ended or was interrupted, also if this call only loaded the run.
        seconds: the time of training, earlier sessions included, also if this call only loaded the run.
        finished: whether the plan is done. Only then do the results count as those of the plan.
        folder: the folder of the run; `None` if nothing is written.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    metric: str | None = "accuracy"
    higher_is_better: bool = True
    interrupted: bool = False
    steps: int = 0
    seconds: float = 0.0
    finished: bool = False
    folder: Path | None = None

    @property
    def table(self) -> Any:
        """The rows as a table, a `DataFrame`."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=None if self.rows else ["step", "loss", "lr", "seconds"])

    @property
    def best_step(self) -> int | None:
        """The first step with the best metric (without an evaluation: the last); `None` if there is none."""
        if self.metric is None:
            return self.rows[-1]["step"] if self.rows else None
        metric, sign = self.metric, 1 if self.higher_is_better else -1
        rows = [row for row in self.rows if row[metric] == row[metric]]  # NaN is never the best
        return max(rows, key=lambda row: sign * row[metric])["step"] if rows else None

    @property
    def best(self) -> float | None:
        """The metric at `best_step`."""
        if self.metric is None:
            return None
        return next((row[self.metric] for row in self.rows if row["step"] == self.best_step), None)

    def ended(self, plan: Plan) -> bool:
        """Whether the plan is done: all steps are made, or `stop_at` was met `patience` times in a row."""
        if self.rows and self.rows[-1]["step"] >= plan.steps:
            return True
        if plan.stop_at is None or len(self.rows) < plan.patience:
            return False
        sign = 1 if self.higher_is_better else -1
        values = [row[plan.metric] for row in self.rows[-plan.patience :]]
        return all(sign * value >= sign * plan.stop_at for value in values)
