"""Models of a chapter trained in several processes at once: `ATTNLIB_PROCESSES` says in how many.

Each process trains whole models, one after another, on one thread, and leaves them where models are kept; the
notebook's own process then loads them. So the numbers are those of one process, and a run that is killed, by
Ctrl-C too, goes on from its last checkpoint.
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
    """In how many processes models are to be trained: `$ATTNLIB_PROCESSES`, or 1."""
    text = os.environ.get(VARIABLE) or "1"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{VARIABLE} should be a number of processes from 1 up; got {text!r}")
    return int(text)


def train_side_by_side(chapter: Any, runs: Sequence[Any], n: int) -> None:
    """Have the models of a chapter's runs trained by `n` processes, and kept."""
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
            child.terminate()  # what they have trained so far is kept
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
    """What a process does first: one thread, and Ctrl-C is its parent's to answer."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _train(kind: Any, parameters: dict[str, Any], run: Any) -> None:
    kind(**parameters).train(run, progress=False)
