"""Other texts of the same form: as long, with the same separators at the same places, and another answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


def form(text: str) -> str:
    """The form of a text: what is left of it when all letters and digits are the same.

    Example:
        >>> form("1240+4335=5575")
        'xxxx+xxxx=xxxx'
    """
    return re.sub(r"\w", "x", text)


class Alike(Generic[T]):
    """Things sorted by their form, to draw one of the same form from.

    Args:
        every: the things.
        form: of each.
    """

    def __init__(self, every: Iterable[T], form: Callable[[T], Hashable]) -> None:
        self.by_form = dict[Hashable, list[T]]()
        for each in every:
            self.by_form.setdefault(form(each), []).append(each)

    def draw(self, form: Hashable, fits: Callable[[T], bool], rng: np.random.Generator) -> T | None:
        """One of a form that fits, or None if there is none."""
        found: Sequence[T] = [each for each in self.by_form.get(form, []) if fits(each)]
        return found[int(rng.integers(len(found)))] if found else None
