"""The provenance of a record: the commit, its tree, versions, the processor and its threads."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from book.chapters.records.places import ROOT
from book.sealing import is_sealed

_LIBRARIES = ("torch", "transformers", "numpy", "scipy", "pandas")

_CODE = ("attnlib", "book/chapters", "notebooks")

_STARTED = time.time()


def origin() -> dict[str, Any]:
    """The provenance of the running process."""
    changed = _git("status", "--porcelain", *_CODE)
    # A file edited since the start of this process is not the code that runs. A file time in the future does
    # not count as an edit: the clock was set back.
    edited = any(
        _STARTED < file.stat().st_mtime <= time.time()
        for folder in _CODE
        for file in (ROOT / folder).rglob("*.py")
    )
    return {
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "clean": None if changed is None else not (changed or edited),
        "versions": {"attnlib": importlib.metadata.version("attnlib"), **_libraries()}
        | {"python": platform.python_version()},
        "processor": processor(),
        "threads": torch.get_num_threads(),
    }


@functools.cache
def processor() -> str:
    """The processor's vendor and the widest vector instructions that torch uses: "AuthenticAMD, AVX512".

    Other processors round sums differently, so that training ends with different weights.
    """
    try:
        fields = dict(
            line.split(":", 1)
            for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines()
            if ":" in line
        )
        vendor = {name.strip(): value.strip() for name, value in fields.items()}["vendor_id"]
    except (OSError, KeyError):  # no Linux, or not of this family
        vendor = platform.processor() or platform.machine()
    return f"{vendor}, {torch.backends.cpu.get_cpu_capability()}"


def caveats(provenance: Mapping[str, Any]) -> str:
    """The caveats that mark a record wherever it is shown: "uncommitted changes", "no checksum"."""
    # In older records, the commit of a tree with changes ends with +.
    dirty = provenance.get("clean", not str(provenance["commit"]).endswith("+")) is False
    said = {"uncommitted changes": dirty, "no checksum": not is_sealed(provenance)}
    return ", ".join(words for words, so in said.items() if so)


def other_versions(provenance: Mapping[str, Any]) -> str:
    """The libraries that have another version now: "torch 2.12.0, numpy 2.4.1"; builds (+cpu) are ignored."""
    before = {name: provenance["versions"].get(name, "unknown").split("+")[0] for name in _LIBRARIES}
    here = _libraries()
    return ", ".join(f"{name} {before[name]}" for name in before if before[name] != here[name].split("+")[0])


def _libraries() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in _LIBRARIES}


def _git(*words: str) -> str | None:
    """The output of a git command; `None` outside a checkout, or without git."""
    command = ["git", "-C", str(ROOT), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
