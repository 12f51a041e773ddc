"""Wrong parameters stop a chapter at its first check: nothing is trained, and nothing is written."""

import re
from pathlib import Path
from typing import Any

import pytest
from nbclient.exceptions import CellExecutionError

from tests.notebooks.one_kernel import Execute, chapter_with
from tests.parameters import profile

WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    "algorithmic_reasoning": [
        ({"tasks": ["string_reverse"]}, "did you mean 'string_reversal'"),
        ({"tasks": ["string_reversal"], "text": "abc=abc"}, "'abc=abc' is not right"),
        ({"override": {"string_reversal": {"ood": {"length": [9, 2]}}}}, "fewest <= most; got (9, 2)"),
    ],
    "arithmetic_lens": [
        ({"problem": "12++3"}, "there should be a number at character 4"),
        ({"problem": "12-3"}, "- was not asked for"),
        ({"problem": "99+1"}, "99 is not from 1 to 30"),
        ({"train_problems": 9000}, "cannot be disjoint: there are 900 problems"),
        ({"widht": 32}, "did you mean 'width'?"),
    ],
    "classification_dynamics": [
        ({"data": "plantd"}, "did you mean 'planted'?"),
        ({"data": "mine", "folder": "nowhere"}, "there is no such folder"),
        ({"difficulty": 2.0}, "should be less than or equal to 1; got 2.0"),
    ],
    "rasp_languages": [
        ({"language": "srot"}, "did you mean 'sort'?"),
        ({"n_layers": "two"}, "should be a valid integer; got 'two'"),
    ],
    "sequence_copying": [
        ({"symbols": 3}, "symbols should be at least length = 4"),
        ({"budgets": [500]}, "budgets should be from 1 to steps = 20; got [500]"),
        ({"options": ["both"]}, "options.0: should be one of both directions, without context"),
        ({"head_start": 3}, "did you mean 'head_starts'?"),
    ],
    "translation_dynamics": [
        ({"data": "invent"}, "did you mean 'invented'?"),
        ({"data": "mine", "folder": "nowhere"}, "there is no such folder"),
        ({"dropout": 1.0}, "should be less than 1; got 1.0"),
        ({"checkpoints": [700]}, "checkpoints should be from 0 to steps"),
        ({"languages": ["de", "en"]}, "languages cannot be given for invented"),
        ({"vocabulary": 50}, "vocabulary cannot be given for invented"),
    ],
}

pytestmark = pytest.mark.notebook


@pytest.mark.parametrize(
    ("chapter", "wrong", "message"),
    [
        pytest.param(chapter, *each, id=f"{chapter}-{number}")
        for chapter, several in WRONG.items()
        for number, each in enumerate(several)
    ],
)
def test_wrong_parameters_stop_the_chapter_before_it_trains(
    execute: Execute, tmp_path: Path, chapter: str, wrong: dict[str, Any], message: str
) -> None:
    notebook = chapter_with(chapter, profile(chapter, "smoke") | wrong)
    with pytest.raises(CellExecutionError, match=re.escape(message)):
        execute(notebook, tmp_path)
    failed = next(
        cell for cell in notebook.cells if any(it.output_type == "error" for it in cell.get("outputs", []))
    )
    assert "from_notebook" in failed.source  # the check
    assert list(tmp_path.iterdir()) == []
