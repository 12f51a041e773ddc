"""What stands on the book's first page, in its gallery and on the page on speed: made when the book is.

It is made from `results/` and the tables in `book/performance`. A page of the source tree has a comment, such
as ``% findings``, where a part of `PARTS` is to stand.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from .explorer import explorer
from .faults import built, contradicted, planted
from .findings import listed, tally
from .gallery import gallery
from .speed import CHARTS, bounds, chart, streamed
from .summary import summary
from .verdicts import verdicts

PARTS: dict[str, Callable[[Path], str]] = {
    "findings": listed,
    "tally": tally,
    "verdicts": verdicts,
    "explorer": explorer,
    "summary": summary,
    "explorers": gallery,
    "bounds": bounds,
    "streamed": streamed,
    "faults": planted,
    "faults built": built,
    "contradictions": contradicted,
    **{f"chart {name}": partial(chart, name) for name in CHARTS},
}
"""By the comment: MyST for the page, given the tree that is rendered; files it needs are written there."""

__all__ = ["PARTS"]
