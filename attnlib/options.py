"""Checks that options have the plain types of their annotations, with readable errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from operator import index
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def _whole(value: Any) -> bool:
    try:
        index(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return not isinstance(value, bool)


def _number(value: Any) -> bool:
    if isinstance(value, (str, bytes, bool)):
        return False
    try:
        float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return False
    return not getattr(value, "shape", ())


KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "int": ("a whole number", _whole),
    "float": ("a number", _number),
    "bool": ("True or False", lambda value: type(value).__name__ in ("bool", "bool_")),
    "str": ("a text", lambda value: isinstance(value, str)),
    "torch.dtype": ("a torch.dtype", lambda value: str(type(value)) == "<class 'torch.dtype'>"),
    "None": ("None", lambda value: value is None),
}
"""By annotation: the name of the type in messages, and a function that tests a value for it."""


def check_kinds(function: Callable, given: dict[str, Any]) -> None:
    """Raise a `ValueError` for an option not of its annotated type; types not in `KINDS` are not checked."""
    for name, parameter in inspect.signature(function).parameters.items():
        kind = parameter.annotation  # a string, where annotations are not evaluated
        parts = (kind if isinstance(kind, str) else getattr(kind, "__name__", "")).split(" | ")
        if name not in given or any(part not in KINDS for part in parts) or given[name] is parameter.default:
            continue
        if not any(KINDS[part][1](given[name]) for part in parts):
            what = " or ".join(KINDS[part][0] for part in parts)
            raise ValueError(f"{name} must be {what}; got {given[name]!r:.80}")


def plain_options(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that each call first checks its options by `check_kinds`."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def checked(*given: P.args, **named: P.kwargs) -> T:
        check_kinds(function, dict(zip(names, given, strict=False)) | named)
        return function(*given, **named)

    return checked
