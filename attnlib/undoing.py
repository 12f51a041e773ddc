"""Changes that are put back whatever happens, also where Ctrl-C comes in the middle of making one.

A `with` block whose `__enter__` is interrupted never gets to its `__exit__`, and an interrupted `__exit__`
never gets to its end. So what undoes a change is known before the change is made, may be done twice, and is
done again where it was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, _GeneratorContextManager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class _Scope(_GeneratorContextManager):
    """The `with` block of a generator, which never leaves the generator where it yielded."""

    def __enter__(self) -> Any:
        try:
            return super().__enter__()
        except BaseException:  # it may have yielded already
            self.gen.close()
            raise

    def __exit__(self, *error: Any) -> Any:
        try:
            return super().__exit__(*error)
        finally:  # or may not have gone on
            self.gen.close()


def scope(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """`contextlib.contextmanager`, whose generator ends also where entering or leaving is interrupted."""

    @wraps(function)
    def opened(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        return _Scope(function, args, kwargs)  # type: ignore[arg-type]

    return opened


@scope
def undone(undo: Callable[[], Any]) -> Iterator[None]:
    """Call `undo` at the end of a `with` block, and then once more, in case the first call was interrupted.

    Enter it before anything is changed: `undo` has to do no harm where there is nothing to undo.
    """
    try:
        try:
            yield
        finally:
            undo()
    finally:
        undo()
