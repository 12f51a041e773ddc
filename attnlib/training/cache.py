"""Where trained models are kept."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs

PACKAGE = Path(__file__).parents[1]

_TRAINING_CODE = ("files.py", "generators", "models", "training", "measures/relevance.py")


def cache_folder(notebook: str, parts: Mapping[str, Any]) -> Path:
    """The folder of the model that these settings, and today's code, would train; see `training.fit`.

    Its name is a hash of `parts` and of the source of attnlib's generators, models and training: other
    settings or other code, another folder. It is under `$ATTNLIB_CACHE`, or where this system keeps caches.

    Args:
        notebook: the chapter.
        parts: everything that decides the trained model, as JSON can hold it.
    """
    base = Path(os.environ.get("ATTNLIB_CACHE") or platformdirs.user_cache_path("attnlib"))
    text = json.dumps({"parts": dict(parts), "code": code_hash()}, sort_keys=True, default=str)
    return base / notebook / hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def code_hash() -> str:
    """A hash of the source that decides what a trained model is."""
    digest = hashlib.sha256()
    for place in _TRAINING_CODE:
        files = sorted((PACKAGE / place).rglob("*.py")) if (PACKAGE / place).is_dir() else [PACKAGE / place]
        for file in files:
            digest.update(str(file.relative_to(PACKAGE)).encode() + file.read_bytes())
    return digest.hexdigest()
