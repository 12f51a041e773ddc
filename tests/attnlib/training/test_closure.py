"""Which modules some code reaches by import, without running any."""

import pytest

from attnlib.training.closure import file_of, modules_reached

FILES = {
    "a/__init__.py": "from a.one import first as first, second\nfrom . import three\ndef own(): ...\n",
    "a/one.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import types_alone\n",
    "a/two.py": "from .three import deep\n",
    "a/three.py": "def later():\n    from a.four import x\n",
    "a/four.py": "import a.two\n",
    "a/types_alone.py": "",
    "b/__init__.py": "",
    "c/__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from c.one import lazy\n",
    "c/one.py": "",
    "b/user.py": "from a import first\n",
}


@pytest.mark.parametrize(
    ("source", "reached"),
    [
        ("import numpy", ""),
        ("from a import first", "a.one"),
        ("import a as x\nx.second(x.first)", "a.one"),
        ("import a\nprint(a)", "a a.four a.one a.three a.two"),
        ("from a import own", "a a.four a.one a.three a.two"),
        ("from a import three", "a.four a.three a.two"),
        ("def f():\n    from a.three import deep", "a.four a.three a.two"),
        ("from c import lazy", "c.one"),
        ("import c\nc.lazy()", "c.one"),
        ("import b.user", "a.one b.user"),
        ("from b import user\nuser.f()", "a.one b.user"),
    ],
)
def test_imports_are_followed_to_where_a_name_is_defined(tmp_path, source, reached):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = modules_reached(source=source, house=tmp_path)
    assert " ".join(found) == reached
    assert all(file == file_of(name, tmp_path) for name, file in found.items())


def test_the_loop_reaches_what_a_step_depends_on_and_no_generator():
    found = modules_reached(["attnlib.training.loop"])
    assert {"attnlib.training.plan", "attnlib.training.run", "attnlib.models.seeds"} <= set(found)
    assert not [name for name in found if "generators" in name or "attention" in name]
