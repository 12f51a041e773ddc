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
        ROOT / "attnlib/README.md",
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
each_chapter = pytest.mark.parametrize("name", CHAPTERS)

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
        for found in MEASURED.finditer(re.sub(r"\$[^$]+\$|`[^`]+`|\]\([^)]*\)", "", paragraph)):
            near = found.string[max(0, found.start() - 12) : found.end() + 8]
            assert DEFINED.search(near), f"typed: ...{near}..."


COUNTED: dict[str, tuple[str, Callable[[], int]]] = {
    r"Which of (\w+) faithfulness metrics": ("index.md", lambda: _judges()),
    r"\[(\w+) small tasks\]": ("index.md", lambda: PAGES["book/tasks.md"].count("{dropdown} Solution")),
    r"an example in (\w+) cells": ("index.md", lambda: _cells("Find a needle")),
    r"Find a needle in (\w+) cells": ("book/think.md", lambda: _cells("Find a needle")),
    r"\| (\w+) top-level functions": ("book/api.md", lambda: len(attnlib.__all__)),
}
NUMERALS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
WORDS = {word: n for n, word in enumerate(NUMERALS)} | {"twenty": 20}


def _cells(heading: str) -> int:
    (section,) = re.findall(rf"^## {heading}.*?(?=^## |\Z)", PAGES["book/think.md"], re.MULTILINE | re.DOTALL)
    return int(section.count("```pycon\n"))


def _judges() -> int:
    """Of the recorded run with most."""
    tables = map(pd.read_parquet, (ROOT / "results/faithfulness_metrics").glob("*.parquet"))
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


def test_the_release_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert [project["version"]] == cited == [attnlib.__version__]


OTHERS = {
    "A cell timed out while it was being executed, after 4 seconds",
    "Kernel didn't respond in 60 seconds",
    "ensurepip is not available",
    "Passed unknown parameter",
    "The kernel died",
}
"""Messages of other programs."""
COMPOSED = re.compile(
    r"\[(?:uncommitted changes|no checksum)\]|failed in cell|_toc.yml names|the checkpoint of a"
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


STUDY = (
    "Why this matters",
    "The claim we test",
    "A worked example",
    "Setup",
    ("Paper vs", "Predictions vs"),
    "Summary and limitations",
    "Run it again",
    "Exercises",
)
SHAPES = {
    "methods": ("Why this matters", "Setup", "Summary and limitations", "Run it again", "Exercises"),
    "own_model": ("Why this matters", "A worked example", "Summary and limitations", "Exercises"),
}
"""What the headings of a chapter begin with, in any order: of a study, or of one that repeats none."""

BANNED = re.compile(
    r"\b(?:judges?|judged|known answers|the truth itself|by heart|blank out|push(?:ed|es)?|dr[ae]ws? on|"
    r"even attention|(?:not|nobody) told|told apart|told R|untold|not settled|does not show it|twins?|slips?|"
    r"ladder|rungs?|disturb\w*|drawn blindly|laid down|next to no|by way of a)\b",
    re.IGNORECASE,
)
"""Words that are this project's alone; the field has others, and the glossary says which."""

ROLE = re.compile(r"\{(?:term|doc|ref)\}`(?:([^`<]*?)\s*<[^`]*>|([^`]*))`|\{[\w:.-]+\}`[^`]*`")
BOX = re.compile(r"```\{admonition\} In one minute\n:class: one-minute\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _prose(text: str) -> str:
    """The text as it is read: without code, formulas and the targets of links; a glued value is a dash."""
    text = FENCED.sub("", re.sub(r"\A---\n.*?^---\n", "", text, flags=re.MULTILINE | re.DOTALL))
    text = re.sub(r"\$\$.*?\$\$(?: \([\w-]+\))?", "", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]*\$", "x", text)  # before tags: a formula may have a <
    text = re.sub(r"^%.*?$|^\([\w-]+\)=$|<[^>]+>", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{glue:\w+\}`[^`]*`", "–", text)
    text = ROLE.sub(lambda found: found[1] or found[2] or "", text)
    text = re.sub(r"\[(Figure|Table) [\w-]+\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^[`~:]{3,}.*$|^:[\w-]+:.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"`[^`]*`", "x", text)


def _sentences(text: str) -> list[str]:
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) )|(?<=\|)", _prose(text))
    ended = (
        re.split(r"(?<=[.!?:])[*)”\"]*\s+", " ".join(block.split()).lstrip("-*#|> ")) for block in blocks
    )
    return [each.lstrip("*_ (") for block in ended for each in block if each]


@each_page
def test_no_sentence_begins_with_of(name: str) -> None:
    assert [each for each in _sentences((PAGES | CHAPTERS)[name]) if each.startswith("Of ")] == []


@each_page
def test_it_has_the_words_of_the_field(name: str) -> None:
    """The glossary has both, as *also called*."""
    if name != "book/glossary.md":
        assert [each for each in _sentences((PAGES | CHAPTERS)[name]) if BANNED.search(each)] == []


GLUED, NAME = re.compile(r"\{glue:\w+\}`[^`]*`"), re.compile(r"(\*+)\{glue:\w+\}`[^`]*`\1")


@each_chapter
def test_no_sentence_has_more_than_two_numbers(name: str) -> None:
    """Glued ones; what is glued in italics is the name of a method."""
    marked = GLUED.sub("\N{LARGE CIRCLE}", NAME.sub("name", CHAPTERS[name]))
    assert [each for each in _sentences(marked) if each.count("\N{LARGE CIRCLE}") > 2] == []


@each_chapter
def test_the_box_takes_a_minute(name: str) -> None:
    (box,) = BOX.findall(CHAPTERS[name])
    shown = _prose(box)
    assert len([word for word in shown.split() if word != "*"]) <= 120
    assert not re.search(r"[()\[\]]", shown) and ", in full`" not in box
    assert shown.count("–") <= 7, "five numbers, and two names or clauses that depend on them"


NAMES = "alpha|beta|gamma|delta|Delta|rho|xi|tau|sigma|theta|lambda|mu|phi|psi|omega|epsilon|pi"


def _symbols(formula: str) -> set[str]:
    """Its letters, without words and commands."""
    spelled = re.sub(r"\\(?:text|operatorname|math\w+|begin|end)\*?\{[^}]*\}", " ", formula)
    letters = re.sub(r"\\[A-Za-z]+", " ", spelled)
    return {*re.findall(rf"\\({NAMES})\b", spelled), *re.findall(r"[A-Za-z]", letters)}


@each_chapter
def test_every_symbol_of_a_formula_is_named_on_its_page(name: str) -> None:
    """In the text, on the left of an equation, or as what a sum runs over."""
    text = FENCED.sub("", CHAPTERS[name])
    formulas = re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)
    inline = re.findall(r"\$([^$]+)\$", re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL))
    known = _symbols(" ".join(inline))
    for formula in formulas:
        parts = (part.partition("=") for part in re.split(r"\\\\|\\q?quad|,\s", formula))
        known |= {each for left, equals, _ in parts if equals for each in _symbols(left)}
    for formula in formulas:
        over = _symbols(" ".join(re.findall(r"\\(?:sum|prod|max|min|arg)\w*_\{?(\w)", formula)))
        assert _symbols(formula) - known - over == set(), formula


@each_chapter
def test_it_has_the_sections_of_its_kind(name: str) -> None:
    headings = re.findall(r"^## (.+)$", FENCED.sub("", CHAPTERS[name]), re.MULTILINE)
    for part in SHAPES.get(Path(name).stem, STUDY):
        assert [each for each in headings if each.startswith(part)], part
