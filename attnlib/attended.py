"""Whether a person watches while code runs: only then progress bars are shown, and explorers are interactive.

Programs such as papermill, nbconvert and Jupyter Book execute notebooks, too. They would store every state of
a progress bar as a line of its own, and nobody can operate an explorer there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from tqdm import tqdm

T = TypeVar("T")


def _kernel() -> Any:
    """IPython's shell if this process is the kernel of a notebook, else `None`."""
    if (ipython := sys.modules.get("IPython")) is None:
        return None
    shell = ipython.get_ipython()
    return shell if hasattr(shell, "get_parent") else None


def is_attended() -> bool:
    """Whether a person may be watching; in a notebook: whether the front end allows `input()`."""
    kernel = _kernel()
    return kernel is None or kernel.get_parent().get("content", {}).get("allow_stdin", True)


def bar(each: Iterable[T] = (), *, shown: bool = True, **settings: Any) -> tqdm[T]:
    """A progress bar, shown in a terminal or an interactive notebook if `shown`; else nothing is printed."""
    in_terminal = None  # tqdm itself checks for a terminal
    nobody = not is_attended() if _kernel() is not None else in_terminal
    return tqdm(each, disable=nobody if shown else True, **settings)
