"""Checks of labelled data, ``{label: parts}``: the message of every error names the label."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from attnlib.checks import check, check_some

Shown = TypeVar("Shown")

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that change the direction of the text around them, control characters, and surrogates."""


def seen(text: str) -> str:
    """The text, with codes such as U+202E in place of the characters that `_UNSEEN` matches."""
    return _UNSEEN.sub(lambda found: f"U+{ord(found[0]):04X}", text)


def named(
    build: Callable[..., Shown], noun: str, shown: Mapping[str, Mapping[str, Any]], **settings: Any
) -> list[Shown]:
    """The result of ``build(label, **parts, **settings)`` for each label.

    The parts are the other arguments of ``build``; those without a default are required. The message of
    every error begins with the noun and the label.
    """
    _, *takes = inspect.signature(build).parameters.values()
    parts = [each for each in takes if each.name not in settings]
    needed = [each.name for each in parts if each.default is each.empty]
    optional = [each.name for each in parts if each.name not in needed]
    check_some(**{f"{noun}s": shown})
    built = []
    for label, given in shown.items():
        fits = set(needed) <= set(given) <= {*needed, *optional}
        also = f", and may hold {_listed(optional)}" if optional else ""
        check(fits, f"{noun} {label!r} must hold {_listed(needed)}{also}", [*given])
        try:
            built.append(build(seen(label), **given, **settings))
        except ValueError as error:
            raise ValueError(f"{noun} {label!r}: {error}") from error
    return built


def check_texts(name: str, texts: Any, count: int, of: str) -> tuple[str, ...]:
    """The texts as a tuple; raises a ValueError unless they are one string per checkpoint."""
    fits = not isinstance(texts, str) and [type(text) for text in texts] == [str] * count
    check(fits, f"{name} must be a list of {count} strings, one per checkpoint of {of}", texts)
    return tuple(texts)


def check_label(name: str, text: Any) -> str | None:
    """The text, or None if none is given; raises a ValueError for anything else."""
    check(text is None or isinstance(text, str), f"{name} must be a string or None", text)
    return text


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 problem``, ``2 problems``."""
    return f"{count} {noun}{'s' if count > 1 else ''}"


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
