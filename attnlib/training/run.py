"""The state of a training run: what it carries from step to step, and how it gets to disk and back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnlib.files import CheckpointError, on_cpu, save_tensors, write_atomically
from attnlib.models.mode import evaluating
from attnlib.models.saving import as_json, config_of
from attnlib.training import checkpoints
from attnlib.training.keeping import Foreign, Keeper
from attnlib.training.key import Unreadable, digest
from attnlib.training.plan import History, Plan
from attnlib.training.runlog import log

LAST, BEST, TABLE = "last.safetensors", "best.safetensors", "history.csv"
RESERVED = {"step", "loss", "lr", "seconds"}

Evaluation = Callable[[nn.Module], dict[str, float]]


class Run:
    """What a run carries from step to step, and how it gets to disk and back.

    Args:
        model: on the device.
        plan: see `fit`.
        device: that of the plan.
        evaluation: `evaluate` of `fit`.
        folder: see `fit`.
        batch_at: see `fit`; what a checkpoint's run has seen is drawn again, and compared.
        keepers: the hooks that keep files.
        parts: see `fit`.
    """

    def __init__(
        self,
        model: nn.Module,
        plan: Plan,
        device: torch.device,
        evaluation: Evaluation | None,
        folder: Path | None,
        batch_at: Callable[[int], Any],
        keepers: Sequence[Keeper] = (),
        parts: Mapping[str, str] | None = None,
    ) -> None:
        self.model, self.plan, self.device = model, plan, device
        self.evaluation, self.folder, self.batch_at = evaluation, folder, batch_at
        settings = as_json({**plan.settings(), "evaluate": evaluation is not None})
        identity = checkpoints.identity(model)
        self.parts = parts
        self.about = {
            "run": digest(dict(parts) if parts else [settings, identity]),
            "parts": dict(parts or {}),
            "plan": settings,
            "model": identity,
        }
        make = torch.optim.AdamW if plan.optimizer == "adamw" else torch.optim.Adam
        self.optimizer = make(
            model.parameters(), plan.learning_rate, plan.betas, weight_decay=plan.weight_decay, fused=True
        )
        self.schedule = _schedule(plan, self.optimizer)
        self.history = History([], plan.metric if evaluation else None, plan.higher_is_better, folder=folder)
        self.best: dict[str, Tensor] | None = None
        self.metrics: list[str] = []
        self.latest: dict[str, float] = {}
        self.waiting: list[tuple[int, dict[str, Tensor]]] = []
        self.sums: dict[str, tuple[float, int]] = {}
        self.seen: str | None = ""
        for keeper in keepers:
            keeper.join(folder, str(self.about["run"]), model)
        if folder is not None:
            self._go_on(folder, keepers)
        self.started = time.perf_counter() - self.history.seconds

    @property
    def step(self) -> int:
        """Updates made up to the last checkpoint."""
        return self.history.rows[-1]["step"] if self.history.rows else 0

    @property
    def lr(self) -> float:
        """The learning rate of the next update."""
        return self.optimizer.param_groups[0]["lr"]

    def see(self, batch: Any) -> None:
        """Add a batch to the hash of all that the run has seen, which its checkpoints keep."""
        if self.folder is not None and self.seen is not None:
            try:
                self.seen = digest([self.seen, batch])
            except Unreadable:  # batches of a kind that has no content to go by
                self.seen = None

    def note(self, step: int, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        """Keep the losses of a step, on the device: reading them now would make the loop wait for it."""
        self.history.steps = step
        losses = {name: value.detach() for name, value in losses.items()}
        self.waiting.append((step, losses))
        return losses

    def read_losses(self) -> dict[str, float]:
        """Read the losses noted since the last reading, check them, add them up; return each one's latest."""
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
            self.schedule.step(self.latest[self.plan.metric])
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums = {}
        self.history.seconds = time.perf_counter() - self.started
        row = {"step": step, **self.latest, **means, "lr": lr, "seconds": self.history.seconds}
        self.history.rows.append(row)
        self.history.finished = self.history.ended(self.plan)
        log.info("%s", ", ".join(f"{name} {value:.6g}" for name, value in row.items()))
        self._save()
        return row

    def interrupt(self) -> None:
        """Note that Ctrl-C ended the run, and what it had come to."""
        self.history.interrupted = True
        self.history.seconds = time.perf_counter() - self.started
        log.warning(
            "interrupted after %d steps; the best model so far is that of step %s",
            self.history.steps,
            self.history.best_step,
        )

    def _evaluated(self, evaluation: Evaluation) -> dict[str, float]:
        with (
            evaluating(self.model),
            torch.no_grad(),
            torch.random.fork_rng([self.device] if self.device.type == "cuda" else []),
        ):
            metrics = {name: float(value) for name, value in evaluation(self.model).items()}
        if self.plan.metric not in metrics:
            raise ValueError(
                f"evaluate must return {self.plan.metric!r} (plan.metric), not only {list(metrics)}"
            )
        if taken := RESERVED & metrics.keys():
            raise ValueError(
                f"evaluate returned {sorted(taken)}, names of the training's own columns: rename them"
            )
        return metrics

    def _save(self) -> None:
        if improved := self.history.best_step == self.step:
            self.best = {name: value.clone() for name, value in on_cpu(self.model.state_dict()).items()}
        if self.folder is None:
            return
        done = self.history.finished and self.best is not None
        if not done:
            tensors, rest = checkpoints.training_state(self.model, self.optimizer, self.schedule, self.device)
            save_tensors(self.folder / LAST, tensors, self._header("last", self.step) | rest)
        if improved or done:
            self._save_best(self.folder)
        if done:
            (self.folder / LAST).unlink(missing_ok=True)
        self._write_table(self.folder)

    def _header(self, kind: str, step: int | None) -> dict[str, Any]:
        return {
            **self.about,
            "kind": kind,
            "step": step,
            "rows": self.history.rows,
            "metrics": self.metrics,
            "finished": self.history.finished,
            "seen": self.seen,
        }

    def _save_best(self, folder: Path) -> None:
        assert self.best is not None
        header = self._header("best", self.history.best_step) | {"config": config_of(self.model)}
        save_tensors(folder / BEST, self.best, header)

    def _go_on(self, folder: Path, keepers: Sequence[Keeper]) -> None:
        """Take up what the folder holds of this run; what it holds of none is said, and cleared."""
        try:
            found = checkpoints.read(folder / LAST, folder / BEST, self.about, self.history)
            if found is None:
                return
            state, header, best = found
            steps = header["rows"][-1]["step"]
            wrong = next(filter(None, (keeper.missing(steps) for keeper in keepers)), None)
            if wrong is None and not header["finished"] and not self._sees_the_same(header["seen"], steps):
                wrong = f"{folder} was trained on other data"
            if wrong is not None:
                raise CheckpointError(wrong)
        except CheckpointError as error:
            if isinstance(error, Foreign) and self.parts is None:
                raise  # the caller named this folder: what another run left there is not ours to remove
            log.warning("%s Training starts again.", f"{error}".rstrip(".") + ".")
            (folder / LAST).unlink(missing_ok=True)
            (folder / BEST).unlink(missing_ok=True)
            self.seen = ""
            return
        history = self.history
        history.rows, self.best, self.metrics, self.seen = (
            header["rows"],
            best,
            header["metrics"],
            header["seen"],
        )
        history.steps, history.seconds = self.step, history.rows[-1]["seconds"]
        history.finished = history.ended(self.plan)
        if state is not None:
            checkpoints.restore_training_state(
                state, header, self.model, self.optimizer, self.schedule, self.device
            )
        if best is not None:
            self._save_best(folder) if not (folder / BEST).exists() else None
        if header["finished"]:
            (folder / LAST).unlink(missing_ok=True)
        self._write_table(folder)
        log.info("%s %s at step %d", folder, "finished" if history.finished else "goes on", self.step)

    def _sees_the_same(self, seen: str | None, steps: int) -> bool:
        """Whether the batches up to a step are those that a checkpoint's run has seen."""
        for step in range(steps if seen else 0):
            self.see(self.batch_at(step))
        return not seen or self.seen == seen

    def _write_table(self, folder: Path) -> None:
        data = self.history.table.to_csv(index=False).encode()
        if not (folder / TABLE).exists() or (folder / TABLE).read_bytes() != data:
            write_atomically(folder / TABLE, data)

    def _advice(self) -> str:
        kept = f" The last checkpoint, of step {self.step}, is kept." if self.folder and self.step else ""
        return f"Try a smaller learning_rate, warmup, or clip=1.{kept}"


def _schedule(plan: Plan, optimizer: torch.optim.Optimizer) -> Any:
    schedules = torch.optim.lr_scheduler
    if plan.schedule == "plateau":
        mode: Literal["min", "max"] = "max" if plan.higher_is_better else "min"
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
