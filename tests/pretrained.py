"""A trained language model for the tests that need one: nothing is fetched for them."""

import os
from pathlib import Path

import platformdirs
import pytest

from attnlib.models.pretrained import DEFAULT, gguf_of_default
from tests.conftest import FETCHED


def trained_model(small: str = "stories260k") -> Path:
    """The folder of this small one in `$ATTNLIB_DATA`, or else of the one that the book has fetched before.

    Skips the calling test where neither is there.
    """
    given = Path(os.environ.get("ATTNLIB_DATA", "")) / "models" / small
    kept = Path(FETCHED or platformdirs.user_cache_path("attnlib")) / "models"
    for folder in (given, *sorted(kept.glob(f"{DEFAULT}-*"))):
        if (folder / "config.json").exists():
            return folder
    pytest.skip(f"no trained language model in $ATTNLIB_DATA/models, nor in {kept}: `make book` fetches one")


def books_file() -> Path:
    """The file of the book's language model; skips the calling test where it was never fetched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLIB_CACHE", FETCHED or "")
        if (path := gguf_of_default()) is not None:
            return path
    pytest.skip("the file of the book's language model is not in the cache: `make book` fetches it")
