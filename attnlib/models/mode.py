"""Whether a model trains or is evaluated: dropout is on, or off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

from torch import nn

M = TypeVar("M", bound=nn.Module)

_lock = Lock()
_inside: WeakKeyDictionary[nn.Module, tuple[int, bool]] = WeakKeyDictionary()


@contextmanager
def evaluating(model: M) -> Iterator[M]:
    """The model in evaluation mode inside a `with` block; after it, every module is in the mode it had.

    Blocks may be inside one another, and open in several threads at once: the mode comes back when the last
    of them ends.

    Example:
        >>> model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5).eval())
        >>> with evaluating(model):
        ...     model[0].training
        False
        >>> model[0].training, model[1].training
        (True, False)
    """
    modules = list(model.modules())
    with _lock:
        for module in modules:
            users, training = _inside.get(module, (0, module.training))
            _inside[module] = users + 1, training
            module.training = False
    try:
        yield model
    finally:
        with _lock:
            for module in modules:
                users, training = _inside.pop(module)
                if users > 1:
                    _inside[module] = users - 1, training
                else:
                    module.training = training
