"""The chapter with what a reader types, right and wrong."""

import os
import subprocess
import sys

import nbformat
import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.notebook


@pytest.mark.slow
def test_another_language_and_depth(papermill):
    words = ("-p", "language", "sort", "-p", "n_layers", "2", "-p", "sequence", "badge")
    done = papermill("rasp_languages", *words)
    outputs = done.outputs()
    assert "badge -> a b d e g" in outputs
    assert "cannot read" not in outputs  # the stored model draws it, too
    assert "data-attnlib" in outputs
    runs = set(done.rows()["run"])
    trained = {run for run in runs if not run.endswith(", compiled")}
    assert trained == {"sort", "sort, supervised", "hist, supervised"}
    assert runs - trained == {"reverse, compiled", "hist, compiled", "sort, compiled"}


@pytest.mark.slow
def test_a_sequence_that_the_stored_model_cannot_read(papermill):
    """Its alphabet has ten letters, the chapter's here 26: it says so, and draws its own example."""
    words = ("-p", "language", "sort", "-p", "alphabet_size", "26", "-p", "sequence", "xyz")
    outputs = papermill("rasp_languages", *words).outputs().replace("\\", "")
    assert "xyz -> x y z" in outputs
    said = (
        "The stored model 'sort, supervised' cannot read 'xyz': sort is written with the symbols 'abcdefghij'"
    )
    assert said in outputs and "Shown is 'cabbage'." in outputs


@pytest.mark.slow
def test_without_the_token_at_the_beginning_and_with_several_seeds(papermill):
    """As the chapter prints it: papermill hands on both values as texts."""
    words = ("-p", "language", "hist", "-p", "bos", "false", "-p", "seeds", "[0, 1]")
    assert {"hist, seed 0", "hist, seed 1"} <= set(papermill("rasp_languages", *words).rows()["run"])


@pytest.mark.slow
def test_a_language_without_target_attention(papermill):
    done = papermill("rasp_languages", "-p", "language", "dyck1_ptf", "-p", "sequence", "(a)(()")
    assert "(a)(() -> P P T P P P" in done.outputs()


@pytest.mark.slow
def test_wrong_parameters_stop_papermill_with_their_words(tmp_path):
    """As a reader calls it, from another folder. Of other chapters, and in other words: `test_refused`."""
    smoke = ROOT / "notebooks/profiles/rasp_languages/smoke.yaml"
    command = [sys.executable, "-m", "papermill", ROOT / "notebooks/rasp_languages.ipynb", "out.ipynb"]
    command += ["-f", smoke, "-p", "n_layers", "two", "-p", "lenght", "9"]
    environment = os.environ | {"ATTNLIB_CACHE": str(tmp_path), "ATTNLIB_RESULTS": str(tmp_path / "results")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "should be a valid integer; got 'two'" in done.stderr and "did you mean 'length'?" in done.stderr
    run = [cell for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells if cell.get("execution_count")]
    assert "from_notebook" in run[-1].source  # the check was the last cell to run
