"""One kernel for all chapters that a worker executes."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.notebooks.command_line import Ran
from tests.notebooks.one_kernel import Execute, one_kernel


@pytest.fixture(scope="session")
def execute() -> Iterator[Execute]:
    with one_kernel() as execute:
        yield execute


@pytest.fixture
def papermill(execute: Execute, tmp_path: Path) -> Callable[..., Ran]:
    """Runs a chapter with the words of a command line, in a folder of this test."""
    return partial(Ran, execute, tmp_path)
