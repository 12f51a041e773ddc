"""What every test stands on: one thread, no network, and nothing of this machine's caches."""

import os
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import settings

# Before torch is imported anywhere: two workers side by side, one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

FETCHED = os.environ.get("ATTNLIB_CACHE")
"""Where models that the book has fetched are, if not in this system's own cache: see `tests.pretrained`."""

ROOT = Path(__file__).parents[1]

settings.register_profile("no deadline", settings.default, deadline=None)  # tests never measure time
settings.load_profile("no deadline")


LONGEST = "test_parameter_sets.py"
"""The tests that take the most minutes on one core; they run first, so that no core is idle at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the longest tests to the front; the others keep their order."""
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.fixture(autouse=True, scope="session")
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Models and records of the tests go to a folder of this run: no test depends on an earlier one."""
    for name in ("ATTNLIB_CACHE", "ATTNLIB_RESULTS"):
        os.environ[name] = str(tmp_path_factory.mktemp(name.lower()))


@pytest.fixture(autouse=True, scope="session")
def legends_name_what_is_drawn() -> None:
    """Every figure that a test draws is held against its legend."""
    from tests.legends import watch  # behind the environment above: it loads torch

    watch()


@pytest.fixture
def without_type_checks() -> Iterator[None]:
    """Call functions as readers do: in other tests, a wrong type is already an error of jaxtyping."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
