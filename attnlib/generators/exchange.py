"""The same text with another right answer: what its answer comes from is exchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

TRIES = 40
"""How many texts are drawn before it is taken that there is none."""


def exchanged_text(
    text: str,
    place: int,
    keys: Sequence[int],
    rng: np.random.Generator,
    redrawn: Callable[[str, Sequence[int], np.random.Generator], str | None],
    right: Callable[[str], str],
) -> str | None:
    """A text as long as this one with other characters at `keys`, and so with another one at `place`.

    First all of the keys are exchanged, and where that gives no text of the task, some of them. `redrawn`
    puts other characters at keys, the answer not yet right, or gives `None`; `right` is what the task makes
    of such a text, or a `ValueError` if it is none of the task.
    """
    for attempt in range(TRIES):
        chosen = [key for key in keys if attempt < TRIES // 4 or rng.random() < 0.5]
        drawn = redrawn(text, chosen, rng) if chosen else None
        if drawn is None:
            continue
        try:
            found = right(drawn)
        except ValueError:  # no text of the task, such as 0 in front of a number
            continue
        if len(found) == len(text) and found[place] != text[place]:
            return found
    return None


def with_others(text: str, allowed: Mapping[int, str], rng: np.random.Generator) -> str:
    """The text with other characters at some places, each one of those allowed there."""
    others = {place: other_of(characters, text[place], rng) for place, characters in allowed.items()}
    return "".join(others.get(place, each) for place, each in enumerate(text))


def other_of(allowed: str, character: str, rng: np.random.Generator) -> str:
    """Another of the characters that are allowed; the same one if there is none."""
    others = [each for each in allowed if each != character] or [character]
    return others[rng.integers(len(others))]
