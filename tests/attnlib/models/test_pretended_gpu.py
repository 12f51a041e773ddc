"""Everything on a device that refuses what a GPU refuses, and counts what the processor waits for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Another Python process in the project's folder."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_all_runs_on_a_pretended_gpu() -> None:
    """In a process of its own, in which the device stays for good; some 25 seconds, and one thread."""
    known = python("-c", "import tests.pretended")
    if known.returncode:
        reason = known.stderr.strip().splitlines()[-1]
        pytest.skip(f"NO PRETENDED GPU: torch's private back end for Python is not what it was: {reason}")
    found = python(
        "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider", "tests/pretended_checks.py"
    )
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
