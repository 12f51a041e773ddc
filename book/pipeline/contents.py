"""The documents that a table of contents names."""

from collections.abc import Iterator
from typing import Any


def documents(toc: Any) -> Iterator[str]:
    """Every document a table of contents names, root first."""
    if isinstance(toc, dict):
        for key in ("root", "file"):
            if key in toc:
                yield toc[key]
        for value in toc.values():
            yield from documents(value)
    elif isinstance(toc, list):
        for item in toc:
            yield from documents(item)
