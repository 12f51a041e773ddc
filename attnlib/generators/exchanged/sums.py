"""Problems of arithmetic with other digits where a digit of the answer comes from."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from attnlib.generators.arithmetic import Arithmetic
from attnlib.generators.base import Sample

TRIES = 40
"""How many problems are drawn before it is taken that there is none."""


def exchanged_problem(
    task: Arithmetic, text: str, place: int, keys: Sequence[int], rng: np.random.Generator
) -> Sample | None:
    """A problem as long as this one with other digits at `keys`, and so with another answer at `place`.

    First all of the keys are exchanged, and where that gives no problem as long, some of them. What was
    written of the answer before `place` becomes what it has to be.

    Args:
        task: of the problem.
        text: with its answer.
        place: the character of the answer that is to be another.
        keys: digits that it is made of.
        rng: draws the others.

    Example:
        >>> from attnlib.generators.arithmetic import arithmetic
        >>> other = exchanged_problem(arithmetic("+"), "12+34=46", 7, [1, 4], np.random.default_rng(0)).text
        >>> other[0], other[3], other[7] != "6"
        ('1', '3', True)
    """
    for attempt in range(TRIES):
        chosen = [key for key in keys if attempt < TRIES // 4 or rng.random() < 0.5]
        others = {key: string.digits.replace(text[key], "")[rng.integers(9)] for key in chosen}
        drawn = "".join(others.get(at, each) for at, each in enumerate(text))
        try:
            found = task.annotate(drawn.partition("=")[0] + "=")
        except ValueError:  # no problem of the task, such as 0 in front of a number
            continue
        if len(found.text) == len(text) and found.text[place] != text[place]:
            return found
    return None
