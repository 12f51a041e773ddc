"""Packages whose names are imported at their first use (PEP 562, SPEC 1)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazily(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`, for names that `file` imports under `if TYPE_CHECKING:`."""
    blocks = [node for node in ast.parse(Path(file).read_text("utf-8")).body if isinstance(node, ast.If)]
    imports = [each for block in blocks for each in block.body if isinstance(each, ast.ImportFrom)]
    homes = {name.name: str(each.module) for each in imports for name in each.names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no {name!r}. It has {', '.join(sorted(homes))}.")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # the next access does not call `get`
        return value

    return get, lambda: sorted(homes)
