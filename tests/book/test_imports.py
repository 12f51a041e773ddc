"""Which modules some code reaches by import, without running any."""

import pytest

from book.pipeline.imports import file_of, modules_reached

FILES = {
    "attnlib/__init__.py": "from attnlib.one import first, second\nfrom . import three\ndef own(): ...\n",
    "attnlib/one.py": "from typing import *\nif TYPE_CHECKING:\n    from attnlib import types_alone\n",
    "attnlib/two.py": "from .three import deep\n",
    "attnlib/three.py": "def later():\n    from attnlib.four import x\n",
    "attnlib/four.py": "import attnlib.two\n",
    "attnlib/types_alone.py": "",
    "book/__init__.py": "",
    "book/user.py": "from attnlib import first\n",
}


@pytest.mark.parametrize(
    ("source", "reached"),
    [
        ("import numpy", ""),
        ("from attnlib import first", "attnlib.one"),
        ("import attnlib as x\nx.second(x.first)", "attnlib.one"),
        ("import attnlib\nprint(attnlib)", "attnlib attnlib.four attnlib.one attnlib.three attnlib.two"),
        ("from attnlib import own", "attnlib attnlib.four attnlib.one attnlib.three attnlib.two"),
        ("from attnlib import three", "attnlib.four attnlib.three attnlib.two"),
        ("def f():\n    from attnlib.three import deep", "attnlib.four attnlib.three attnlib.two"),
        ("import book.user", "attnlib.one book.user"),
        ("from book import user\nuser.f()", "attnlib.one book.user"),
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
    assert {"attnlib.training.plan", "attnlib.training.run", "attnlib.models.base"} <= set(found)
    assert {name for name in found if "generators" in name or "attention" in name} <= {
        "attnlib.generators.base"
    }
