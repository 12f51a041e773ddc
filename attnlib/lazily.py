"""Packages whose names are imported when they are first asked for (PEP 562, SPEC 1)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`.

    Args:
        package: its `__name__`.
        homes: the module of each of its names.

    Example:
        >>> get, names = lazily("attnlib", {"blank": "attnlib.colours"})
        >>> names()
        ['blank']
        >>> get("blink")
        Traceback (most recent call last):
        AttributeError: attnlib has no 'blink'. It has blank.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no {name!r}. It has {', '.join(homes)}.")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # the next one who asks does not come by here
        return value

    return get, lambda: sorted(homes)
