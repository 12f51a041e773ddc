"""The parameters of the arithmetic lens: which models they train, and which they refuse."""

import pytest

from attnlib.chapters import ArithmeticLens, LensRun, ParameterError
from tests.parameters import profile, quick

QUICK = quick("arithmetic_lens")


def params(**changes):
    return ArithmeticLens.checked(QUICK | changes)


def test_every_model_has_a_name_and_a_row():
    p = params()
    runs = {run.name: run for run in p.runs()}
    assert list(runs) == list(p.run_table()["run"]) and len(runs) == 10
    assert runs["addition, seed 1"] == LensRun("addition, seed 1", 1, "+")
    name = "addition, scheduled sampling, seed 2"
    assert runs[name] == LensRun(name, 2, "+", sampling=True)
    assert runs["subtraction"] == LensRun("subtraction", 0, "-")
    assert runs["as published, 1,500 drawn"].published == (1500, 2000, 1000)
    assert p.task(runs["addition, units first"]).annotate("21+43=").text == "21+43=640"


def test_what_can_be_left_out():
    p = params(published=[], also=[], sampling=0.0, seeds=[4], problem="7+8=")
    assert [run.name for run in p.runs()] == ["addition", "addition, units first"]
    assert p.question == "7+8=" and params(problem="7+8").question == "7+8="
    assert (
        len(params(small=0).runs()) == 9 and params(small=0).runs()[-1].name == "as published, 20,000 drawn"
    )


def test_the_model_has_room_for_every_problem_of_its_task():
    p = params()
    for run in p.runs():
        task = p.task(run)
        batch = task.batch(p.splits(run).test)
        assert batch.input_ids.shape[1] <= p.config(run).max_length
        assert p.config(run).causal and p.config(run).norm == "post" and p.config(run).activation == "gelu"


@pytest.mark.parametrize("which", ["smoke", "quick", "paper"])
def test_profiles_can_run(which):
    p = params(**profile("arithmetic_lens", which))
    for run in p.runs():
        p.plan(run)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": "12++3"}, "there should be a number at character 4"),
        ({"problem": "1200+3"}, "1200 is not from 1 to 99"),
        ({"problem": "12*3"}, r"\* was not asked for"),
        ({"highest": 20}, "cannot be disjoint: there are 400 problems"),
        ({"also": ["/"]}, "operators should be some of"),
        ({"published": [100, 5, 100]}, "three numbers of at least 10"),
        ({"published": [100]}, "three numbers of at least 10"),
        ({"n_operands": 3, "problem": "1+2+3"}, r"say published=\[\]"),
        ({"n_heads": 5}, "n_heads must divide width=64"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(changes, message):
    with pytest.raises(ParameterError, match=message):
        params(**changes)
