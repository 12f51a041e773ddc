"""The cache of trained models: `trained` trains a model, or loads it if it was trained before."""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from attnlib.checks import check
from attnlib.files import cache_folder
from attnlib.places import scratch_folder
from attnlib.training.key import Unreadable, digest, key_parts
from attnlib.training.loop import Hook, Loss, fit
from attnlib.training.plan import History, Plan
from attnlib.training.runlog import log


def trained(
    model: nn.Module,
    batches: Callable[[int], Any],
    loss: Loss,
    plan: Plan,
    *,
    chapter: str | None,
    valid: Sequence[Any] | None = None,
    score: Callable[[nn.Module, Sequence[Any]], dict[str, float]] | None = None,
    hooks: Sequence[Hook] = (),
    progress: bool = True,
) -> History:
    """Train a model by `fit`, or load it if the same one was trained before.

    Two runs are the same if their cache keys are equal. The cache key is a hash of the arguments and of the
    code (see `attnlib.training.key`). A model is cached in `<cache>/<chapter>/<key>`, where `<cache>` is
    `$ATTNLIB_CACHE`, or else the system's folder for caches. If an argument cannot be hashed, a warning says
    so, and the model is trained at every call. A finished run is also loaded from a read-only folder.

    Args:
        model: the model, with its initial weights; changed in place. At the end it has its best weights, is
            in evaluation mode and on the plan's device.
        batches: returns the batch of a step; must be a pure function of the step.
        loss: see `fit`.
        plan: how to train.
        chapter: the chapter that the model belongs to, which names its folder. `None`: it is not cached.
        valid: the batches to evaluate the model on, every `plan.evaluate_every` steps.
        score: called with the model and `valid`; returns named values, `plan.metric` among them.
        hooks: see `fit`. Only hooks with a `cache_key` may change the model. When the run is loaded, hooks
            that keep files, such as `Snapshots`, find their files again; other hooks are not called.
        progress: show a bar and a line per evaluation.

    Returns:
        The history of the run. If the run was loaded, it still says how long training took.

    Raises:
        ValueError: only one of `valid` and `score` is given; see also `fit`.
        CheckpointError: see `fit`.
    """
    check((valid is None) == (score is None), "valid and score must both be given, or neither", score)
    _end_with_parent()
    how: dict[str, Any] = {"hooks": hooks}
    if score is not None and valid is not None:
        how["evaluate"] = lambda model: score(model, valid)
    if chapter is None:
        return fit(model, batches, loss, plan, progress=progress, **how)
    try:
        key = digest(key_parts(model, batches, loss, plan, valid=valid, score=score, hooks=hooks))
        folder = cache_folder() / chapter / key[:16]
    except Unreadable as error:
        log.warning("this model is not cached, and is trained at every call: %s", error)
        key, folder = None, scratch_folder()
    return fit(model, batches, loss, plan, folder=folder, key=key, progress=progress, **how)


@functools.cache
def _end_with_parent() -> None:
    """End this process when its parent process is killed: else it would train on, and then wait forever."""

    def watch(parent: Any) -> None:
        parent.join()
        os._exit(1)

    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=watch, args=(parent,), daemon=True).start()
