"""Parameters that once hung, took all memory, or raised a library's own error: refused in words, at once.

They are asked in a process of their own, without the type checks of the tests, which a reader has not either,
with as little memory as would have been too little, and a time limit.
"""

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.parameters import defaults_of, profile

LIMITS = {"memory": 4 * 2**30, "seconds": 60}
ASK = """
import json, os, resource, signal, sys
from book.chapters.refusals import ParameterError
from book.chapters.storing import all_chapters
chapters, (limits, asked) = all_chapters(), json.load(sys.stdin)
resource.setrlimit(resource.RLIMIT_AS, (limits["memory"],) * 2)
said = []
for chapter, values in asked:
    signal.setitimer(signal.ITIMER_VIRTUAL, limits["seconds"])  # of this process alone: others may be busy
    try:
        chapters[chapter].checked(values)
        said.append("accepted")
    except ParameterError as error:
        said.append(str(error))
    except Exception as error:
        said.append(f"raw: {type(error).__name__}: {error}")
json.dump(said, sys.stdout)
"""


def of_task(name: str, part: str = "train", **settings: Any) -> dict[str, Any]:
    return {"tasks": [name], "supervised": [], "override": {name: {part: settings}}}


LONG = "a" * 999
TASKS: list[tuple[dict[str, Any], str]] = [
    (of_task("string_reversal", length=[1, 10**7]), "length must"),
    (of_task("long_addition", length=[1, 5 * 10**6]), "length must"),
    (of_task("long_multiplication", length=[1, 3000]), "length must"),
    (of_task("flip_flop", length=[1, 10**7]), "length must"),
    (of_task("flip_flop", "ood", length=[1, 10**7]), "the ood settings of flip_flop"),
    (of_task("string_reversal", length=[1, 3000]), "scratch reads 2,048 characters; got"),
    (of_task("string_reversal", charset=5), "charset must"),
    (of_task("flip_flop", use_flip="x"), "use_flip must"),
    (of_task("long_addition", num_of_nums=[2, 10**6]), "length must"),
    ({"model": "~nouser/x"}, "model should be a folder that is there, or a name on"),
]
ODD: list[tuple[str, dict[str, Any], str]] = [
    *[("algorithmic_reasoning", change, message) for change, message in TASKS],
    ("generative_rollout", {"model": "~nouser/x"}, "model should be a folder that is there, or a name on"),
    (
        "quantifying_flow",
        {"classifier": "~nouser/x"},
        "classifier should be a folder that is there",
    ),
    *[
        (chapter, {name: LONG}, "cannot be read: File name too long")
        for chapter, name in [
            ("classification_dynamics", "data"),
            ("translation_dynamics", "data"),
            ("arithmetic_lens", "data_folder"),
            ("generative_rollout", "model"),
            ("own_model", "model"),
            ("quantifying_flow", "classifier"),
            ("rasp_languages", "language_file"),
        ]
    ],
]


@cache
def answers() -> list[str]:
    asked = [
        (chapter, defaults_of(chapter) | profile(chapter, "smoke") | {"device": "cpu"} | change)
        for chapter, change, _ in ODD
    ]
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps([LIMITS, asked]),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "ATTNLIB_DATA": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_parameters_are_refused_in_words_before_anything_is_drawn(number: int) -> None:
    chapter, change, message = ODD[number]
    said = answers()[number]
    assert said.startswith("this chapter cannot run with these parameters:\n  - "), (chapter, change, said)
    assert message in said and len(said) < 2000, said
