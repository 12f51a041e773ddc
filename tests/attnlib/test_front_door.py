"""The seven verbs of `attnlib`: there at once, and nothing is imported before one is asked for."""

import subprocess
import sys

import pytest

import attnlib
from attnlib import generators, models, plots, widgets

SLOW = {"torch", "numpy", "pandas", "scipy", "transformers"}


def loaded_by(code: str) -> set[str]:
    """What a fresh process has imported after some code."""
    code += "; import sys; print(*sys.modules, sep=chr(10))"
    return {*subprocess.check_output([sys.executable, "-c", code], text=True).split()}


def test_the_door_itself_imports_nothing():
    assert not loaded_by("import attnlib") & SLOW


@pytest.mark.parametrize("room", ["rollout", "attribution"])
def test_following_a_model_takes_no_more_than_torch(room):
    assert not loaded_by(f"import attnlib.{room}") & {"pandas", "scipy", "transformers", "sympy"}


def test_every_verb_is_what_it_says():
    assert dir(attnlib) == sorted(attnlib.__all__)
    for name in attnlib.__all__:
        verb = getattr(attnlib, name)
        assert verb.__name__ == name
        assert verb is getattr(attnlib, name)


@pytest.mark.parametrize("package", [generators, models, plots, widgets])
def test_every_name_of_a_room_is_where_it_is_said_to_be(package):
    assert dir(package) == sorted(package.__all__)
    for name in package.__all__:
        assert hasattr(package, name), name


def test_an_unknown_verb_is_told_which_there_are():
    with pytest.raises(AttributeError, match=r"no 'rolout_of'\. It has .*load_language.*rollout_of"):
        attnlib.rolout_of  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Transfomer'"):
        from attnlib.models import Transfomer  # noqa: F401
