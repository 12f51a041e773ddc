"""The chapter from the command line: a folder of the reader's own, and what stops it at once."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "notebooks/profiles/classification_dynamics/smoke.yaml"


def papermill(folder, *words):
    """Run the chapter at the smoke profile with further parameters, as a reader would."""
    chapter = str(ROOT / "notebooks/classification_dynamics.ipynb")
    environment = os.environ | {"ATTNLIB_CACHE": str(folder), "ATTNLIB_RESULTS": str(folder / "results")}
    command = [sys.executable, "-m", "papermill", chapter, "out.ipynb", "-f", str(SMOKE), *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def outputs_of(folder):
    return str([cell.get("outputs") for cell in nbformat.read(folder / "out.ipynb", 4).cells])


@pytest.mark.notebook
def test_texts_of_the_readers_own_by_kendalls_tau(tmp_path):
    ham = [f"ham\tdear friend see you at {n} o'clock & <b>bring</b> tea number {n}" for n in range(150)]
    spam = [f"spam\tfree prize call {n} now to claim number {n}" for n in range(150)]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "all.tsv").write_text("\n".join(["label\ttext", *ham, *spam]))
    words = (
        "-p",
        "data",
        "mine",
        "-p",
        "folder",
        "mine",
        "-p",
        "max_length",
        "12",
        "-p",
        "measure",
        "kendall",
    )
    done = papermill(tmp_path, *words)
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = (tmp_path / "results" / "classification_dynamics").glob("mine-*.parquet")
    rows = pd.read_parquet(file)
    assert set(rows["task"]) == {"mine"} and set(rows["split"]) == {"test", "train"}
    assert set(rows["checkpoints"]) == {"held out", "as published"}
    chance = rows.query("metric == 'A_hat, expected'")["value"]
    assert (chance == 0).all()  # of Kendall's tau
    outputs = outputs_of(tmp_path)
    assert "data-attnlib" in outputs and "first 12 words" in outputs
    assert "<b>bring</b>" not in outputs  # texts are escaped


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-p", "data", "plantd"), "did you mean 'planted'?"),
        (("-p", "data", "mine", "-p", "folder", "nowhere"), "there is no such folder"),
        (("-p", "difficulty", "2.0"), "should be less than or equal to 1; got 2.0"),
    ],
)
def test_wrong_parameters_stop_the_chapter_before_it_trains(tmp_path, words, message):
    done = papermill(tmp_path, *words)
    assert done.returncode != 0
    assert message in done.stderr
    run = [cell for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells if cell.get("execution_count")]
    assert "from_notebook" in run[-1].source  # the check was the last cell to run
    assert not (tmp_path / "results").exists() and not (tmp_path / "classification_dynamics").exists()
