"""A run as far as it has come, while another process trains it or after one was ended: nothing is trained."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from torch import nn

from attnlib.models.base import seeded
from attnlib.places import scratch_folder
from attnlib.training.keeping import Keeper
from attnlib.training.loop import Event, Hook
from attnlib.training.plan import History, Plan
from attnlib.training.run import BEST, LAST, Evaluation, Run
from attnlib.training.runlog import log


def as_it_is(
    model: nn.Module,
    plan: Plan,
    folder: Path | None,
    key: str | None,
    *,
    evaluate: Evaluation | None = None,
    hooks: Sequence[Hook] = (),
) -> History:
    """Give a model the best weights of its run's last checkpoint; `trained` says what the arguments are.

    The run's folder is neither written to nor waited for: a copy of it is read, and is the history's folder.
    The model of a run that has not begun stays as it is, which one line says.

    Returns:
        The history up to that checkpoint, `interrupted` if the run is not finished.
    """
    copy, device = scratch_folder(), plan.torch_device()
    if folder is not None and folder.is_dir():
        # Checkpoints first: what hooks had kept by then is there, and what they keep meanwhile is let be.
        # The last one before the best: a run that ends in between has the best by then.
        for name in (LAST, BEST):
            with suppress(FileNotFoundError):
                shutil.copy2(folder / name, copy)
        others = shutil.ignore_patterns(BEST, LAST, ".lock", "*.tmp")
        shutil.copytree(folder, copy, ignore=others, dirs_exist_ok=True)
    keepers = [hook for hook in hooks if isinstance(hook, Keeper)]
    with seeded(plan.seed, device):
        run = Run(model.to(device), plan, device, evaluate, copy, keepers, key)
        run.go_on("The model is taken as it was before training.")
        if run.step == 0:
            log.warning("%s has no checkpoint yet: the model is as it was before training", folder)
            for keeper in keepers:
                keeper(Event(0, model, None, {}, run.lr))
        if run.best is not None:
            model.load_state_dict(run.best)
        if not run.history.finished:
            run.interrupt()
    model.eval()
    return run.history
