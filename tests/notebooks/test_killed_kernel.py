"""A kernel that is killed while a cell trains, as one is where memory runs out, and is begun again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
import torch
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page

from book.chapters.copying import SequenceCopying
from tests.browser import open_browser
from tests.conftest import ROOT
from tests.parameters import smallest

SETTINGS = {"steps": 400, "every": 50, "between": [], "head_starts": [], "stacked": 1}

CELLS = ("from tests.notebooks.test_killed_kernel import trained", "chapter = trained()")


def one_done_and_one_begun(cache: Path) -> bool:
    """Whether a model is trained, and the next has come to its first checkpoint."""
    done, going = ({path.parent for path in cache.rglob(f"{kind}.safetensors")} for kind in ("best", "last"))
    return bool(done and going - done)  # one that ends has both for a moment


def trained() -> SequenceCopying:
    """The chapter with its models, which are taken from the cache or trained."""
    chapter = smallest("sequence_copying", **SETTINGS)
    chapter.train_all()
    return chapter


def nothing_is_done_twice(cache: Path, midway: Path, before: dict[Path, bytes]) -> None:
    """A run that was half done has gone on where it was; what had been done `before` was left alone."""
    said = (midway.parent / "log.txt").read_text()
    assert said.count("goes on at step") == 1 and "goes on at step 0" not in said
    assert before and all(path.read_bytes() == data for path, data in before.items())
    assert all((path.parent / "log.txt").read_text().count("a run begins") == 1 for path in before)
    assert not [*cache.rglob("*.tmp")] and not [*cache.rglob("last.safetensors")]


@pytest.mark.slow
def test_it_goes_on_and_does_nothing_twice(tmp_path, monkeypatch):
    cache, environment = tmp_path / "killed", {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=os.environ | environment | {"ATTNLIB_CACHE": str(cache)}, cwd=str(ROOT))
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=600)
        for cell in CELLS:
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
    nothing_is_done_twice(cache, midway, before)

    weights = {}
    for name in ("killed", "whole"):
        monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path / name))
        weights[name] = {run: each.model.state_dict() for run, each in trained().trained.items()}
    for run, model in weights["whole"].items():
        assert all(torch.equal(weights["killed"][run][part], weight) for part, weight in model.items()), run


@pytest.mark.slow
@pytest.mark.book
def test_in_jupyterlab_a_reader_runs_the_cells_again(tmp_path):
    cache, runtime = tmp_path / "cache", tmp_path / "runtime"
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "killed.ipynb")
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "ATTNLIB_CACHE": str(cache)}
    own |= {"JUPYTER_RUNTIME_DIR": str(runtime), "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0", str(tmp_path)]
    with (
        subprocess.Popen(command, env=os.environ | own, start_new_session=True) as lab,
        open_browser() as chromium,
    ):
        try:
            (told,) = wait_for(lambda: [*runtime.glob("jpserver-*.json")])
            server = wait_for(lambda: json.loads(told.read_text() or "{}"))
            page = chromium.new_page()
            page.goto(f"{server['url']}lab/tree/killed.ipynb?token={server['token']}")
            run_all(page)
            wait_for(lambda: one_done_and_one_begun(cache))
            (kernel,) = psutil.Process(lab.pid).children()
            kernel.kill()
            before = {path: path.read_bytes() for path in cache.rglob("best.safetensors")}
            (midway,) = cache.rglob("last.safetensors")
            page.get_by_text("appears to have died").wait_for(timeout=120_000)
            page.get_by_role("button", name="Ok").click()
            run_all(page)
            wait_for(lambda: not [*cache.rglob("last.safetensors")] and page.get_by_text("[2]:").count())
        finally:
            os.killpg(lab.pid, signal.SIGTERM)
    nothing_is_done_twice(cache, midway, before)


def run_all(page: Page) -> None:
    """What a reader chooses in the menu, where there is a kernel."""
    page.get_by_text("| Idle").wait_for(timeout=120_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def wait_for(ask: Callable[[], Any], seconds: float = 300) -> Any:
    """What `ask` returns as soon as it is something."""
    end = time.monotonic() + seconds
    while not (found := ask()):
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)
    return found
