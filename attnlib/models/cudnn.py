"""cuDNN's recurrent layers differentiate in training mode only, with dropout; torch's own always do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock = Lock()
_blocks: list[bool] = []
"""Of each open block, what cuDNN's switch was before the first of them."""


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Recurrent layers are torch's own inside a `with` block.

    The switch is the process's. Blocks may be open in several threads at once, and end in any order: it is as
    it was when the last of them ends.
    """
    with _lock:
        _blocks.append(_blocks[0] if _blocks else torch.backends.cudnn.enabled)
        torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        with _lock:
            before = _blocks.pop()
            torch.backends.cudnn.enabled = before and not _blocks
