"""Whether a person looks on while code runs: then a bar moves, and an explorer is live.

A notebook is also executed by programs: papermill, nbconvert, Jupyter Book. They keep every state of a bar as
a line of its own, and nobody can turn an explorer there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

from tqdm import tqdm

T = TypeVar("T")


def _kernel() -> Any:
    """IPython's shell, if this is the kernel of a notebook."""
    if (ipython := sys.modules.get("IPython")) is None:
        return None
    shell = ipython.get_ipython()
    return shell if hasattr(shell, "get_parent") else None


def is_attended() -> bool:
    """Whether a person may look on; in a notebook, if its front end answers `input()` (`allow_stdin`)."""
    kernel = _kernel()
    return kernel is None or kernel.get_parent().get("content", {}).get("allow_stdin", True)


def bar(each: Iterable[T] = (), *, shown: bool = True, **settings: Any) -> tqdm[T]:
    """A progress bar where a person looks on, in a terminal or a live notebook; else nothing is printed."""
    in_terminal = None  # tqdm finds out
    nobody = not is_attended() if _kernel() is not None else in_terminal
    return tqdm(each, disable=nobody if shown else True, **settings)
