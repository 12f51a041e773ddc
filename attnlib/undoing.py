"""Temporary changes that are always undone, even if Ctrl-C interrupts making or undoing them.

If the `__enter__` of a `with` block is interrupted, its `__exit__` is never called, and an interrupted
`__exit__` is not completed. So the function that undoes a change is known before the change is made, may be
called twice, and is called again if it was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, _GeneratorContextManager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class _Scope(_GeneratorContextManager):
    """The context manager of a generator, which always closes the generator, so that its `finally` runs."""

    def __enter__(self) -> Any:
        try:
            return super().__enter__()
        except BaseException:  # the generator may have yielded already
            self.gen.close()
            raise

    def __exit__(self, *error: Any) -> Any:
        try:
            return super().__exit__(*error)
        finally:  # the generator may not have been resumed
            self.gen.close()


def scope(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """As `contextlib.contextmanager`; the generator is closed even if entering or leaving is interrupted."""

    @wraps(function)
    def opened(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        return _Scope(function, args, kwargs)  # type: ignore[arg-type]

    return opened


@scope
def undone(undo: Callable[[], Any]) -> Iterator[None]:
    """Call `undo` at the end of a `with` block, and then once more, in case the first call was interrupted.

    Enter the block before anything is changed: `undo` must be harmless if there is nothing to undo.
    """
    try:
        try:
            yield
        finally:
            undo()
    finally:
        undo()
