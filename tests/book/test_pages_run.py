"""What Python prints on the pages for newcomers is what it prints."""

import doctest
import re
from pathlib import Path

import pytest

from tests.pretrained import books_file

ROOT = Path(__file__).parents[2]


def session(page: str) -> tuple[str, str]:
    """The Python before the first block that loads a language model, and that block with the rest, if any."""
    text = (ROOT / f"book/{page}.md").read_text()
    all_of_it = "".join(re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL))
    place = all_of_it.find(">>> import attnlib\n>>> model, tokenizer = attnlib.load_language_model()")
    return (all_of_it, "") if place < 0 else (all_of_it[:place], all_of_it[place:])


def wrong_with(text: str) -> list[str]:
    """What does not come out as the page says."""
    told = doctest.DocTestParser().get_doctest(text, {}, "page", None, None)
    assert len(told.examples) > 5
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(told, out=said.append)
    return said


@pytest.mark.parametrize("page", ["tasks", "think"])
def test_a_session_prints_what_the_page_says(page: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert wrong_with(session(page)[0]) == []


@pytest.mark.slow
def test_the_needle_is_found_as_the_page_says(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ATTNLIB_CACHE", str(books_file().parents[1]))
    monkeypatch.chdir(tmp_path)
    assert wrong_with(session("think")[1]) == []
    assert (tmp_path / "needle.html").stat().st_size > 10_000


def test_there_are_twenty_tasks_each_with_a_place_to_look_and_a_solution() -> None:
    tasks = (ROOT / "book/tasks.md").read_text().split("\n## ")[1:]
    assert [int(task.split(".")[0]) for task in tasks] == list(range(1, 21))
    for task in tasks:
        assert "*Where to look:*" in task and "{dropdown} Solution\n```pycon\n>>> " in task
