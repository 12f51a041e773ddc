"""The exercises of every chapter: three, each with a solution whose command makes the run that it quotes."""

import re
import shlex
from typing import Any, NamedTuple

import pytest

from book.chapters.chapter import Chapter
from book.sealing import read_sealed
from tests.notebooks.command_line import papermill_gives
from tests.notebooks.test_notebooks import CHAPTERS, GUIDES, ROOT
from tests.parameters import CHAPTERS as ALL
from tests.parameters import defaults_of

COMPUTED = {
    **{
        (name, number): "small enough to compute in the page"
        for name in ("methods", "own_model", "random_programs")
        for number in (1, 2, 3)
    },
    ("arithmetic_lens", 1): "asks the stored model",
    ("arithmetic_lens", 2): "asks the stored model",
    ("generative_rollout", 1): "follows from the mask",
}
"""Exercises that quote no recorded number, by chapter and number, and what they quote instead."""

BOX = re.compile(
    r"^`````\{admonition\} Exercise (?P<number>\d): [^\n]+\n:class: exercise\n\n(?P<question>.+?)\n\n"
    r"````\{dropdown\} Solution\n```bash\n(?P<commands>.+?)```\n\n(?P<answer>.+?)\n````\n`````$",
    re.MULTILINE | re.DOTALL,
)


READ = {"attention_intervention": "algorithmic_reasoning"}
"""Pages that only read records, and the chapter whose runs their exercises ask for."""


class Exercise(NamedTuple):
    """One exercise of a page, and the chapter whose runs it asks for."""

    page: str
    chapter: str
    number: int
    question: str
    commands: list[str]
    answer: str


def section(name: str) -> str:
    """The section with the exercises of a chapter, and the title of the one behind it."""
    text = (ROOT / f"notebooks/text/{name}.md").read_text()
    found = re.findall(r"^## Exercises\n.*?(?:^## .+?$|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return found[0]


def exercises(name: str) -> list[Exercise]:
    """Those of a chapter."""
    found = []
    for box in BOX.finditer(section(name)):
        lines = box["commands"].replace("\\\n", "").strip().splitlines()
        found.append(
            Exercise(name, READ.get(name, name), int(box["number"]), box["question"], lines, box["answer"])
        )
    return found


EXERCISES = [exercise for name in CHAPTERS for exercise in exercises(name)]

each_exercise = pytest.mark.parametrize(
    "exercise", EXERCISES, ids=lambda exercise: f"{exercise.page}-{exercise.number}"
)


def given(chapter: str, command: str) -> dict[str, Any]:
    """The parameters that papermill takes from a command."""
    program, *words = shlex.split(command)
    notebook, parameters = papermill_gives(words)
    assert (program, notebook) == ("papermill", f"notebooks/{chapter}.ipynb")
    return parameters


def checked(exercise: Exercise, command: str) -> Chapter:
    """The chapter with the parameters of a command, over the notebook's own."""
    return ALL[exercise.chapter].checked(defaults_of(exercise.chapter) | given(exercise.chapter, command))


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_three_exercises_with_solutions(name: str) -> None:
    text = section(name)
    assert [exercise.number for exercise in exercises(name)] == [1, 2, 3]
    assert text.count("{admonition} Exercise") == text.count("{dropdown} Solution") == 3
    assert name in GUIDES or text.rstrip().endswith("## What to try next")


@each_exercise
def test_a_solution_quotes_numbers_of_its_own(exercise: Exercise) -> None:
    """Glued, so that they are of records or of this build, and a question asks one."""
    assert "{glue:text}`exercise " in exercise.answer
    assert "?" in exercise.question


@each_exercise
def test_the_chapter_takes_the_parameters_of_the_command(exercise: Exercise) -> None:
    for command in exercise.commands:
        defaults, changed = defaults_of(exercise.chapter), given(exercise.chapter, command)
        assert set(changed) <= set(defaults)
        if exercise.chapter in GUIDES:
            assert all(isinstance(value, type(defaults[key])) for key, value in changed.items())
        else:
            checked(exercise, command)


@each_exercise
def test_the_run_of_the_command_is_recorded(exercise: Exercise) -> None:
    name = exercise.chapter
    if (name, exercise.number) in COMPUTED:
        return
    records = [read_sealed(file)["parameters"] for file in (ROOT / f"results/{name}").glob("*.json")]
    for command in exercise.commands:
        assert checked(exercise, command).recorded_parameters in records, f"no record of {command}"
