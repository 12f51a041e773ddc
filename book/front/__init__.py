"""What stands on the book's first page and in its gallery: made when the book is, from `results/`.

A page of the source tree has a comment, such as ``% findings``, where a part of `PARTS` is to stand.
"""

from collections.abc import Callable
from pathlib import Path

from .explorer import explorer
from .findings import listed, tally
from .gallery import gallery
from .summary import summary

PARTS: dict[str, Callable[[Path], str]] = {
    "findings": listed,
    "tally": tally,
    "explorer": explorer,
    "summary": summary,
    "explorers": gallery,
}
"""By the comment: MyST for the page, given the tree that is rendered; files it needs are written there."""

__all__ = ["PARTS"]
