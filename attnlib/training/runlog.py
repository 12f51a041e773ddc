"""Where a run leaves word of itself: console, log.txt, TensorBoard; and the lock on its folder."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from tqdm import tqdm

log = logging.getLogger("attnlib.training")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one run at a time into a folder: a second one waits, and then finds the work done."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.warning("%s is being trained by another process; waiting for it", folder)
        lock.acquire()
    try:
        for leftover in folder.glob("*.tmp"):  # of a run that was killed while it saved
            leftover.unlink()
        yield
    finally:
        lock.release()


class _AboveBar(logging.Handler):
    """Prints without breaking the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=sys.stderr)


@contextlib.contextmanager
def logging_to(folder: str | Path | None, progress: bool) -> Iterator[None]:
    """Log to `folder/log.txt`, and to the console unless the caller has set logging up by itself."""
    handlers: list[logging.Handler] = []
    if folder is not None:
        handlers.append(logging.FileHandler(Path(folder) / "log.txt"))
        handlers[0].setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    if progress and not log.hasHandlers():
        handlers.append(_AboveBar())
    level = log.level
    log.setLevel(level or logging.INFO)
    for handler in handlers:
        log.addHandler(handler)
    try:
        yield
    finally:
        log.setLevel(level)
        for handler in handlers:
            log.removeHandler(handler)
            handler.close()


class Board:
    """TensorBoard's events of a run, in `folder/tensorboard`; does nothing if `wanted` is false.

    Args:
        folder: of the run.
        step: where the run starts or goes on: events after it are hidden, as they will be written again.
        wanted: whether to write at all.

    Raises:
        ModuleNotFoundError: tensorboard is not installed.
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
        self.writer = SummaryWriter(str(folder and folder / "tensorboard"), purge_step=step + 1)

    def write(self, step: int, values: dict[str, float]) -> None:
        """Add one point to each named curve."""
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close."""
        if self.writer is not None:
            self.writer.close()
