"""Folders that cannot be written to: what is finished there is read, and all else is told in one line."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest
import torch

from attnlib.generators.rasp import language
from attnlib.models import Transformer, TransformerConfig
from attnlib.training import Plan, token_loss, token_scores, trained
from attnlib.training.keeping import Snapshots
from book.chapters.records import record

LANGUAGE = language("sort", alphabet_size=10)
SEEN = LANGUAGE.sequences(60, max_length=6)
VALID = LANGUAGE.in_batches(LANGUAGE.sequences(20, split="valid", max_length=6))
PLAN = Plan(steps=6, evaluate_every=3, device="cpu")

AS_NOBODY = f"""
import os, sys, tempfile
from pathlib import Path
import torch
from attnlib.generators.translation import Subwords
from attnlib.files import cache_folder
from attnlib.training.keeping import kept
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_read_only import Snapshots, recorded, train
given = dict(os.environ)
with tempfile.TemporaryDirectory() as scratch:  # imports all that nobody may not
    os.environ |= dict(ATTNLIB_CACHE=scratch, ATTNLIB_RESULTS=scratch)
    train(hooks=[Snapshots([0, 6])])
    recorded()
    kept(Path(scratch) / "t", dict(kind="scores"), lambda: dict(a=torch.ones(1)))
    Subwords.trained(["a b"], 7)
os.environ |= given
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    moments = Snapshots([0, 6])
    model, history = train(hooks=[moments], seed=int(sys.argv[1]))
    print(model.classify.weight.sum().item(), history.best, history.seconds, sorted(moments.load()))
    print(recorded())
except Exception as error:
    print(type(error).__name__, error)
for make in (
    lambda: kept(cache_folder() / "a_test" / "s" / "t", dict(kind="scores"), lambda: dict(a=torch.ones(1))),
    lambda: Subwords.trained(["a b"], 7, cache_folder() / "words"),
):
    try:
        make()
    except Exception as error:
        print(type(error).__name__, error)
"""

ROWS = pd.DataFrame({"metric": ["accuracy"], "value": [0.9], "low": [0.8], "high": [0.95], "n": [50]})


def train(seed=0, **changes):
    torch.manual_seed(seed)
    config = TransformerConfig(len(LANGUAGE.tokenizer), len(LANGUAGE.classes), n_layers=1, width=16)
    model = Transformer(config)
    how = {"valid": VALID, "score": token_scores, "chapter": "a_test", "progress": False} | changes
    return model, trained(model, LANGUAGE.batches(SEEN, 10), token_loss(), PLAN, **how)


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


def forbid(home):
    for place in [home, *home.rglob("*")]:
        place.chmod(0o555 if place.is_dir() else 0o444)


def allow(home):
    for place in [home, *home.rglob("*")]:
        place.chmod(0o755 if place.is_dir() else 0o644)


def as_nobody(seed=0):
    command = [sys.executable, "-c", AS_NOBODY, str(seed)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    )
    return done.stdout.strip().split("\n")


def test_who_may_not_write_reads_what_is_finished_and_is_told_the_rest(folders):
    moments = Snapshots([0, 6])
    model, history = train(hooks=[moments])
    before = {path: path.stat().st_mtime_ns for path in folders.rglob("*")}
    forbid(folders)
    found, recorded, *new = as_nobody()
    assert found == f"{model.classify.weight.sum().item()} {history.best} {history.seconds} [0, 6]"
    assert recorded.startswith("CheckpointError") and "ATTNLIB_RESULTS" in recorded
    for told, place in zip(new, ("cache/a_test/s", "cache/words"), strict=True):
        assert told.startswith("PermissionError") and place in told
    untrained = as_nobody(seed=1)[0]
    assert untrained.startswith("CheckpointError") and "cannot be written to (Permission denied)" in untrained
    assert "holds no finished run" in untrained and "ATTNLIB_CACHE" in untrained
    assert before == {path: path.stat().st_mtime_ns for path in folders.rglob("*")}
