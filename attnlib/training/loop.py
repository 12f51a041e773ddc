"""The training loop, the same for every model of the book.

A run may be killed at any moment. When resumed, it ends with bit-identical weights (on a CPU): the data are a
pure function of the step, and the last checkpoint holds everything else that a step depends on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from attnlib.attended import bar
from attnlib.checks import check
from attnlib.models.base import seeded
from attnlib.training.keeping import Keeper
from attnlib.training.plan import History, Plan
from attnlib.training.run import Evaluation, Run
from attnlib.training.runlog import Board, about_run, locked, log, logging_to

Loss = Callable[[nn.Module, Any], Tensor | dict[str, Tensor]]


@dataclass(frozen=True)
class Event:
    """The argument of a hook, which is called just after an update of the weights.

    Attributes:
        step: updates made so far: 1 after the first; 0 before it (see `also_before`).
        model: the model with its new weights; `p.grad` still holds the (clipped) gradient of the update.
        batch: the batch of the update; `None` at step 0.
        losses: what `loss` returned for this batch, detached, still on the device; empty at step 0.
        lr: the learning rate of the update.
    """

    step: int
    model: nn.Module
    batch: Any
    losses: dict[str, Tensor]
    lr: float


Hook = Callable[[Event], object]


def also_before(hook: Hook) -> Hook:
    """Mark a hook to be called before training, too, at step 0; usable as a decorator."""
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
    key: str | None = None,
) -> History:
    """Train `model` as `plan` says; at the end it has its best weights, and is in evaluation mode.

    Step $s$ = 0, 1, ..., `plan.steps` - 1 does, in this order:

    1. `batch = batch_at(s).to(device)`;
    2. `loss(model, batch)` with the model in training mode;
    3. old gradients are dropped, new ones computed;
    4. the gradients are clipped, if `plan.clip` is not 0;
    5. the optimizer updates the weights;
    6. the learning-rate schedule makes a step (all schedules but "plateau");
    7. each of `hooks`, in order, is called with an `Event` whose `step` is $s + 1$: the updates made so far;
    8. when $s + 1$ is a multiple of `plan.evaluate_every`, and after the last step: `evaluate(model)` in
       evaluation mode, without gradients and without touching the random numbers of training; the "plateau"
       schedule reads the metric; a row is added to the history; `last.safetensors` (the checkpoint to resume
       from) and `history.csv` are written; the run ends if `plan.stop_at` has been met. At the end,
       `best.safetensors`, with the best weights and the history, replaces `last.safetensors`.

    Hooks marked by `also_before` are also called before the first step, with step 0. A resumed run calls
    hooks only for the steps after its checkpoint. A hook that collects values should therefore be a `Keeper`,
    which writes them to the run's folder.

    Ctrl-C ends the run early: the best model so far is loaded, `interrupted` is set in the history, and the
    same call later resumes from the last evaluation.

    Args:
        model: changed in place, and moved to the plan's device.
        batch_at: returns the batch of a step; must be a pure function, so that a resumed run is exact.
        loss: returns a scalar, or a dictionary of scalars of which "loss" is minimised and all are logged.
        plan: how to train.
        evaluate: returns named values, `plan.metric` among them. Without it the latest model is the best.
        folder: where checkpoints, history.csv, log.txt and TensorBoard's events go. If it already holds a run
            with the same plan and model, that run is resumed; if it is finished, its best model is loaded,
            and nothing is computed or written. If a file there is damaged, a warning says so, and the run
            starts again. `None`: nothing is written.
        hooks: called with an `Event` after every step.
        progress: show a bar and a line per evaluation.
        key: the cache key of the run, as `trained` computes it. The folder then belongs to this key: another
            run in it gives a warning and is replaced. By default a run is identified by its plan and model.

    Returns:
        The history of the run, including what happened before it was resumed.

    Raises:
        CheckpointError: the folder holds another run, or cannot be written to (disk full, rights).
        FloatingPointError: the loss or a weight is no longer finite; the last checkpoint is kept.
        ValueError: the arguments do not fit each other, or `loss` or `evaluate` returns something else.
    """
    needed = plan.schedule == "plateau" or plan.stop_at is not None
    check(evaluate or not needed, 'evaluate must be given for schedule="plateau" and stop_at', evaluate)
    check(folder is not None or not plan.tensorboard, "folder must be given for tensorboard=True", folder)
    device, bf16 = plan.torch_device(), plan.precision == "bf16"
    folder = None if folder is None else Path(folder)
    with contextlib.ExitStack() as stack:
        # Random states are restored at the end: the caller's later draws do not depend on this run.
        stack.enter_context(seeded(plan.seed, device))
        keepers = [hook for hook in hooks if isinstance(hook, Keeper)]
        run = Run(model.to(device), plan, device, evaluate, folder, keepers, key)
        done = not plan.tensorboard and run.load_if_finished()
        if folder is not None and not done:
            stack.enter_context(locked(folder))
        stack.enter_context(logging_to(None if done else folder, progress))
        if not done:
            run.go_on()
        board = stack.enter_context(contextlib.closing(Board(folder, run.step, plan.tensorboard)))
        steps = range(run.step, 0 if run.history.ended(plan) else plan.steps)
        if not steps:
            board.write_kept(run.history, run.metrics)
        shown: tqdm = stack.enter_context(
            bar(shown=progress and bool(steps), initial=run.step, total=plan.steps, mininterval=0.5)
        )
        weights = list(model.parameters())
        model.train()
        try:
            for hook in hooks:
                if run.step == 0 and getattr(hook, "before", False):
                    hook(Event(0, model, None, {}, run.lr))
            for step in steps:
                batch = batch_at(step)
                if step == steps.start:
                    log.debug("%s", about_run(model, plan, device, batch))
                batch = batch.to(device)
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
                shown.update()
                if (step + 1) % plan.log_every == 0:
                    latest = run.read_losses()
                    shown.set_postfix(run.latest | {"loss": latest["loss"]}, refresh=False)
                    board.write(step + 1, latest | {"lr": lr})
                if (step + 1) % plan.evaluate_every == 0 or step + 1 == plan.steps:
                    row = run.evaluate(step + 1, lr)
                    board.write(step + 1, {f"evaluation/{name}": row[name] for name in run.metrics})
                    if run.history.ended(plan):
                        break
        except KeyboardInterrupt:
            run.interrupt()
        except Exception as error:
            log.error("stopped at step %d: %s: %s", run.history.steps, type(error).__name__, error)
            raise
        if run.best is not None:
            model.load_state_dict(run.best)
        model.eval()
    return run.history


def _named(result: Any) -> dict[str, Tensor]:
    losses = result if isinstance(result, dict) else {"loss": result}
    scalars = all(isinstance(each, Tensor) and not each.ndim for each in losses.values())
    if "loss" not in losses or not scalars:
        check(False, 'loss must be a scalar tensor, or a dictionary of such with "loss" among them', losses)
    return losses
