"""A kernel that is killed while a cell trains, as one is where memory runs out, and is begun again."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from book.chapters.copying import SequenceCopying
from tests.conftest import ROOT
from tests.parameters import smallest

SETTINGS = {"steps": 400, "every": 50, "between": [], "head_starts": [], "stacked": 1}


def one_done_and_one_begun(cache: Path) -> bool:
    """Whether a model is trained, and the next has come to its first checkpoint."""
    return bool([*cache.rglob("best.safetensors")] and [*cache.rglob("last.safetensors")])


def trained() -> SequenceCopying:
    """The chapter with its models, which are taken from the cache or trained."""
    chapter = smallest("sequence_copying", **SETTINGS)
    chapter.train_all()
    return chapter


@pytest.mark.slow
def test_it_goes_on_and_does_nothing_twice(tmp_path, monkeypatch):
    cache, environment = tmp_path / "killed", {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    cells = ["from tests.notebooks.test_killed_kernel import trained", "chapter = trained()"]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=os.environ | environment | {"ATTNLIB_CACHE": str(cache)}, cwd=str(ROOT))
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=600)
        for cell in cells:
            client.execute(cell)
        while manager.is_alive() and not one_done_and_one_begun(cache):
            time.sleep(0.01)
        manager.signal_kernel(signal.SIGKILL)
        before = {path: path.read_bytes() for path in cache.rglob("best.safetensors")}
        (midway,) = cache.rglob("last.safetensors")
        client.stop_channels()

        manager.restart_kernel(now=True)
        NotebookClient(notebook, km=manager, timeout=600).execute()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    said = (midway.parent / "log.txt").read_text()
    assert said.count("goes on at step") == 1 and "goes on at step 0" not in said
    assert before and all(path.read_bytes() == data for path, data in before.items())
    assert all((path.parent / "log.txt").read_text().count("a run begins") == 1 for path in before)
    assert not [*cache.rglob("*.tmp")] and not [*cache.rglob("last.safetensors")]

    weights = {}
    for name in ("killed", "whole"):
        monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path / name))
        weights[name] = {run: each.model.state_dict() for run, each in trained().trained.items()}
    for run, model in weights["whole"].items():
        assert all(torch.equal(weights["killed"][run][part], weight) for part, weight in model.items()), run
