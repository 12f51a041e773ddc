"""The chapter from the command line: problems and operators of the reader's own."""

from functools import partial

import pandas as pd
import pytest

from tests.notebooks.command_line import at_smoke, outputs_of

papermill = partial(at_smoke, "arithmetic_lens")
SHORT = ("-y", "published: []", "-y", "also: []", "-p", "sampling", "0", "-p", "steps", "10")


@pytest.mark.notebook
def test_another_problem_and_one_seed_without_the_comparisons(tmp_path):
    done = papermill(
        tmp_path, *SHORT, "-p", "problem", "17+9", "-y", "seeds: [3]", "-p", "tensorboard", "true"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outputs = outputs_of(tmp_path)
    assert "17+9= -> " in outputs and "(right: 26)" in outputs
    assert "data-attnlib" in outputs
    assert "there should be a number at character 4" in outputs and "reads at most max_length" in outputs
    (file,) = (tmp_path / "results" / "arithmetic_lens").glob("*.parquet")
    rows = pd.read_parquet(file)
    assert {"addition", "addition, units first", "over seeds"} == set(rows["run"])
    assert list(tmp_path.glob("arithmetic_lens/*/tensorboard/*"))


@pytest.mark.notebook
def test_products_and_differences_in_one_model(tmp_path):
    done = papermill(tmp_path, *SHORT, "-p", "operators", "-*", "-p", "problem", "4*7", "-p", "n_layers", "1")
    assert done.returncode == 0, done.stderr[-2000:]
    (file,) = (tmp_path / "results" / "arithmetic_lens").glob("*.parquet")
    assert "subtraction and multiplication, seed 0" in set(pd.read_parquet(file)["run"])
