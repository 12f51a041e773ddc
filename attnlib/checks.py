"""Checks of arguments, called at the start of public functions. They raise "X must be ...; got ...".

A keyword is the name: `check_count(runs=0)` raises "runs must be a whole number, at least 1; got 0". All
checks raise a `ValueError`. `check_between`, `check_at_least` and `check_count` accept `None`, which stands
for an option that is not given.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np


def check(holds: Any, demand: str, got: Any) -> None:
    """Raise a `ValueError` "DEMAND; got GOT" unless `holds` is true. A demand reads "X must ..."."""
    if not holds:
        raise ValueError(f"{demand}; got {_shown(got)}")


def _shown(got: Any) -> str:
    """A value as shown in a message: arrays of up to 9 numbers in full, larger ones by dtype and shape."""
    if hasattr(got, "dtype") and hasattr(got, "shape"):
        return str(got.tolist()) if np.prod(got.shape) <= 9 else f"{got.dtype} of shape {tuple(got.shape)}"
    text = repr(tuple(got) if isinstance(got, tuple) else got)  # else torch.Size([2, 3])
    return text if len(text) <= 200 else f"{text[:197]}..."


def check_between(low: Any, high: Any, /, **numbers: Any) -> None:
    """Refuse numbers outside of an interval with both of its ends, and NaN."""
    for name, value in numbers.items():
        check(value is None or low <= value <= high, f"{name} must be from {low} to {high}", value)


def check_at_least(least: Any, /, **numbers: Any) -> None:
    """Refuse numbers below the least that is allowed, and NaN."""
    for name, value in numbers.items():
        check(value is None or value >= least, f"{name} must be at least {least}", value)


def check_count(least: int = 1, /, **numbers: Any) -> None:
    """Refuse values that are not whole numbers of at least `least`."""
    for name, value in numbers.items():
        fits = value is None or (hasattr(value, "__index__") and value >= least)
        check(fits, f"{name} must be a whole number, at least {least}", value)


def check_seed(seed: Any) -> None:
    """Refuse a seed that is not a whole number of at least 0, as random generators need."""
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    check(whole and seed >= 0, "seed must be a whole number, at least 0", seed)


def check_one_of(allowed: Iterable[Any], /, **values: Any) -> None:
    """Refuse values that are not allowed; the message suggests the value that may have been meant."""
    allowed = list(allowed)
    for name, value in values.items():
        if value not in allowed:
            raise unknown(name, value, allowed)


def check_some(**collections: Collection[Any]) -> None:
    """Refuse empty collections."""
    for name, value in collections.items():
        check(len(value), f"{name} must not be empty", value)


def check_shape(shape: Sequence[int], axes: str = "", /, **arrays: Any) -> None:
    """Refuse arrays and tensors of another shape; `axes`, such as "[query key]", names them."""
    for name, value in arrays.items():
        wanted = f"{axes} = {tuple(shape)}" if axes else tuple(shape)
        check(tuple(value.shape) == tuple(shape), f"{name} must be of the shape {wanted}", tuple(value.shape))


def check_mask(shape: Sequence[int], axes: str = "", /, **masks: Any) -> None:
    """Refuse masks that are not bool, or of another shape."""
    check_shape(shape, axes, **masks)
    for name, value in masks.items():
        check(str(value.dtype).endswith("bool"), f"{name} must be bool", str(value.dtype))


def check_finite(axes: str = "", /, **arrays: Any) -> None:
    """Refuse NumPy arrays that hold NaN or infinity, and say where."""
    for name, value in arrays.items():
        if len(places := np.argwhere(~np.isfinite(value))):
            where = f" at {axes} {places[0].tolist()}".replace("  ", " ")
            raise ValueError(f"{name} must be finite; got {value[tuple(places[0])]}{where}")


def check_text(**texts: str) -> None:
    """Refuse texts that cannot be encoded in UTF-8; a command line may hold any bytes."""
    for name, text in texts.items():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            found = f"{text[error.start]!r} at character {error.start + 1}"
            raise ValueError(f"{name} must be text in UTF-8; got {found}") from None


def unknown(what: str, value: Any, allowed: Iterable[Any]) -> ValueError:
    """The error for a value that is not among those allowed."""
    names = [each if isinstance(each, str) else repr(each) for each in allowed]
    meant = hint(value, names) if isinstance(value, str) else ""
    return ValueError(f"{what} must be one of {', '.join(names)}; got {value!r}{meant}")


def hint(name: str, allowed: Iterable[str]) -> str:
    """The end of a message: the allowed name that `name` may have been meant for; "" if there is none."""
    close = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
