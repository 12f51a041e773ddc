"""Where trained models are kept."""

from __future__ import annotations

import functools
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from attnlib.files import CheckpointError, cache_folder
from attnlib.training.keeping import Keeper, load_own
from attnlib.training.key import Unreadable, digest, fingerprint_parts
from attnlib.training.loop import Hook, Loss, fit
from attnlib.training.plan import History, Plan
from attnlib.training.run import BEST
from attnlib.training.runlog import log

_SCRATCH: list[tempfile.TemporaryDirectory] = []
"""Folders of runs that cannot be kept; they go with the process."""


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

    What "the same" is, is found in the arguments themselves: see `key.fingerprint_parts`. A model is
    kept in `$ATTNLIB_CACHE/<chapter>/<fingerprint>`, or where this system keeps caches. Of what cannot be
    read (a function typed at a prompt, say) nothing can be known again: then one line says so, and the model
    is trained at every call. From a folder that cannot be written to, a finished run is read, and nothing is
    written.

    Args:
        model: its weights are those to begin with; changed in place; at the end it has its best weights, is
            in evaluation mode and on the plan's device.
        batches: the data, a pure function of the step.
        loss: see `fit`.
        plan: how to train.
        chapter: whose model it is: the name of the folder. `None`: it is not kept.
        valid: the batches to score the model on as `plan.evaluate_every` says.
        score: called with the model and these; returns named values, `plan.metric` among them.
        hooks: see `fit`. Only those that say what was `asked` of them may change the model. `Snapshots`, and
            others that keep files, find them again when the run is loaded; others are not called then.
        progress: show a bar and a line per evaluation.

    Returns:
        The history of the run, which also knows how long it took if it was only loaded.

    Raises:
        ValueError: only one of `valid` and `score` is given; see also `fit`.
        CheckpointError: the model's folder cannot be written to, and holds no finished run; see also `fit`.
    """
    if (valid is None) != (score is None):
        raise ValueError("valid and score go together: what to score the model on, and how")
    _end_with_parent()
    how: dict[str, Any] = {"hooks": hooks, "progress": progress}
    if score is not None and valid is not None:
        how["evaluate"] = lambda model: score(model, valid)
    if chapter is None:
        return fit(model, batches, loss, plan, **how)
    try:
        parts = fingerprint_parts(model, batches, loss, plan, valid=valid, score=score, hooks=hooks)
        folder = caches() / chapter / digest(parts)[:16]
    except Unreadable as error:
        log.warning("this model is not kept, and is trained at every call: %s", error)
        _SCRATCH.append(tempfile.TemporaryDirectory())
        parts, folder = None, Path(_SCRATCH[-1].name)
    if parts is not None and (refused := unwritable(folder, ".lock", "log.txt")):
        try:
            return read_finished(folder, parts, model, plan, score is not None, hooks)
        except (CheckpointError, OSError) as error:
            raise CheckpointError(
                f"{folder} cannot be written to ({refused}), and the finished model is not there to be read: "
                f"{str(error).rstrip('.')}. Name another folder in ATTNLIB_CACHE, and make the same call "
                "again."
            ) from error
    return fit(model, batches, loss, plan, folder=folder, parts=parts, **how)


@functools.cache
def _end_with_parent() -> None:
    """Let a process that trains for another end when that one is killed: it would train on, and then wait."""

    def watch(parent: Any) -> None:
        parent.join()
        os._exit(1)

    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=watch, args=(parent,), daemon=True).start()


def unwritable(folder: Path, *names: str) -> str | None:
    """Why a folder cannot be made or written to, in the system's words; `None` if it can.

    Args:
        folder: which; it is made if it is not there.
        names: of files that are written to in place, if they are there.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)  # also in the cache the system's words
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return error.strerror or str(error)
    foreign = [name for name in names if (folder / name).exists() and not os.access(folder / name, os.W_OK)]
    return f"{foreign[0]} is another user's" if foreign else None


def read_finished(
    folder: Path,
    parts: Mapping[str, str],
    model: nn.Module,
    plan: Plan,
    evaluated: bool,
    hooks: Sequence[Hook] = (),
) -> History:
    """What `fit` gives of a run that is finished, without writing to its folder.

    Args:
        folder: of the run.
        parts: what it is known by; see `fingerprint_parts`.
        model: gets the run's best weights; at the end it is in evaluation mode and on the plan's device.
        plan: of the run.
        evaluated: whether the plan's metric decided which weights are best.
        hooks: those that keep files find them again.

    Raises:
        CheckpointError: the run is not finished, or a file of it is missing or damaged.
        OSError: a file cannot be read.
    """
    run = digest(dict(parts))
    best, header = load_own(folder / BEST, run, kind="best")
    if not header["finished"]:
        raise CheckpointError(f"{folder / BEST} is of a training that was not finished")
    rows = header["rows"]
    keepers = [hook for hook in hooks if isinstance(hook, Keeper)]
    for keeper in keepers:
        keeper.join(folder, run, model)
    if wrong := next(filter(None, (keeper.missing(rows[-1]["step"]) for keeper in keepers)), None):
        raise CheckpointError(wrong)
    model.to(plan.torch_device()).eval()
    model.load_state_dict(best)
    metric = plan.metric if evaluated else None
    history = History(rows, metric, plan.higher_is_better, steps=rows[-1]["step"], folder=folder)
    history.seconds, history.finished = rows[-1]["seconds"], True
    return history


class CachePath(type(Path())):  # type: ignore[misc]  # Python 3.11 knows no other way to inherit from a path
    """A place in the cache: where its folder cannot be made, the error says which variable names another."""

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """As of any path.

        Raises:
            CheckpointError: the system refuses.
            FileExistsError: as of any path.
        """
        try:
            Path(self).mkdir(mode, parents, exist_ok)
        except FileExistsError:
            raise
        except OSError as error:
            raise CheckpointError(
                f"{self} is to be made, and cannot be ({error.strerror or error}). Name another folder in "
                "ATTNLIB_CACHE, and make the same call again."
            ) from error


def caches() -> Path:
    """Where trained models are kept; see `cache_folder`."""
    return CachePath(cache_folder())
