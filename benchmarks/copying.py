"""How fast copiers train, beside the original's own code.

    python benchmarks/copying.py [--original FOLDER] [--record]

Steps at the original's size (hidden 256, 128 permutations of 40 symbols, Adam), in turn, on the same batches:
on one thread each, by the process's own time; and on two cores, by the clock: ours as two processes of one
thread, each with a seed of its own, the original as the one process of two threads that it is. (What else a
machine does counts there.) And steps of ten small models side by side, beside one after another. `--original`
names a copy of AttentionDynamics. That both reach the same loss from the same weights is a test
(tests/attnlib/models/test_copier.py).
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from timing import ORIGINAL, PLAIN, Way, common_options, compared, report, training

from attnlib.generators.copying import Copying
from attnlib.models.copier import Copier, CopierConfig, copying_loss

RATE = 1e-3
"""Adam's own, which the original leaves as it is."""


def ours(
    task: Copying, batch_size: int, hidden: int, seeds: tuple[int, ...], bf16: bool = False
) -> Callable[[int], None]:
    """What makes so many more steps of models side by side."""
    model = Copier(CopierConfig(task.vocabulary, hidden, seeds))
    return training(model, task.batches(batch_size, seeds), copying_loss, RATE, bf16=bf16)


def original(folder: Path, task: Copying, batch_size: int, hidden: int) -> Callable[[int], None]:
    """What makes so many more steps of the original's model."""
    sys.path.insert(0, str(folder / "SequenceCopying"))
    from seq2seq_model import Seq2seq  # type: ignore[import-not-found]

    model: Any = Seq2seq(task.vocabulary, hidden, 0, 1, False)
    adam, batch_at, steps = torch.optim.Adam(model.parameters()), task.batches(batch_size, [0]), count()

    def train(more: int) -> None:
        for _ in range(more):
            batch = batch_at(next(steps))
            model.compute_loss(batch.source[0].T, batch.target[0].T)["loss"].backward()
            adam.step()
            adam.zero_grad()

    return train


def serve(pipe: Any, threads: int, make: Callable[..., Callable[[int], None]], arguments: tuple) -> None:
    """A process that makes as many steps as it is asked for."""
    torch.set_num_threads(threads)
    train = make(*arguments)
    with suppress(EOFError):  # whoever asked has gone
        while more := pipe.recv():
            train(more)
            pipe.send("done")


@dataclass(frozen=True)
class Processes:
    """Processes that make steps at the same time: how many per second of the clock, all together."""

    count: int
    pipes: list[Any]

    @classmethod
    def start(cls, steps: int, threads: int, make: Callable, each: list[tuple]) -> Processes:
        """One process for each of the arguments."""
        context, pipes = multiprocessing.get_context("spawn"), []
        for arguments in each:
            here, there = context.Pipe()
            context.Process(target=serve, args=(there, threads, make, arguments), daemon=True).start()
            pipes.append(here)
        started = cls(steps, pipes)
        started._make(2)  # the first steps only warm up
        return started

    def _make(self, more: int) -> None:
        for pipe in self.pipes:
            pipe.send(more)
        for pipe in self.pipes:
            pipe.recv()

    def per_second(self) -> float:
        """Steps per second of all processes."""
        start = time.perf_counter()
        self._make(self.count)
        return self.count * len(self.pipes) / (time.perf_counter() - start)


def main() -> None:
    """Print steps per second of each, and their ratios."""
    parser = common_options(__doc__ or "", "AttentionDynamics")
    parser.add_argument("--steps", type=int, default=6, help="steps of each way in each of five rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    n, task, small = options.steps, Copying(40, 40), Copying(20, 20)
    sizes = (task, 128, 256)
    ways = {"": ours(*sizes, (0,), True), "in float32": ours(*sizes, (0,))}
    together = {"": Processes.start(n, 1, ours, [(*sizes, (seed,), True) for seed in (0, 1)])}
    if options.original:
        ways[ORIGINAL] = original(options.original, *sizes)
        together[ORIGINAL] = Processes.start(n, 2, original, [(options.original, *sizes)])
    beside, alone = (
        ours(small, 32, 64, tuple(range(10))),
        [ours(small, 32, 64, (seed,)) for seed in range(10)],
    )

    def one_after_another() -> None:
        for train in alone:
            train(n)

    for train in (*ways.values(), beside, *alone):
        train(1)
    timed = {name: Way(n, lambda train=train: train(n)) for name, train in ways.items()}
    first = compared("steps of a copier, one thread, bf16", timed.pop(""), timed)
    second = compared("steps of copiers, two cores, bf16, by the clock", together.pop(""), together)  # type: ignore[arg-type]
    stacked = Way(10 * n, lambda: beside(n))
    third = compared("steps of ten small ones side by side", stacked, {PLAIN: Way(10 * n, one_after_another)})
    report("copying", [first], options.record)
    report("copying_processes", [second], options.record)
    report("copying_stacked", [third], options.record)


if __name__ == "__main__":
    main()
