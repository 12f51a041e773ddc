"""Generated parts of the first page, the gallery and other pages, made whenever the book is rendered.

Their sources are the records in `results/` and the tables in `book/performance`. A comment in a page of the
source tree, such as ``% findings``, is replaced by the part of `PARTS` with this name.
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
"""By the comment, a function that returns MyST, given the tree that is rendered; it may add files there."""

__all__ = ["PARTS"]
