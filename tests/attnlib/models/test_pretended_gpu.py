"""Everything on a device that refuses what a GPU refuses, and counts what the processor waits for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_all_runs_on_a_pretended_gpu() -> None:
    """In a process of its own, in which the device stays for good; some 15 seconds, and one thread.

    A real GPU is hidden from it, so that the same is checked on every machine.
    """
    options = ["-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, "tests/pretended_checks.py"]
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    found = subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True, check=False)
    if found.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        pytest.skip(
            f"NO PRETENDED GPU: torch's private back end for Python is not what it was: {found.stdout}"
        )
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
