"""Training of a chapter's models in several processes at once; `ATTNLIB_PROCESSES` sets their number.

Each process trains whole models, one after another, on one thread, and saves them to the cache of models; the
notebook's own process then loads them. So the results are the same as with one process, and a run that is
killed (also by Ctrl-C) continues from its last checkpoint.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from attnlib.attended import bar

VARIABLE = "ATTNLIB_PROCESSES"


def processes() -> int:
    """The number of processes that train models: `$ATTNLIB_PROCESSES`, or 1."""
    text = os.environ.get(VARIABLE) or "1"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{VARIABLE} should be a number of processes from 1 up; got {text!r}")
    return int(text)


def train_side_by_side(chapter: Any, runs: Sequence[Any], n: int) -> None:
    """Train and save the models of a chapter's runs in at most `n` processes."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    pool = ProcessPoolExecutor(min(n, len(runs)), mp_context=context, initializer=_begin)
    try:
        jobs = {pool.submit(_train, type(chapter), chapter.model_dump(), run): run.name for run in runs}
        for job in bar(as_completed(jobs), total=len(jobs), desc=f"models, in {n} processes", mininterval=0):
            _finish(job, jobs[job])
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()  # their checkpoints are kept
        raise
    pool.shutdown()


def _finish(job: Future, name: str) -> None:
    try:
        job.result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            f"a process that trained models ended without a word, before {name!r} was done (out of memory?). "
            f"Checkpoints are kept: run again with fewer processes, or see why with {VARIABLE}=1"
        ) from error
    except Exception as error:
        error.add_note(f"while the model of {name!r} was trained")
        raise


def _begin() -> None:
    """Initialize a process: use one thread, and leave Ctrl-C to the parent process."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _train(kind: Any, parameters: dict[str, Any], run: Any) -> None:
    kind(**parameters).train(run, progress=False)
