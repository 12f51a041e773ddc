"""One training loop for every model of the book, in the order a reader would write it.

It can be killed at any moment and goes on to bit-identical weights (on a CPU), because the data are a pure
function of the step and because everything else that a step depends on is in the last checkpoint.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from tqdm import tqdm

from attnlib.files import CheckpointError, load_tensors, save_tensors, write_atomically
from attnlib.models.attention import evaluating
from attnlib.models.saving import as_json, config_of
from attnlib.training import checkpoints
from attnlib.training.checkpoints import check_same
from attnlib.training.plan import History, Plan
from attnlib.training.runlog import Board, locked, log, logging_to

LAST, BEST, TABLE = "last.safetensors", "best.safetensors", "history.csv"
RESERVED = {"step", "loss", "lr", "seconds"}

Loss = Callable[[nn.Module, Any], Tensor | dict[str, Tensor]]
Evaluation = Callable[[nn.Module], dict[str, float]]


@dataclass(frozen=True)
class Event:
    """What a hook sees, just after an update of the weights.

    Attributes:
        step: updates made so far: 1 after the first; 0 before it (see `also_before`).
        model: with the new weights; `p.grad` still holds the gradient that changed them (after clipping).
        batch: what the update was made from; `None` at step 0.
        losses: what `loss` returned for it, detached, still on the device; empty at step 0.
        lr: the learning rate of the update.
    """

    step: int
    model: nn.Module
    batch: Any
    losses: dict[str, Tensor]
    lr: float


Hook = Callable[[Event], object]


def also_before(hook: Hook) -> Hook:
    """Mark a hook that also wants to see the model before training, at step 0; usable as a decorator."""
    hook.before = True  # type: ignore[attr-defined]
    return hook


def fit(
    model: nn.Module,
    batch_at: Callable[[int], Any],
    loss: Loss,
    plan: Plan,
    *,
    evaluate: Evaluation | None = None,
    folder: str | Path | None = None,
    hooks: Sequence[Hook] = (),
    progress: bool = True,
) -> History:
    """Train `model` as `plan` says; at the end it has its best weights, and is in evaluation mode.

    Step $s$ = 0, 1, ..., `plan.steps` - 1 does, in this order:

    1. `batch = batch_at(s).to(device)`;
    2. `loss(model, batch)` with the model in training mode;
    3. old gradients are dropped, new ones computed;
    4. they are clipped, if `plan.clip`;
    5. the optimizer updates the weights;
    6. the learning rate moves on (all schedules but "plateau");
    7. each of `hooks`, in order, is called with an `Event` whose `step` is $s + 1$: the updates made so far;
    8. when $s + 1$ is a multiple of `plan.evaluate_every`, and after the last step: `evaluate(model)` in
       evaluation mode, without gradients and without touching the random numbers of training; the "plateau"
       schedule looks at the metric; a row is added to the history; `last`, then (if this is the best so
       far) `best`, then `history.csv` are written; the run ends if `plan.stop_at` has been met.

    Hooks marked by `also_before` are called once more before all that, with step 0. A run that goes on from
    a checkpoint calls hooks for the steps after it, so one that collects should write to disk by itself.

    Ctrl-C ends the run early but well: the best model so far is loaded, `interrupted` is set, and the same
    call goes on from the last evaluation another day.

    Args:
        model: changed in place, and moved to the plan's device.
        batch_at: the data, a pure function of the step: that is what makes a resumed run exact.
        loss: returns a scalar, or a dictionary of scalars of which "loss" is minimised and all are logged.
        plan: how to train.
        evaluate: returns named values, `plan.metric` among them. Without it the latest model is the best.
        folder: where checkpoints, history.csv, log.txt and TensorBoard's events go. If it already holds a run
            with the same plan and model, that run goes on; if it is finished, its best model is loaded and
            nothing is computed. `None`: nothing is written.
        hooks: called with an `Event` after every step.
        progress: show a bar and a line per evaluation.

    Returns:
        The history of the run, including what happened before it was resumed.

    Raises:
        CheckpointError: a checkpoint is damaged, belongs to another run, or cannot be written (disk full).
        FloatingPointError: the loss or a weight is no longer finite; the last checkpoint is kept.
        ValueError: the arguments do not fit each other.
    """
    if evaluate is None and (plan.schedule == "plateau" or plan.stop_at is not None):
        raise ValueError('schedule="plateau" and stop_at need evaluate=..., which returns the metric')
    if plan.tensorboard and folder is None:
        raise ValueError("tensorboard=True needs folder=..., where the events go")
    device, bf16 = plan.torch_device(), plan.precision == "bf16"
    folder = None if folder is None else Path(folder)
    with contextlib.ExitStack() as stack:
        # Whatever the caller draws from torch's generators later does not depend on this run.
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        if folder is not None:
            stack.enter_context(locked(folder))
        stack.enter_context(logging_to(folder, progress))
        run = _Run(model.to(device), plan, device, evaluate, folder)
        board = stack.enter_context(contextlib.closing(Board(folder, run.step, plan.tensorboard)))
        steps = range(run.step, 0 if run.history.ended(plan) else plan.steps)
        bar = stack.enter_context(
            tqdm(initial=run.step, total=plan.steps, disable=not (progress and steps), mininterval=0.5)
        )
        weights = list(model.parameters())
        model.train()
        try:
            for hook in hooks:
                if run.step == 0 and getattr(hook, "before", False):
                    hook(Event(0, model, None, {}, run.lr))
            for step in steps:
                batch = batch_at(step).to(device)
                with torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext():
                    losses = _named(loss(model, batch))
                run.optimizer.zero_grad()
                losses["loss"].backward()
                if plan.clip:
                    nn.utils.clip_grad_norm_(weights, plan.clip)
                run.optimizer.step()
                lr = run.lr
                if run.schedule is not None and plan.schedule != "plateau":
                    run.schedule.step()
                losses = run.note(step + 1, losses)
                if hooks:
                    event = Event(step + 1, model, batch, losses, lr)
                    for hook in hooks:
                        hook(event)
                bar.update()
                if (step + 1) % plan.log_every == 0:
                    latest = run.read_losses()
                    bar.set_postfix(run.metrics | {"loss": latest["loss"]}, refresh=False)
                    board.write(step + 1, latest | {"lr": lr})
                if (step + 1) % plan.evaluate_every == 0 or step + 1 == plan.steps:
                    row = run.evaluate(step + 1, lr)
                    board.write(step + 1, {f"evaluation/{name}": row[name] for name in run.metrics})
                    if run.history.ended(plan):
                        break
        except KeyboardInterrupt:
            run.history.interrupted = True
            log.warning("interrupted; the best model so far is that of step %s", run.history.best_step)
        if run.best is not None:
            model.load_state_dict(run.best)
        model.eval()
    return run.history


class _Run:
    """What a run carries from step to step, and how it gets to disk and back."""

    def __init__(
        self,
        model: nn.Module,
        plan: Plan,
        device: torch.device,
        evaluation: Evaluation | None,
        folder: Path | None,
    ) -> None:
        self.model, self.plan, self.device = model, plan, device
        self.evaluation, self.folder = evaluation, folder
        self.settings = as_json({**plan.settings(), "evaluate": evaluation is not None})
        self.identity = checkpoints.identity(model)
        make = torch.optim.AdamW if plan.optimizer == "adamw" else torch.optim.Adam
        self.optimizer = make(
            model.parameters(), plan.learning_rate, plan.betas, weight_decay=plan.weight_decay, fused=True
        )
        self.schedule = _schedule(plan, self.optimizer)
        self.history = History([], plan.metric if evaluation else None, plan.higher_is_better)
        self.best: dict[str, Tensor] | None = None
        self.metrics: dict[str, float] = {}
        self.waiting: list[tuple[int, dict[str, Tensor]]] = []
        self.sums: dict[str, tuple[float, int]] = {}
        torch.manual_seed(plan.seed)
        if folder is not None and (folder / LAST).exists():
            self._restore(folder)
        self.started = time.perf_counter() - (self.history.rows[-1]["seconds"] if self.step else 0.0)

    @property
    def step(self) -> int:
        """Updates made up to the last checkpoint."""
        return self.history.rows[-1]["step"] if self.history.rows else 0

    @property
    def lr(self) -> float:
        """The learning rate of the next update."""
        return self.optimizer.param_groups[0]["lr"]

    def note(self, step: int, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        """Keep the losses of a step, on the device: reading them now would make the loop wait for it."""
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
        if not all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
            raise FloatingPointError(f"a weight is not finite after step {step}. {self._advice()}")
        if self.evaluation is not None:
            self.metrics = self._metrics(self.evaluation)
        if self.plan.schedule == "plateau" and self.schedule is not None:
            self.schedule.step(self.metrics[self.plan.metric])
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums = {}
        row = {"step": step, **self.metrics, **means, "lr": lr, "seconds": time.perf_counter() - self.started}
        self.history.rows.append(row)
        log.info("%s", ", ".join(f"{name} {value:.6g}" for name, value in row.items()))
        self._save()
        return row

    def _metrics(self, evaluation: Evaluation) -> dict[str, float]:
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
            self._keep_best()
        if self.folder is None:
            return
        tensors, rest = checkpoints.training_state(self.model, self.optimizer, self.schedule, self.device)
        header = {"plan": self.settings, "model": self.identity, "rows": self.history.rows, **rest}
        save_tensors(self.folder / LAST, tensors, header)
        if improved:
            self._save_best(self.folder)
        self._write_table(self.folder)

    def _keep_best(self) -> None:
        self.best = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}

    def _save_best(self, folder: Path) -> None:
        assert self.best is not None
        header = {"config": config_of(self.model), "step": self.history.best_step}
        save_tensors(folder / BEST, self.best, header)

    def _restore(self, folder: Path) -> None:
        tensors, header = load_tensors(folder / LAST)
        check_same(folder / LAST, header["plan"], self.settings, "plan")
        check_same(folder / LAST, header["model"], self.identity, "model")
        checkpoints.restore_training_state(
            tensors, header, self.model, self.optimizer, self.schedule, self.device
        )
        self.history.rows = header["rows"]
        if self.history.best_step is not None:
            self._restore_best(folder, self.history.best_step)
        self._write_table(folder)
        ended = "finished" if self.history.ended(self.plan) else "goes on"
        log.info("%s %s at step %d", folder, ended, self.step)

    def _restore_best(self, folder: Path, step: int) -> None:
        if (folder / BEST).exists():
            self.best, header = load_tensors(folder / BEST)
            if header["step"] == step:
                return
        if step != self.step:
            raise CheckpointError(
                f"{folder / BEST} is missing, or not of step {step}, the best of this run. "
                f"Delete {folder} to start afresh."
            )
        # Killed between writing `last` and `best`: what `last` holds is the best.
        self._keep_best()
        self._save_best(folder)

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
            optimizer, mode, factor=plan.gamma, patience=plan.plateau_patience, threshold=0.0
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


def _named(result: Tensor | dict[str, Tensor]) -> dict[str, Tensor]:
    if isinstance(result, Tensor):
        return {"loss": result}
    if "loss" not in result:
        raise ValueError(
            f'the loss function must return a scalar, or a dictionary with "loss", not {list(result)}'
        )
    return result
