"""Names and texts that a reader may have mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def hint(name: str, allowed: Iterable[str]) -> str:
    """The end of a message about a name that is not allowed: the one that may have been meant, if any."""
    close = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(what: str, name: str, allowed: Iterable[str]) -> ValueError:
    """The error for a name that is not among those allowed."""
    allowed = list(allowed)
    return ValueError(f"{what} must be one of {', '.join(allowed)}; got {name!r}{hint(name, allowed)}")


def refuse_no_text(what: str, text: str) -> None:
    """Refuse a text that UTF-8 cannot write: a command line may hold any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        place = error.start
        raise ValueError(
            f"the {what} should be text in UTF-8; its character {place + 1} is {text[place]!r}"
        ) from None
