"""Names that a reader may have misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def hint(name: str, allowed: Iterable[str]) -> str:
    """The end of a message about a name that is not allowed: the one that may have been meant, if any.

    Example:
        >>> hint("imbd", ["imdb", "yelp"])
        "; did you mean 'imdb'?"
    """
    close = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(what: str, name: str, allowed: Iterable[str]) -> ValueError:
    """The error for a name that is not among those allowed.

    Example:
        >>> unknown("language", "srt", ["sort", "hist"])
        ValueError("language must be one of sort, hist; got 'srt'; did you mean 'sort'?")
    """
    allowed = list(allowed)
    return ValueError(f"{what} must be one of {', '.join(allowed)}; got {name!r}{hint(name, allowed)}")
