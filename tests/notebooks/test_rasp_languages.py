"""The chapter from the command line: what a reader types, right and wrong."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "notebooks/profiles/rasp_languages/smoke.yaml"


def papermill(folder, *words):
    """Run the chapter at the smoke profile with further parameters, as a reader would."""
    command = [sys.executable, "-m", "papermill", str(ROOT / "notebooks/rasp_languages.ipynb"), "out.ipynb"]
    environment = os.environ | {"ATTNLIB_CACHE": str(folder), "ATTNLIB_RESULTS": str(folder / "results")}
    return subprocess.run(
        [*command, "-f", str(SMOKE), *words], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.notebook
def test_another_language_and_depth(tmp_path):
    done = papermill(tmp_path, "-p", "language", "sort", "-p", "n_layers", "2", "-p", "sequence", "badge")
    assert done.returncode == 0, done.stderr[-2000:]
    outputs = str([cell.get("outputs") for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells])
    assert "badge -> a b d e g" in outputs
    assert "data-attnlib" in outputs
    (file,) = (tmp_path / "results" / "rasp_languages").glob("*.parquet")
    assert set(pd.read_parquet(file)["run"]) == {"sort", "sort, supervised", "hist, supervised"}


@pytest.mark.notebook
def test_a_language_without_target_attention(tmp_path):
    done = papermill(tmp_path, "-p", "language", "dyck1_ptf", "-p", "sequence", "(a)(()")
    assert done.returncode == 0, done.stderr[-2000:]
    outputs = str([cell.get("outputs") for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells])
    assert "(a)(() -> P P T P P P" in outputs


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-p", "language", "srot"), "did you mean 'sort'?"),
        (("-p", "n_layers", "two", "-p", "lenght", "9"), "should be a valid integer; got 'two'"),
    ],
)
def test_wrong_parameters_stop_the_chapter_before_it_trains(tmp_path, words, message):
    done = papermill(tmp_path, *words)
    assert done.returncode != 0
    assert message in done.stderr
    run = [cell for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells if cell.get("execution_count")]
    assert "from_notebook" in run[-1].source  # the check was the last cell to run
    assert not (tmp_path / "results").exists() and not (tmp_path / "rasp_languages").exists()
