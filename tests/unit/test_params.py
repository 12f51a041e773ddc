"""Parameters: what is allowed passes, and everything else is told what was."""

from pathlib import Path

import pytest
import yaml

from attnlib.chapters import GenerativeRolloutParams, ParameterError, RaspParams

PROFILES = Path(__file__).parents[2] / "notebooks" / "profiles" / "rasp_languages"
QUICK = yaml.safe_load((PROFILES / "quick.yaml").read_text())


def test_the_runs_of_the_default_parameters():
    assert RaspParams.checked(QUICK).runs() == {
        "sort": ("sort", False, 0),
        "sort, supervised": ("sort", True, 0),
        "reverse": ("reverse", False, 0),
        "hist, supervised": ("hist", True, 0),
    }


def test_seeds_multiply_runs_and_get_into_names():
    p = RaspParams.checked(QUICK | {"also": [], "seeds": [3, 4]})
    assert list(p.runs()) == [
        "sort, seed 3",
        "sort, seed 4",
        "sort, supervised, seed 3",
        "sort, supervised, seed 4",
    ]
    assert list(p.run_table()["run"]) == list(p.runs())


def test_a_model_without_room_for_the_program_is_trained_unsupervised():
    p = RaspParams.checked(QUICK | {"n_layers": 1})
    assert p.size("sort") == (1, 1)
    assert "sort, supervised" not in p.runs()


def test_plans_of_different_runs_differ_and_those_of_the_same_run_do_not():
    p = RaspParams.checked(QUICK)
    settings = [str(p.plan(*run).settings()) for run in p.runs().values()]
    assert len(set(settings)) == len(settings)
    same_run = RaspParams.checked(QUICK | {"sequence": "abc", "test_samples": 50})
    assert settings == [str(same_run.plan(*run).settings()) for run in same_run.runs().values()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"language": "srot"}, r"got 'srot'; did you mean 'sort'\?"),
        ({"also": ["hist", "revers"]}, r"did you mean 'reverse'\?"),
        ({"lenght": 5}, r"no parameter 'lenght'; did you mean 'length'\?"),
        ({"colour": "red"}, "no parameter 'colour'; there are language, also"),
        ({"n_layers": "two"}, "n_layers: should be a valid integer; got 'two'"),
        ({"n_layers": 1.5}, "n_layers: should be a valid integer"),
        ({"bos": "yes"}, "bos: should be a valid boolean; got 'yes'"),
        ({"length": 0}, "length: should be greater than or equal to 1; got 0"),
        ({"n_heads": 3}, "got width 64 and n_heads 3 for sort .n_heads may be 1, 2, 4, 8, 16"),
        ({"alphabet_size": 11}, "should be one of 10, 26, 52, 100; got 11"),
        ({"supervision": -1}, "supervision: should be greater than 0; got -1"),
        ({"schedule": "linear"}, "'onecycle', 'exponential' or 'constant'; got 'linear'"),
        ({"language": "dyck5_ptf"}, "the paper has no model for dyck5_ptf"),
        ({"sequence": "cat"}, "symbols 'abcdefghij'; 'cat' has 't'"),
        ({"length": 3, "sequence": "abcd"}, "at most length = 3 symbols; got 'abcd'"),
        ({"supervised": ["sort"], "n_layers": 1}, "leave room for the heads that sort supervises"),
        ({"seeds": []}, "seeds: .*at least 1 item"),
    ],
)
def test_what_is_not_allowed_is_told_what_is(change, message):
    with pytest.raises(ParameterError, match=message) as caught:
        RaspParams.checked(QUICK | change)
    assert caught.value.__cause__ is None and caught.value.__context__ is None  # no traceback of pydantic's


def test_all_problems_are_told_at_once():
    with pytest.raises(ParameterError) as caught:
        RaspParams.checked(QUICK | {"length": 0, "width": "big", "colour": 1})
    assert str(caught.value).count("\n  - ") == 3


def test_missing_parameters_are_named():
    with pytest.raises(ParameterError, match="width is missing: numbers per token"):
        RaspParams.checked({name: value for name, value in QUICK.items() if name != "width"})


def test_a_notebooks_names_are_read_and_its_other_names_left_alone():
    import math

    names = {
        **QUICK,
        "_private": 1,
        "In": [""],
        "Out": {},
        "math": math,
        "helper": len,
        "__name__": "__main__",
    }
    p = RaspParams.from_notebook(names)
    assert p == RaspParams.checked(QUICK)
    with pytest.raises(ParameterError, match="no parameter 'epochs'"):
        RaspParams.from_notebook({**names, "epochs": 5})
    # the cell run again by a reader, after later cells have defined names of their own
    assert RaspParams.from_notebook({**names, "p": p, "text": "cab", "width": 32}).width == 32


ROLLOUT = yaml.safe_load((PROFILES.parent / "generative_rollout" / "quick.yaml").read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens: should be greater than or equal to 1; got 0"),
        ({"facts": [1]}, "facts should be numbers from 2 to 20"),
        ({"needles": -1}, "needles: should be greater than or equal to 0"),
        ({"modle": "gpt2"}, "did you mean 'model'"),
    ],
)
def test_the_rollout_chapter_is_told_what_is_allowed(change, message):
    assert GenerativeRolloutParams.checked(ROLLOUT).needles == 40
    with pytest.raises(ParameterError, match=message):
        GenerativeRolloutParams.checked(ROLLOUT | change)
