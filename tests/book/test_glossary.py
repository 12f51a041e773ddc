"""What a reader meets by its name is said what it is: measures, and the languages of the RASP chapter."""

import re
from pathlib import Path

import pytest
from pybtex.database import parse_file

import attnlib
from attnlib.attribution import METHODS
from attnlib.attribution.registry import SIGNED
from attnlib.generators import rasp
from book.chapters.rasp.tables import EXAMPLES

ROOT = Path(__file__).parents[2]
TERMS = set(re.findall(r"^(?=\S)(?!```)(.+)\n  ", (ROOT / "book/glossary.md").read_text(), re.MULTILINE))
TERM = re.compile(r"\{term\}`(?P<shown>[^<`]+?)(?: <(?P<term>[^>`]+)>)?`")
LINES = {
    TERM.sub(r"\g<shown>", measure).removesuffix(" ±"): (measure, formula, by)
    for measure, formula, by in re.findall(
        r"^\| (.+?) \| (.+) \| (.+) \|$", (ROOT / "notebooks/text/methods.md").read_text(), re.MULTILINE
    )
}
"""The lines of the tables in *Methods, worked by hand*, by the name that is shown."""


@pytest.mark.parametrize("name", METHODS)
def test_a_measure_has_a_line_with_its_formula_and_its_paper(name: str) -> None:
    measure, formula, by = LINES[name]
    assert len(formula) > 3 and measure.endswith(" ±") == (name in SIGNED)
    keys = set(re.findall(r"\{cite:t\}`(\w+)`", by))
    assert keys or by in {"this book", "in common use"}
    assert keys <= set(parse_file(ROOT / "book/references.bib").entries)


@pytest.mark.parametrize(
    "text", [(ROOT / "README.md").read_text(), attnlib.__doc__], ids=["README", "attnlib"]
)
def test_they_are_as_many_as_is_said(text: str) -> None:
    assert {*re.findall(r"\b(\d+) (?:attribution )?(?:methods|measures)\b", text)} == {str(len(METHODS))}


@pytest.mark.parametrize("name", METHODS)
def test_a_measure_stands_in_the_glossary(name: str) -> None:
    linked = TERM.search(LINES[name][0])
    terms = {linked["term"] or linked["shown"]} if linked else {term for term in TERMS if term in name}
    assert terms and terms <= TERMS


@pytest.mark.parametrize("name", rasp.LANGUAGES)
def test_a_language_has_an_example_in_the_chapter_that_trains_it(name: str) -> None:
    text = (ROOT / "notebooks/text/rasp_languages.md").read_text()
    families = {f"dyck{kinds}_ptf" for kinds in range(3, 9)}
    assert name in EXAMPLES or (name in families and "`dyck3_ptf` to `dyck8_ptf`" in text)
