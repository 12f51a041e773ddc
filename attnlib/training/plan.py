"""How a model is trained (`Plan`), and what came of it (`History`)."""

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
    """How to train. Wrong settings raise a `ValueError` that says what is allowed.

    Attributes:
        steps: updates of the weights.
        learning_rate: its highest value.
        schedule: how the learning rate moves: "constant"; "onecycle" (torch's OneCycleLR over all steps);
            "exponential" (times `gamma` every `epoch_steps` steps); "plateau" (times `gamma` when
            `plateau_patience` evaluations in a row have not improved on the best).
        warmup: steps before the learning rate is at its highest: a straight line for "constant" and
            "exponential", the rising phase of "onecycle", at its highest in the last of them (where 0 means
            torch's 30 % of the steps).
        gamma: see `schedule`.
        epoch_steps: see `schedule`.
        plateau_patience: see `schedule`.
        plateau_of: which of the evaluation's values "plateau" goes by, the lower the better; by default what
            is best, as `metric` says.
        optimizer: "adam" (weight decay is added to the gradient) or "adamw" (it is not).
        betas: decay of Adam's two moving averages; "onecycle" cycles the first one, as torch does.
        weight_decay: see `optimizer`.
        clip: largest norm of the gradient of all weights together; 0: unlimited.
        evaluate_every: steps between evaluations, which is also where checkpoints are written.
        metric: which of the evaluation's values decides what is best.
        higher_is_better: and whether best means highest or lowest.
        stop_at: stop early when the metric is at least (lowest: at most) this ...
        patience: ... in so many evaluations in a row.
        seed: of dropout, and of all else that torch draws at random; the initial weights are the caller's.
        device: "cpu", "cuda", "cuda:1", "mps"; "auto": the first GPU that there is, else cpu.
        precision: "float32", or "bf16": torch's autocast (weights stay float32). For a GPU, or a processor
            with AVX-512: others multiply in bf16 20 times slower than in float32.
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
        """All that decides the weights, the device by its type: with equal settings, runs are the same."""
        free = ("log_every", "tensorboard", *["plateau_of"] * (not self.plateau_of))
        settings = {name: value for name, value in asdict(self).items() if name not in free}
        return settings | {"device": pick_device(self.device, here=False).type}

    def torch_device(self) -> torch.device:
        """The device that `device` means here."""
        return pick_device(self.device)


@plain_dataclass
class History:
    """What happened in a run, one row per evaluation.

    Attributes:
        rows: step; the evaluation's values; every loss, as a mean over the steps since the row before; lr;
            seconds spent so far, those before a kill included.
        metric: the value that decides what is best; `None` if the run has no evaluation.
        higher_is_better: whether best is highest.
        interrupted: whether Ctrl-C ended the run.
        steps: updates made, by Ctrl-C or the end; of a run that is loaded, those that it was trained for.
        seconds: that training took, earlier sessions included, and also where this call has only loaded it.
        finished: whether the plan is done. Only then a result is one of the plan.
        folder: where it is kept, if it is.
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
        """Whether the plan is done: all its steps, or the metric at `stop_at` often enough."""
        if self.rows and self.rows[-1]["step"] >= plan.steps:
            return True
        if plan.stop_at is None or len(self.rows) < plan.patience:
            return False
        sign = 1 if self.higher_is_better else -1
        values = [row[plan.metric] for row in self.rows[-plan.patience :]]
        return all(sign * value >= sign * plan.stop_at for value in values)
