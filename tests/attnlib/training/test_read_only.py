"""Folders that cannot be written to: what is finished there is read, and all else is told in one line."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest

from attnlib.training.keeping import Snapshots
from book.chapters.records import record
from tests.attnlib.small_runs import train

AS_NOBODY = f"""
import os, sys, tempfile
from pathlib import Path
import torch
from attnlib.generators.translation import Subwords
from attnlib.files import cache_folder
from attnlib.training.keeping import kept
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_read_only import Snapshots, recorded, train
from tests.attnlib.small_runs import build
def found(seed=0):
    moments = Snapshots([0, 6])
    model, history = train(build(seed), hooks=[moments])
    return model.classify.weight.sum().item(), history.best, history.seconds, sorted(moments.load())
each = (
    found,
    recorded,
    lambda: kept(cache_folder() / "a_test" / "s" / "t", dict(kind="scores"), lambda: dict(a=torch.ones(1))),
    lambda: Subwords.trained(["a b"], 7, cache_folder() / "words"),
    lambda: found(1),
)
given = dict(os.environ)
with tempfile.TemporaryDirectory() as scratch:  # imports all that nobody may not
    os.environ |= dict(ATTNLIB_CACHE=scratch, ATTNLIB_RESULTS=scratch)
    [make() for make in each]
os.environ |= given
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for make in each:
    try:
        print(*make())
    except Exception as error:
        print(type(error).__name__, error)
"""

ROWS = pd.DataFrame({"metric": ["accuracy"], "value": [0.9], "low": [0.8], "high": [0.95], "n": [50]})


def recorded():
    return record(ROWS, notebook="chapter", label="a", params={}, device="CPU")


@pytest.fixture
def folders(monkeypatch):
    """Caches and results that anyone may read; pytest's own temporary folder is its user's alone."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ATTNLIB_CACHE", str(home / "cache"))
    monkeypatch.setenv("ATTNLIB_RESULTS", str(home / "results"))
    (home / "results").mkdir()
    yield home
    allow(home)
    shutil.rmtree(home)


def allow(home, folder=0o755, file=0o644):
    for place in [home, *home.rglob("*")]:
        place.chmod(folder if place.is_dir() else file)


def test_who_may_not_write_reads_what_is_finished_and_is_told_the_rest(folders):
    moments = Snapshots([0, 6])
    model, history = train(hooks=[moments])
    before = {path: path.stat().st_mtime_ns for path in folders.rglob("*")}
    allow(folders, 0o555, 0o444)
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, check=True, env=environment
    )
    found, recorded, *new, untrained = done.stdout.strip().split("\n")
    assert found == f"{model.classify.weight.sum().item()} {history.best} {history.seconds} [0, 6]"
    assert recorded.startswith("CheckpointError") and "ATTNLIB_RESULTS" in recorded
    for told, place in zip(new, ("cache/a_test/s", "cache/words"), strict=True):
        assert told.startswith("CheckpointError") and place in told and "(Permission denied)" in told
    assert untrained.startswith("CheckpointError") and "cannot be written to (Permission denied)" in untrained
    assert "holds no finished run" in untrained and "ATTNLIB_CACHE" in untrained
    left = [path for path in folders.rglob("*") if ".nv" not in path.parts]  # CUDA leaves its own there
    assert before == {path: path.stat().st_mtime_ns for path in left}
