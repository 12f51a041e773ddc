"""The state of a training run between steps, and how it is saved and restored."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnlib.checks import check
from attnlib.files import CheckpointError, on_cpu, save_tensors, write_atomically
from attnlib.models.base import as_json, config_of, evaluating
from attnlib.places import in_words
from attnlib.training.keeping import Foreign, Keeper, load_own
from attnlib.training.key import digest
from attnlib.training.plan import History, Plan
from attnlib.training.runlog import log

LAST, BEST, TABLE = "last.safetensors", "best.safetensors", "history.csv"
RESERVED = {"step", "loss", "lr", "seconds"}

Evaluation = Callable[[nn.Module], dict[str, float]]


@dataclass(eq=False)
class Run:
    """The state of a training run between steps, and how it is saved and restored.

    During training, `last.safetensors` holds the state and the best weights so far, in one file, so that a
    kill never leaves parts of two evaluations. At the end, `best.safetensors` holds the best weights and the
    history, and `last` is deleted. `evaluation` and `given_key` are `evaluate` and `key` of `fit`.
    """

    model: nn.Module
    plan: Plan
    device: torch.device
    evaluation: Evaluation | None
    folder: Path | None
    keepers: Sequence[Keeper]
    given_key: str | None

    def __post_init__(self) -> None:
        """Make the optimizer and the schedule of the plan, and call `join` of the keepers."""
        model, plan, evaluation = self.model, self.plan, self.evaluation
        self.settings = as_json({**plan.settings(), "evaluate": evaluation is not None})
        shapes = [(name, list(weight.shape)) for name, weight in model.state_dict().items()]
        self.key = self.given_key or digest([self.settings, type(model).__name__, config_of(model), shapes])
        make = torch.optim.AdamW if plan.optimizer == "adamw" else torch.optim.Adam
        self.optimizer = make(
            model.parameters(), plan.learning_rate, plan.betas, weight_decay=plan.weight_decay, fused=True
        )
        self.schedule = _schedule(plan, self.optimizer)
        metric = plan.metric if evaluation else None
        self.history = History([], metric, plan.higher_is_better, folder=self.folder)
        self.best: dict[str, Tensor] | None = None
        self.metrics: list[str] = []
        self.latest: dict[str, float] = {}
        self.waiting: list[tuple[int, dict[str, Tensor]]] = []
        self.sums: dict[str, tuple[float, int]] = {}
        for keeper in self.keepers:
            keeper.join(self.folder, self.key, model)

    def load_if_finished(self) -> bool:
        """Whether the folder holds this run, finished; if so, load it. Nothing is written or logged."""
        try:
            return self.folder is not None and self._take_up(unfinished=False)
        except CheckpointError:
            return False

    def go_on(self) -> None:
        """Resume this run from the folder; log and delete checkpoints that are damaged or of another run.

        In a folder of the caller's own (without `key`), files of another run raise `Foreign`, and are kept.
        """
        try:
            if self.folder is not None and self._take_up():
                state = "finished" if self.history.finished else "goes on"
                log.info("%s %s at step %d", self.folder, state, self.step)
        except CheckpointError as error:
            assert self.folder is not None
            why = f"{error}".rstrip(".")
            if isinstance(error, Foreign) and self.given_key is None:
                raise Foreign(f"{why}. Train in another folder, or delete {self.folder}.") from error
            log.warning("%s. Training starts again.", why)
            with in_words(self.folder):
                for name in (LAST, BEST):
                    (self.folder / name).unlink(missing_ok=True)
        self.started = time.perf_counter() - self.history.seconds

    def _take_up(self, unfinished: bool = True) -> bool:
        assert self.folder is not None
        if os.path.lexists(self.folder / BEST):
            weights, header = load_own(self.folder / BEST, self.key, kind="best")
            if header["finished"]:
                self._take(header, weights)
                return True
        if not unfinished or not os.path.lexists(self.folder / LAST):
            return False
        state, header = load_own(self.folder / LAST, self.key, kind="last")
        self._take(header, best_of(state, header))
        self._restore(state, header)
        return True

    def _restore(self, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
        """Load what `_state` returned into the model, optimizer, schedule and random generators."""
        self.model.load_state_dict(_under(tensors, "model/"))
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _under(tensors, "optimizer/").items():
            index, key = name.split("/")
            state.setdefault(int(index), {})[key] = value.clone()
        groups = [{**group, "betas": tuple(group["betas"])} for group in header["groups"]]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        if self.schedule is not None:
            self.schedule.load_state_dict(header["schedule"])
        torch.set_rng_state(tensors["random/cpu"].clone())
        if self.device.type == "cuda" and "random/cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random/cuda"].clone(), self.device)

    def _take(self, header: dict[str, Any], best: dict[str, Tensor] | None) -> None:
        rows = header["rows"]
        if wrong := next(filter(None, (each.missing(rows[-1]["step"]) for each in self.keepers)), None):
            raise CheckpointError(wrong)
        self.best, self.metrics, self.history.rows = best, header["metrics"], rows
        self.history.steps, self.history.seconds = self.step, rows[-1]["seconds"]
        self.history.finished = self.history.ended(self.plan)

    @property
    def step(self) -> int:
        """Updates made up to the last checkpoint."""
        return self.history.rows[-1]["step"] if self.history.rows else 0

    @property
    def lr(self) -> float:
        """The learning rate of the next update."""
        return self.optimizer.param_groups[0]["lr"]

    def note(self, step: int, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        """Keep the losses of a step on the device: reading them now would make the loop wait for the GPU."""
        self.history.steps = step
        losses = {name: value.detach() for name, value in losses.items()}
        self.waiting.append((step, losses))
        return losses

    def read_losses(self) -> dict[str, float]:
        """Check the losses noted since the last reading, add them to the sums, return the latest of each."""
        latest = {}
        for name in dict.fromkeys(name for _, losses in self.waiting for name in losses):
            steps = [step for step, losses in self.waiting if name in losses]
            tensors = [losses[name].float() for _, losses in self.waiting if name in losses]
            values = torch.stack(tensors).tolist()
            for step, value in zip(steps, values, strict=True):
                if not math.isfinite(value):
                    raise FloatingPointError(f"{name} is {value} at step {step}. {self._advice()}")
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = (total + sum(values), count + len(values))
            latest[name] = values[-1]
        self.waiting.clear()
        return latest

    def evaluate(self, step: int, lr: float) -> dict[str, Any]:
        """Step 8 of `fit`: evaluate, add a row, and save."""
        self.read_losses()
        finite = [weight.isfinite().all() for weight in self.model.parameters()]
        if not torch.stack(finite).all():
            raise FloatingPointError(f"a weight is not finite after step {step}. {self._advice()}")
        if self.evaluation is not None:
            self.latest = self._evaluated(self.evaluation)
            self.metrics = list(self.latest)
        if self.plan.schedule == "plateau" and self.schedule is not None:
            self.schedule.step(self.latest[self.plan.plateau_of or self.plan.metric])
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums = {}
        self.history.seconds = time.perf_counter() - self.started
        row = {"step": step, **self.latest, **means, "lr": lr, "seconds": self.history.seconds}
        known = replace(self.history, rows=[*self.history.rows, row])
        best = self.best
        if improved := known.best_step == step:
            best = {name: value.clone() for name, value in on_cpu(self.model.state_dict()).items()}
        self.best, self.history.rows = best, known.rows  # together: Ctrl-C must not come between the two
        self.history.finished = self.history.ended(self.plan)
        log.info("%s", ", ".join(f"{name} {value:.6g}" for name, value in row.items()))
        self._save(improved)
        return row

    def interrupt(self) -> None:
        """Record in the history that Ctrl-C ended the run, and save the best weights so far."""
        self.history.interrupted = True
        self.history.seconds = time.perf_counter() - self.started
        log.warning(
            "interrupted after %d steps; the best model so far is that of step %s",
            self.history.steps,
            self.history.best_step,
        )
        if self.folder is not None:
            self._save_best(self.folder)

    def _evaluated(self, evaluation: Evaluation) -> dict[str, float]:
        with (
            evaluating(self.model),
            torch.no_grad(),
            torch.random.fork_rng([self.device] if self.device.type == "cuda" else []),
        ):
            found = evaluation(self.model)
            check(hasattr(found, "items"), "evaluate must return numbers by name, a dictionary", found)
            metrics = {name: float(value) for name, value in found.items()}
        for of in ("metric", *["plateau_of"] * bool(self.plan.plateau_of)):
            name = getattr(self.plan, of)
            check(name in metrics, f"evaluate must return {name!r} (plan.{of})", list(metrics))
        taken = RESERVED & metrics.keys()
        check(not taken, "evaluate must not return names of the training's own columns", sorted(taken))
        return metrics

    def _save(self, improved: bool) -> None:
        if self.folder is None:
            return
        if self.history.finished and self.best is not None:
            self._save_best(self.folder)
            (self.folder / LAST).unlink(missing_ok=True)
        else:
            tensors, rest = self._state()
            if self.best is not None and not improved:
                tensors |= {f"best/{name}": value for name, value in self.best.items()}
            save_tensors(self.folder / LAST, tensors, self._header("last", self.step) | rest)
        write_atomically(self.folder / TABLE, self.history.table.to_csv(index=False).encode())

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The state that the next step depends on, without the data: tensors, and the rest as JSON values."""
        tensors = {f"model/{name}": weight for name, weight in self.model.state_dict().items()}
        state = self.optimizer.state_dict()
        for index, values in state["state"].items():
            tensors |= {f"optimizer/{index}/{name}": value for name, value in values.items()}
        tensors["random/cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random/cuda"] = torch.cuda.get_rng_state(self.device)
        schedule = self.schedule and self.schedule.state_dict()
        return tensors, {"groups": state["param_groups"], "schedule": schedule}

    def _header(self, kind: str, step: int | None) -> dict[str, Any]:
        return {
            "run": self.key,
            "plan": self.settings,
            "kind": kind,
            "step": step,
            "best_step": self.history.best_step,
            "rows": self.history.rows,
            "metrics": self.metrics,
            "finished": self.history.finished,
        }

    def _save_best(self, folder: Path) -> None:
        if self.best is not None:
            header = self._header("best", self.history.best_step) | {"config": config_of(self.model)}
            save_tensors(folder / BEST, self.best, header)

    def _advice(self) -> str:
        kept = f" The last checkpoint, of step {self.step}, is kept." if self.folder and self.step else ""
        return f"Try a smaller learning_rate, warmup, or clip=1.{kept}"


def _schedule(plan: Plan, optimizer: torch.optim.Optimizer) -> Any:
    schedules = torch.optim.lr_scheduler
    if plan.schedule == "plateau":
        mode: Literal["min", "max"] = "max" if plan.higher_is_better and not plan.plateau_of else "min"
        return schedules.ReduceLROnPlateau(
            optimizer, mode, factor=plan.gamma, patience=plan.plateau_patience - 1, threshold=0.0
        )
    if plan.schedule == "onecycle":
        rising = plan.warmup / plan.steps if plan.warmup else 0.3
        return schedules.OneCycleLR(optimizer, plan.learning_rate, total_steps=plan.steps, pct_start=rising)
    if plan.schedule == "constant" and not plan.warmup:
        return None
    gamma = plan.gamma if plan.schedule == "exponential" else 1.0

    def factor(step: int) -> float:
        return min(1.0, (step + 1) / (plan.warmup + 1)) * gamma ** (step // plan.epoch_steps)

    return schedules.LambdaLR(optimizer, factor)


def best_of(state: dict[str, Tensor], header: dict[str, Any]) -> dict[str, Tensor] | None:
    """The best weights so far in the content of `last.safetensors`; `None` if there are none yet."""
    if header["best_step"] is None:
        return None
    prefix = "model/" if header["best_step"] == header["step"] else "best/"
    return {name: value.clone() for name, value in _under(state, prefix).items()}


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
