"""JSON files that show when they were changed: each holds a checksum over all that it says otherwise."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlib.places import content

CHECKSUM = "checksum"
"""The entry that holds it."""


def sealed(told: Mapping[str, Any]) -> dict[str, Any]:
    """The same entries, with the SHA-256 of all of them (as JSON, keys in order) added last."""
    rest = {name: value for name, value in told.items() if name != CHECKSUM}
    return {**rest, CHECKSUM: hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def is_sealed(told: Mapping[str, Any]) -> bool:
    """Whether there is a checksum. Records that are older than checksums have none."""
    return CHECKSUM in told


def read_sealed(path: Path) -> dict[str, Any]:
    """What a JSON file says; a `ValueError` if it is no JSON object, or was changed after it was written."""
    try:
        told = json.loads(content(path))
    except (ValueError, RecursionError):  # a text of brackets nests deeper than Python goes
        raise ValueError(f"{path} is damaged: it is no JSON") from None
    if not isinstance(told, dict):
        raise ValueError(f"{path} is damaged: it holds no JSON object")
    if is_sealed(told) and told[CHECKSUM] != sealed(told)[CHECKSUM]:
        raise ValueError(f"{path} was changed after it was written: it does not match its own checksum")
    return told
