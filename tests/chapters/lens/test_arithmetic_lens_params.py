"""The parameters of the arithmetic lens: which models they train, and which they refuse."""

import pytest

from book.chapters.lens import ArithmeticLens
from book.chapters.lens.arithmetic_lens import LensRun
from book.chapters.refusals import ParameterError
from tests.parameters import defaults_of

QUICK = defaults_of("arithmetic_lens")
FILES = ("train.txt", "val.txt", "test.txt")


def params(**changes):
    return ArithmeticLens.checked(QUICK | changes)


def test_every_model_has_a_name_and_a_row():
    p = params()
    runs = {run.name: run for run in p.runs()}
    assert list(runs) == list(p.run_table()["run"]) and len(runs) == 8
    assert runs["addition, seed 1"] == LensRun("addition, seed 1", 1, "+")
    name = "addition, scheduled sampling, seed 1"
    assert runs[name] == LensRun(name, 1, "+", sampling=True)
    assert runs["subtraction"] == LensRun("subtraction", 0, "-")
    assert runs["as published, 1,500 drawn"].published == (1500, 2000, 1000)
    assert p.task(runs["addition, units first"]).annotate("21+43=").text == "21+43=640"


def test_what_can_be_left_out():
    p = params(published=[], also=[], sampling=0.0, seeds=[4], problem="7+8=")
    assert [run.name for run in p.runs()] == ["addition", "addition, units first"]
    assert p.question == "7+8=" and params(problem="7+8").question == "7+8="
    without = params(small=0).runs()
    assert len(without) == 7 and without[-1].name == "as published, 20,000 drawn"


def test_the_model_has_room_for_every_problem_of_its_task_and_no_more():
    p = params()
    for run in p.runs():
        task = p.task(run)
        batch = task.batch(p.splits(run).test)
        assert batch.input_ids.shape[1] <= p.config(run).max_length == task.max_length
        assert p.config(run).causal and p.config(run).norm == "post" and p.config(run).activation == "gelu"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": "12++3"}, "there should be a number at character 4"),
        ({"highest": 20}, "cannot be disjoint: there are 400 problems"),
        ({"also": ["/"]}, "operators must be some of"),
        ({"published": [100, 5, 100]}, "three numbers of at least 10"),
        ({"n_operands": 3, "problem": "1+2+3"}, r"say published=\[\]"),
        ({"also": ["-", "-"]}, "a name of its own; got two called 'subtraction': leave out a value"),
        ({"small": 20000}, "got two called 'as published, 20,000 drawn'"),
        (
            {"operators": "*", "also": []},
            r"problem: '58\+67=' is not .*: \+ was not .* '34\*1=34', with -p problem$",
        ),
        ({"n_heads": 5}, "n_heads must divide width=64"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(changes, message):
    with pytest.raises(ParameterError, match=message):
        params(**changes)


def test_problems_are_left_in_a_folder_and_taken_from_it(tmp_path):
    folder, few = tmp_path / "data", {"train_problems": 60, "valid_problems": 20, "test_problems": 30}
    few |= {"published": [60, 20, 30], "small": 0}
    p = params(data_folder=str(folder), **few)
    runs = {run.name: run for run in p.runs()}
    drawn, main = params(**few).splits(runs["addition, seed 0"]), runs["addition, seed 0"]
    task = p.task(main)
    assert task.texts(p.splits(main).test) == task.texts(drawn.test)
    assert sorted(path.name for path in folder.iterdir()) == ["test.txt", "train.txt", "val.txt"]
    (folder / "test.txt").write_text("1+2=3<EOS>\n50+60=110<EOS>\n")
    mine = params(data_folder=str(folder), **few)
    assert task.texts(mine.splits(main).test) == ["1+2=3", "50+60=110"]
    backwards = runs["addition, units first"]
    assert mine.task(backwards).texts(mine.splits(backwards).test) == ["10+20=300", "05+06=011"]
    for name in ("subtraction", "as published, 60 drawn"):
        assert len(mine.splits(runs[name]).test) == 30


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train.txt": "1+2=3"}, "data_folder should hold train.txt, val.txt and test.txt, or nothing"),
        ({"thesis.txt": "mine"}, "nothing at all; got .* holds other files, such as 'thesis.txt'"),
        (dict.fromkeys(FILES, "1+2=4"), "train.txt, line 1: '1\\+2=4' is wrong"),
        (dict.fromkeys(FILES, ""), "train.txt holds no problem"),
    ],
)
def test_a_folder_of_something_else_is_refused(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ParameterError, match=message):
        params(data_folder=str(tmp_path))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files
    for name in (next(iter(files)), "none/new", "<b>"):
        with pytest.raises(ParameterError, match="data_folder should be a folder, or a new one"):
            params(data_folder=str(tmp_path / name))


def test_nothing_is_written_before_training_and_never_among_other_files(tmp_path):
    p = params(data_folder=str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine.txt").write_text("mine")  # after the check
    with pytest.raises(ValueError, match=r"holds other files, such as 'mine\.txt'"):
        p.splits(p.runs()[0])
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine.txt"]
