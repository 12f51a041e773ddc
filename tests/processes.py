"""Whether processes have ended."""

import time
from collections.abc import Iterable
from contextlib import suppress

import psutil


def all_end(processes: Iterable[psutil.Process], seconds: float = 60) -> bool:
    """Whether all end in time; one that nobody has asked for its exit status yet has ended, too."""
    end, alive = time.monotonic() + seconds, list(processes)
    while (alive := [process for process in alive if not _ended(process)]) and time.monotonic() < end:
        time.sleep(0.1)
    return not alive


def _ended(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True
