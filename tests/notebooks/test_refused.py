"""Wrong parameters stop a chapter at its first check: nothing is trained, and nothing is written."""

import re
from pathlib import Path
from typing import Any

import pytest
from nbclient.exceptions import CellExecutionError

from tests.notebooks.one_kernel import Execute, chapter_with
from tests.parameters import profile

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "algorithmic_reasoning": ({"tasks": ["string_reverse"]}, "did you mean 'string_reversal'"),
    "arithmetic_lens": ({"problem": "99+1"}, "99 is not from 1 to 30"),
    "classification_dynamics": ({"data": "mine", "folder": "nowhere"}, "there is no such folder"),
    "rasp_languages": ({"n_layers": "two"}, "should be a valid integer; got 'two'"),
    "sequence_copying": ({"budgets": [500]}, "budgets should be from 1 to steps = 20; got [500]"),
    "translation_dynamics": ({"vocabulary": 50}, "vocabulary cannot be given for invented"),
}
"""One of each: what a chapter refuses is asked of its class (tests/chapters), here that it stops at once."""
pytestmark = pytest.mark.notebook


@pytest.mark.parametrize("chapter", WRONG)
def test_wrong_parameters_stop_the_chapter_before_it_trains(
    execute: Execute, tmp_path: Path, chapter: str
) -> None:
    wrong, message = WRONG[chapter]
    notebook = chapter_with(chapter, profile(chapter, "smoke") | wrong)
    with pytest.raises(CellExecutionError, match=re.escape(message)):
        execute(notebook, tmp_path)
    failed = next(
        cell for cell in notebook.cells if any(it.output_type == "error" for it in cell.get("outputs", []))
    )
    assert "from_notebook" in failed.source  # the check
    assert list(tmp_path.iterdir()) == []
