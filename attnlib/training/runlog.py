"""Logging of a run, to the console, log.txt and TensorBoard; and the lock on its folder."""

from __future__ import annotations

import contextlib
import logging
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import nn
from tqdm.contrib.logging import logging_redirect_tqdm

from attnlib.models.base import config_of
from attnlib.places import CheckpointError, check_regular_file, in_words
from attnlib.training.plan import History, Plan

log = logging.getLogger("attnlib.training")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for one process: a second process waits, and then finds the run finished."""
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        log.warning("%s is being trained by another process; waiting for it", folder)
        lock.acquire()
    except OSError as error:
        raise CheckpointError(
            f"{folder} holds no finished run that is whole, and cannot be written to "
            f"({error.strerror or error}). Name another folder (in ATTNLIB_CACHE, if it is the cache's)."
        ) from error
    try:
        for leftover in folder.rglob("*.tmp"):  # left by a run that was killed while it saved
            if not leftover.is_dir():
                leftover.unlink()
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def logging_to(folder: str | Path | None, progress: bool) -> Iterator[None]:
    """Log to `folder/log.txt`, and with `progress` to the console unless the caller configured logging."""
    level = log.level
    with contextlib.ExitStack() as stack:
        if progress and not log.hasHandlers():
            stack.enter_context(logging_redirect_tqdm([log]))  # prints without breaking the bar
            log.handlers[-1].setLevel(logging.INFO)
        if folder is not None:
            with in_words(place := Path(folder) / "log.txt"):
                if place.exists():
                    check_regular_file(place)
                handler = logging.FileHandler(place)
            file = stack.enter_context(contextlib.closing(handler))
            file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
            log.addHandler(file)
            stack.callback(log.removeHandler, file)
        stack.callback(log.setLevel, level)
        log.setLevel(level or logging.DEBUG)
        yield


def about_run(model: nn.Module, plan: Plan, device: torch.device, batch: Any) -> str:
    """The first log message of a run: model, number of parameters, data, device, versions, plan."""
    fields = vars(batch) if hasattr(batch, "__dict__") else {}
    shapes = [f"{name} {list(part.shape)}" for name, part in fields.items() if isinstance(part, torch.Tensor)]
    lines = {
        "model": f"{type(model).__name__} {config_of(model)}",
        "parameters": f"{sum(weight.numel() for weight in model.parameters()):,}",
        "data": f"{type(batch).__name__}: {', '.join(shapes)}",
        "device": f"{device}, {torch.get_num_threads()} threads",
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}",
        "plan": str(plan.settings()),
    }
    return "a run begins or goes on\n" + "\n".join(f"  {name}: {value}" for name, value in lines.items())


class Board:
    """The TensorBoard events of a run, in `folder/tensorboard`; does nothing if `wanted` is false.

    The run starts or resumes at `step`: later events are hidden, since they will be written again.
    """

    def __init__(self, folder: Path | None, step: int, wanted: bool) -> None:
        self.writer: Any = None
        if not wanted:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ModuleNotFoundError(
                "tensorboard=True needs the package tensorboard: install it, or set tensorboard=False"
            ) from error
        place = (folder or Path()) / "tensorboard"
        with in_words(place):
            self.had_events = place.is_dir() and any(place.iterdir())
            self.writer = SummaryWriter(str(place), purge_step=step + 1)

    def write(self, step: int, values: dict[str, float]) -> None:
        """Add one point to each named curve."""
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(name, value, step)

    def write_kept(self, history: History, metrics: list[str]) -> None:
        """Write the history of a finished run, a point per evaluation, unless there are events already."""
        if self.writer is None or self.had_events:
            return
        log.info("TensorBoard's events are written from the kept history: a point per evaluation")
        for row in history.rows:
            values = {name: value for name, value in row.items() if name not in ("step", "seconds")}
            named = {
                f"evaluation/{name}" * (name in metrics) or name: value for name, value in values.items()
            }
            self.write(row["step"], named)

    def close(self) -> None:
        """Flush and close the writer."""
        if self.writer is not None:
            self.writer.close()
