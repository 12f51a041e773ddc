"""The chapter from the command line: what a reader types, right and wrong."""

from functools import partial

import nbformat
import pandas as pd
import pytest

from tests.notebooks.command_line import at_smoke, outputs_of

papermill = partial(at_smoke, "rasp_languages")


@pytest.mark.notebook
def test_another_language_and_depth(tmp_path):
    done = papermill(tmp_path, "-p", "language", "sort", "-p", "n_layers", "2", "-p", "sequence", "badge")
    assert done.returncode == 0, done.stderr[-2000:]
    outputs = outputs_of(tmp_path)
    assert "badge -> a b d e g" in outputs
    assert "cannot read" not in outputs  # the stored model draws it, too
    assert "data-attnlib" in outputs
    (file,) = (tmp_path / "results" / "rasp_languages").glob("*.parquet")
    runs = set(pd.read_parquet(file)["run"])
    trained = {run for run in runs if not run.endswith(", compiled")}
    assert trained == {"sort", "sort, supervised", "hist, supervised"}
    assert runs - trained == {"reverse, compiled", "hist, compiled", "sort, compiled"}


@pytest.mark.notebook
def test_a_sequence_that_the_stored_model_cannot_read(tmp_path):
    """Its alphabet has ten letters, the chapter's here 26: it says so, and draws its own example."""
    words = ("-p", "language", "sort", "-p", "alphabet_size", "26", "-p", "sequence", "xyz")
    done = papermill(tmp_path, *words)
    assert done.returncode == 0, done.stderr[-2000:]
    outputs = outputs_of(tmp_path).replace("\\", "")
    assert "xyz -> x y z" in outputs
    said = (
        "The stored model 'sort, supervised' cannot read 'xyz': sort is written with the symbols 'abcdefghij'"
    )
    assert said in outputs and "Shown is 'cabbage'." in outputs


@pytest.mark.notebook
def test_without_the_token_at_the_beginning_and_with_several_seeds(tmp_path):
    """As the chapter prints it: papermill hands on both values as texts."""
    done = papermill(tmp_path, "-p", "language", "hist", "-p", "bos", "false", "-p", "seeds", "[0, 1]")
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = (tmp_path / "results" / "rasp_languages").glob("*.parquet")
    assert {"hist, seed 0", "hist, seed 1"} <= set(pd.read_parquet(file)["run"])


@pytest.mark.notebook
def test_a_language_without_target_attention(tmp_path):
    done = papermill(tmp_path, "-p", "language", "dyck1_ptf", "-p", "sequence", "(a)(()")
    assert done.returncode == 0, done.stderr[-2000:]
    outputs = outputs_of(tmp_path)
    assert "(a)(() -> P P T P P P" in outputs


@pytest.mark.notebook
def test_wrong_parameters_stop_papermill_with_their_words(tmp_path):
    """Of other chapters, and in other words: `test_refused`."""
    done = papermill(tmp_path, "-p", "n_layers", "two", "-p", "lenght", "9")
    assert done.returncode != 0
    assert "should be a valid integer; got 'two'" in done.stderr and "did you mean 'length'?" in done.stderr
    run = [cell for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells if cell.get("execution_count")]
    assert "from_notebook" in run[-1].source  # the check was the last cell to run
