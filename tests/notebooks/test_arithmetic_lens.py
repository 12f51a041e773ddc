"""The chapter with what a reader types: problems and operators of the reader's own."""

import pytest

SHORT = ("-y", "published: []", "-y", "also: []", "-p", "sampling", "0", "-p", "steps", "10")

pytestmark = pytest.mark.notebook


@pytest.mark.slow
def test_another_problem_and_one_seed_without_the_comparisons(papermill, tmp_path):
    words = ("-p", "problem", "17+9", "-y", "seeds: [3]", "-p", "tensorboard", "true")
    done = papermill("arithmetic_lens", *SHORT, *words)
    outputs = done.outputs()
    assert "17+9= -> " in outputs and "(right: 26)" in outputs
    assert "data-attnlib" in outputs
    assert {"addition", "addition, units first", "over seeds"} == set(done.rows()["run"])
    assert list(tmp_path.glob("arithmetic_lens/*/tensorboard/*"))


@pytest.mark.slow
def test_products_and_differences_in_one_model(papermill):
    words = ("-p", "operators", "-*", "-p", "problem", "4*7", "-p", "n_layers", "1")
    runs = papermill("arithmetic_lens", *SHORT, *words).rows()["run"]
    assert "subtraction and multiplication, seed 0" in set(runs)
