"""What stands on the book's first page, in its gallery and on the page on speed: made when the book is.

It is made from `results/` and the tables in `book/performance`. A page of the source tree has a comment, such
as ``% findings``, where a part of `PARTS` is to stand.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import speed
from .cards import cards
from .explorer import explorer
from .findings import listed, tally
from .gallery import gallery
from .leaderboard import leaderboard, metrics
from .needle import needle
from .slider import in_a_language_model, slider
from .using import using

PARTS: dict[str, Callable[[Path], str]] = {
    "needle": needle,
    "cards": cards,
    "slider": slider,
    "slider in a language model": in_a_language_model,
    "using": using,
    "explorer": explorer,
    "tally": tally,
    "findings": listed,
    "explorers": gallery,
    "leaderboard": leaderboard,
    "metrics": metrics,
    "speed": speed.summary,
    "bounds": speed.bounds,
    **{f"chart {name}": partial(speed.chart, name) for name in speed.CHARTS},
}
"""By the comment: MyST for the page, given the tree that is rendered; files it needs are written there."""

__all__ = ["PARTS"]
