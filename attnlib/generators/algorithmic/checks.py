"""What settings of the tasks must be, and what a person is told if they are not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def bounds(name: str, value: Any, lowest: int, highest: int | None = None, why: str = "") -> tuple[int, int]:
    """A range whose ends are both included, as the pair it should be.

    Raises:
        ValueError: it is not a pair of whole numbers, upside down, or goes too far; `why` is added.
    """
    whole = isinstance(value, Sequence) and [
        isinstance(end, int | np.integer) and not isinstance(end, bool) for end in value
    ] == [True, True]
    if not whole or not lowest <= value[0] <= value[1] or (highest is not None and value[1] > highest):
        limit = "" if highest is None else f" <= {highest}"
        reason = f" ({why})" if why else ""
        raise ValueError(
            f"{name} must be (fewest, most) with {lowest} <= fewest <= most{limit}{reason}; got {value!r}"
        )
    return int(value[0]), int(value[1])


def characters(name: str, charset: Iterable[str], separators: str, fewest: int = 1, why: str = "") -> str:
    """A set of characters in a fixed order: that of the text or list, or sorted if it is a set.

    Raises:
        ValueError: it has too few (`why` says for what), some twice, a text that is no single character, or a
            separator.
    """
    chosen = sorted(charset) if isinstance(charset, set | frozenset) else list(charset)
    longer = [one for one in chosen if len(one) != 1]
    twice = [one for one in dict.fromkeys(chosen) if chosen.count(one) > 1]
    taken = [one for one in chosen if one in separators]
    problem = ""
    if longer:
        problem = f"{', '.join(map(repr, longer))} is no single character"
    elif twice:
        problem = f"{', '.join(map(repr, twice))} occurs more than once"
    elif taken:
        problem = f"{', '.join(map(repr, taken))} separates the parts of a text"
    elif len(chosen) < fewest:
        problem = f"it has {len(chosen)} characters, but {fewest} are needed{why}"
    if problem:
        raise ValueError(f"{name} must have {fewest} or more characters, each once, no separator; {problem}")
    return "".join(chosen)
