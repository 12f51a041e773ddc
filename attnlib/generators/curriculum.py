"""Curricula: batches of one stage of training after those of another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeVar

Batch = TypeVar("Batch")
"""Whatever a stage trains on."""


def in_stages(stages: Sequence[tuple[int, Callable[[int], Batch]]]) -> Callable[[int], Batch]:
    """The batch of every training step, from the stage that the step is in.

    Every stage is asked for the batch of the step as training counts it. So no two stages draw from the same
    random numbers, and with one stage alone the batches are its own.

    Args:
        stages: how many steps each lasts, and its batches by step. The last goes on for as long as training.

    Raises:
        ValueError: there are none, or one lasts less than no time.
    """
    if not stages or any(steps < 0 for steps, _ in stages):
        raise ValueError(
            f"a curriculum should have a stage or more, each of 0 steps or more; got steps "
            f"{[steps for steps, _ in stages]}"
        )
    ends = list(accumulate(steps for steps, _ in stages[:-1]))

    def batch_at(step: int) -> Batch:
        return stages[bisect_right(ends, step)][1](step)

    return batch_at
