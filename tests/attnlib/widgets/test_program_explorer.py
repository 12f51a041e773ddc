"""The explorer of programs: what it checks, and what it tells its page."""

from typing import Any

import numpy as np
import pytest

from attnlib.widgets import ProgramExplorer
from tests.explorers import COUNT, POINTER, program_explorer, raw


def test_the_page_gets_every_relation_mask_and_table_of_a_program() -> None:
    made = program_explorer()
    assert repr(made) == "ProgramExplorer: 2 programs"
    for index, given in enumerate((POINTER, COUNT)):
        shown, program = made.items[index], given["program"]
        assert (shown["alphabet"], shown["length"], shown["text"]) == (
            program.alphabet,
            program.length,
            given["text"],
        )
        parts = [
            getattr(each, name)
            for each in program.variables
            for name in ("relation", "allowed", "table")
            if getattr(each, name) is not None
        ]
        assert (
            raw(made, index).tolist() == np.concatenate([part.ravel() for part in parts]).astype(int).tolist()
        )
        assert [each["line"] for each in shown["variables"] if each["line"]] == [*program.lines()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": "abc"}, "program 'p': text must be 12 of the letters a, b, c, d, e; got 'abc'"),
        ({"query": 0}, "query must"),
        ({"query": 13}, "query must"),
        ({"tokens": 1}, "must hold program, text and query"),
    ],
)
def test_what_is_not_valid_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProgramExplorer({"p": POINTER | changes})
