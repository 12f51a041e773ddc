"""What pages say in words agrees with what they are about, as far as that can be read off them.

Numbers of records and of the build are glued, claims are judged, and figures are named by their captions.
Here is what else can be typed wrong: a measured number, a count, a version, a command, a path, a message.
"""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import nbformat
import pandas as pd
import pytest

import attnlib

ROOT = Path(__file__).parents[2]
FENCED = re.compile(
    r"^([`~]{3,})(?:\{code-cell\}|\{math\}|bash|python|pycon|text).*?^\1$", re.MULTILINE | re.DOTALL
)
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [
        ROOT / "README.md",
        ROOT / "index.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "book").glob("*.md"),
    ]
}
CHAPTERS = {
    str(path.relative_to(ROOT)): "\n\n".join(
        cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown"
    )
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
}
each_page = pytest.mark.parametrize("name", PAGES | CHAPTERS)

MEASURED = re.compile(r"\d[\d.,]* ?(?:%|points\b)|\[[-+]?\d[\d.]*, [-+]?\d[\d.]*(?=\]|;)|\bn = \d+")
DEFINED = re.compile(
    r"95 %|(?:level of|top|should be|bf16, to) 5 %|\b5 % most|by 0 %|at 100 %|2\.5 % each|\(n = 3\)|"
    "under 9 points"
)
"""Levels of intervals, parts of definitions, ends of scales, and a size of letters."""


@each_page
def test_what_was_measured_is_glued_not_typed(name: str) -> None:
    """Those of the README are held against the records by `tests/chapters/test_findings.py`."""
    prose = FENCED.sub("", (PAGES | CHAPTERS)[name] if name != "README.md" else "")
    for paragraph in prose.split("\n\n"):
        for found in MEASURED.finditer(re.sub(r"\$[^$]+\$|`[^`]+`", "", paragraph)):
            near = found.string[max(0, found.start() - 12) : found.end() + 8]
            assert DEFINED.search(near), f"typed: ...{near}..."


COUNTED: dict[str, tuple[str, Callable[[], int]]] = {
    r"holds (\w+) (?:tests of the second )?against known answers": ("index.md", lambda: _judges()),
    r"\[(\w+) small tasks\]": ("index.md", lambda: PAGES["book/tasks.md"].count("{dropdown} Solution")),
    r"a needle in (\w+) cells": ("index.md", lambda: _cells("Find a needle")),
    r"Find a needle in (\w+) cells": ("book/think.md", lambda: _cells("Find a needle")),
    r"\| (\w+) verbs, and the rooms": ("book/api.md", lambda: len(attnlib.__all__)),
}
NUMERALS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
WORDS = {word: n for n, word in enumerate(NUMERALS)} | {"twenty": 20}


def _cells(heading: str) -> int:
    (section,) = re.findall(rf"^## {heading}.*?(?=^## |\Z)", PAGES["book/think.md"], re.MULTILINE | re.DOTALL)
    return int(section.count("```pycon\n"))


def _judges() -> int:
    """Of the recorded run with most."""
    tables = map(pd.read_parquet, (ROOT / "results/judging_measures").glob("*.parquet"))
    metrics = (table["metric"].astype(str) for table in tables)
    return max(int(names[names.str.startswith("tau: ")].nunique()) for names in metrics)


@pytest.mark.parametrize("said", COUNTED)
def test_there_are_as_many_as_a_page_says(said: str) -> None:
    page, count = COUNTED[said]
    (word,) = re.findall(said, PAGES[page])
    assert (WORDS[word] if word in WORDS else int(word)) == count()


@each_page
def test_commands_and_paths_of_the_project_are_there(name: str) -> None:
    text = (PAGES | CHAPTERS)[name]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"`make ([a-z-]+)\b", text)) <= set(targets)
    tops = "attnlib|book|notebooks|tests|sweeps|benchmarks|results"
    for path in re.findall(rf"`((?:{tops})/[\w./-]+)`", text):
        assert (ROOT / path).exists() or "X" in path, path


@each_page
def test_the_python_that_is_asked_for_is_the_projects(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for version in re.findall(r"Python (3\.\d+)(?: or newer| to)", (PAGES | CHAPTERS)[name]):
        assert f">={version}" == project["requires-python"]


OTHERS = {
    "A cell timed out while it was being executed, after 4 seconds",
    "Kernel didn't respond in 60 seconds",
    "ensurepip is not available",
    "Passed unknown parameter",
    "The kernel died",
}
"""Messages of other programs."""
COMPOSED = re.compile(
    r"\[(?:other code|uncommitted changes|no checksum)\]|failed in cell|_toc.yml names|the checkpoint of a"
)
"""Messages with a part that is put in."""


def test_a_message_on_the_page_of_errors_is_one_that_the_book_gives() -> None:
    sources = [*ROOT.glob("attnlib/**/*.py"), *ROOT.glob("attnlib/**/*.js"), *ROOT.glob("book/**/*.py")]
    given = re.sub(r'"\s*\n\s*r?f?"', "", "".join(path.read_text() for path in [*sources, ROOT / "Makefile"]))
    heads = re.findall(r"^\*\*(.+?)\*\*", PAGES["book/errors.md"], re.MULTILINE | re.DOTALL)
    messages = [code for head in heads for code in re.findall(r"`([^`]+)`", head)]
    assert len(messages) > 20
    for message in messages:
        for part in re.split(r"\.\.\.|\b[XN]\b", " ".join(message.split())):
            known = part.strip(": ") in given or message in OTHERS or COMPOSED.search(message)
            assert known, part
