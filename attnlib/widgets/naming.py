"""Checks of what is shown by name: ``{label: parts}``, every error naming the label."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Shown = TypeVar("Shown")


def named(
    build: Callable[..., Shown],
    noun: str,
    label: str,
    parts: Mapping[str, Any],
    needed: Sequence[str],
    optional: Sequence[str],
    **settings: Any,
) -> Shown:
    """``build(label, **parts, **settings)``, with the noun and the label in the message of every error.

    Args:
        build: checks the parts and packs them.
        noun: what a reader calls it: example, problem, document.
        label: what the drop-down calls it.
        parts: by name.
        needed: names of the parts that must be there, two or more.
        optional: names of those that may be, one or more.
        **settings: what else ``build`` takes.

    Raises:
        ValueError: a part is missing, unknown or not valid.
    """
    if not set(needed) <= set(parts) <= {*needed, *optional}:
        raise ValueError(
            f"{noun} {label!r} must hold {_listed(needed)}, and may hold {_listed(optional)}; "
            f"got {', '.join(map(str, parts)) or 'nothing'}."
        )
    try:
        return build(label, **parts, **settings)
    except ValueError as error:
        raise ValueError(f"{noun} {label!r}: {error}") from error


def checked_texts(name: str, texts: Any, count: int, of: str) -> tuple[str, ...]:
    """One text for every checkpoint.

    Raises:
        ValueError: it is one string, holds something else than strings, or has another length than ``count``.
    """
    if isinstance(texts, str) or [type(text) for text in texts] != [str] * count:
        raise ValueError(
            f"{name} must be a list of {count} strings, one for every checkpoint of {of}; got {texts!r}."
        )
    return tuple(texts)


def checked_text(name: str, text: Any) -> str | None:
    """A text, or None where there is none.

    Raises:
        ValueError: it is something else.
    """
    if not (text is None or isinstance(text, str)):
        raise ValueError(f"{name} must be a string or None; got {text!r}.")
    return text


def counted(count: int, noun: str) -> str:
    """``1 problem``, ``2 problems``."""
    return f"{count} {noun}{'s' if count > 1 else ''}"


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
