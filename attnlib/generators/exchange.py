"""Counterfactual texts: characters that an answer depends on are replaced, so that the answer changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

TRIES = 40
"""How many texts are drawn before the search gives up."""


def exchanged_text(
    text: str,
    place: int,
    keys: Sequence[int],
    rng: np.random.Generator,
    redrawn: Callable[[str, Sequence[int], np.random.Generator], str | None],
    right: Callable[[str], str],
) -> str | None:
    """A text of the same length with other characters at `keys` and, as a result, another one at `place`.

    The first tries replace all keys, later ones a random half. `redrawn(text, keys, rng)` replaces the
    characters and leaves the answer stale, or returns `None`. `right` corrects the answer, or raises
    `ValueError` if the text does not belong to the task. The result is `None` if every try fails.
    """
    for attempt in range(TRIES):
        chosen = [key for key in keys if attempt < TRIES // 4 or rng.random() < 0.5]
        drawn = redrawn(text, chosen, rng) if chosen else None
        if drawn is None:
            continue
        try:
            found = right(drawn)
        except ValueError:  # not a text of the task: for example, a number with a leading 0
            continue
        if len(found) == len(text) and found[place] != text[place]:
            return found
    return None


def with_others(text: str, allowed: Mapping[int, str], rng: np.random.Generator) -> str:
    """The text with another character at each place in `allowed`, drawn from those allowed there."""
    others = {place: other_of(characters, text[place], rng) for place, characters in allowed.items()}
    return "".join(others.get(place, each) for place, each in enumerate(text))


def other_of(allowed: str, character: str, rng: np.random.Generator) -> str:
    """A random allowed character other than this one; the same one if there is no other."""
    others = [each for each in allowed if each != character] or [character]
    return others[rng.integers(len(others))]
