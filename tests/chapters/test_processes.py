"""Models of a chapter in several processes: the same weights, and what goes wrong is said."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import torch

from book.chapters.chapter import Chapter, Run
from book.chapters.copying import SequenceCopying
from book.chapters.processes import VARIABLE, processes
from tests.parameters import defaults_of, profile
from tests.processes import all_end

ROOT = Path(__file__).parents[2]
SMALL = defaults_of("sequence_copying") | profile("sequence_copying", "smoke")
SMALL |= {"between": [], "head_starts": [10], "device": "cpu", "stacked": 1}


@dataclass(frozen=True)
class Wrong(Run):
    """A run that does not come about."""

    how: str


class Broken(Chapter):
    """A chapter whose models cannot be set up; spawned processes import it from this file."""

    how: str

    def runs(self):
        return [Wrong("first", 0, self.how), Wrong("second", 0, self.how)]

    def setup(self, run):
        if run.how == "dies":
            os._exit(3)
        raise ValueError("there is no such task")


@pytest.mark.parametrize(("text", "n"), [("", 1), ("1", 1), ("3", 3)])
def test_the_variable_says_how_many(monkeypatch, text, n):
    monkeypatch.setenv(VARIABLE, text)
    assert processes() == n


@pytest.mark.parametrize("text", ["0", "two"])
def test_anything_else_is_refused(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ValueError, match=f"ATTNLIB_PROCESSES should be a number .* got '{text}'"):
        SequenceCopying.checked(SMALL).train_all()


@pytest.mark.slow
def test_two_processes_train_the_same_models_as_one(tmp_path, monkeypatch):
    weights, curves = {}, {}
    for n in ("1", "2"):
        monkeypatch.setenv("ATTNLIB_CACHE", str(tmp_path / n))
        monkeypatch.setenv(VARIABLE, n)
        p = SequenceCopying.checked(SMALL)
        models, histories = p.train_all()
        weights[n] = {name: model.state_dict() for name, model in models.items()}
        curves[n] = p.curves(*p.groups)
        assert list(histories) == [run.name for run in p.runs()]
    assert weights["1"].keys() == weights["2"].keys()
    for name, model in weights["1"].items():
        assert all(torch.equal(weights["2"][name][part], weight) for part, weight in model.items()), name
    assert curves["1"].equals(curves["2"])


@pytest.mark.slow
def test_an_error_comes_through_with_the_name_of_its_run(monkeypatch):
    monkeypatch.setenv(VARIABLE, "2")
    with pytest.raises(ValueError, match="there is no such task") as caught:
        Broken(how="raises", device="cpu").train_all()
    assert any("while the model of" in note for note in caught.value.__notes__)


@pytest.mark.slow
def test_a_process_that_dies_is_no_riddle(monkeypatch):
    monkeypatch.setenv(VARIABLE, "2")
    with pytest.raises(RuntimeError, match=r"ended without a word.*run again with fewer processes"):
        Broken(how="dies", device="cpu").train_all()


@pytest.fixture
def training(tmp_path):
    """A process whose two children have begun to train."""
    code = f"""
import signal
from book.chapters.copying import SequenceCopying
if __name__ == "__main__":
    # A shell's background jobs ignore Ctrl-C, and hand that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    SequenceCopying.checked({SMALL | {"steps": 100_000, "every": 50, "head_starts": []}!r}).train_all()
"""
    script = tmp_path / "train.py"
    script.write_text(code)
    environment = os.environ | {
        VARIABLE: "2",
        "ATTNLIB_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(script)]
    parent = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        for _ in range(600):
            kept = list((tmp_path / "cache").rglob("last.safetensors"))
            if len(kept) == 2:
                break
            time.sleep(0.2)
        assert len(kept) == 2, "two models should be in training"
        yield parent
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)


@pytest.mark.slow
def test_ctrl_c_ends_all_processes(training):
    training.send_signal(signal.SIGINT)
    _, said = training.communicate(timeout=60)  # which also waits for the children to let go of stderr
    assert training.returncode != 0 and "KeyboardInterrupt" in said


@pytest.mark.slow
def test_no_process_outlives_one_that_is_killed(training):
    children = psutil.Process(training.pid).children()
    assert len(children) >= 2
    training.kill()
    training.wait()
    assert all_end(children)
