"""What every explorer's page promises: equal bytes, nothing from outside, and all that its script reads."""

import re
from typing import Any

import pytest
import traitlets

from tests.explorer_table import EXPLORERS, Row
from tests.explorers import is_harmless, state_of


@pytest.fixture(params=EXPLORERS)
def row(request: pytest.FixtureRequest) -> Row:
    return EXPLORERS[request.param]


def test_equal_widgets_give_equal_bytes_and_others_do_not(row: Row) -> None:
    assert row.make().to_html() == row.make().to_html() != row.make(**row.changed).to_html()


def test_no_text_can_end_the_script_or_open_a_tag(row: Row) -> None:
    """Of tokens, too, the page holds nothing else than the same JSON."""
    assert is_harmless(row.make(title="</script><b>").to_html())


def test_a_page_asks_for_nothing_from_outside(row: Row) -> None:
    page = row.make().to_html()
    addresses = set(re.findall(r"https?://[^\s\"'`]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name of SVG's, never requested
    assert not re.search(r"\bimport\b|\bfetch\(|@import|url\(", page)


def test_the_static_page_holds_every_trait_that_the_live_view_reads(row: Row) -> None:
    explorer = row.make()
    read = set(re.findall(r'(?:model\.get|chooser)\("(\w+)"', str(explorer._esm)))
    held = set(state_of(explorer.to_html()))
    assert read - {"colours"} == held - {"colours"}  # a choice that not every explorer offers


@pytest.mark.parametrize(
    ("explorer", "name", "value", "message"),
    [
        ("attention", "layer", 2, "layer must be from 0 to 1; got 2"),
        ("attention", "head", 3, r"head must be from -1 to 2 \(-1 for the mean of heads\); got 3"),
        ("attention", "query", 8, r"query must be from -1 to 7 \(-1 for none\); got 8"),
        ("attention", "item", 2, "item must be from 0 to 1; got 2"),
        ("dynamics", "token", 8, r"token must be from -1 to 7 \(-1 for none\); got 8"),
        ("generation", "layer", 3, r"layer must be from -1 to 2 \(-1 for the mean over layers\); got 3"),
        ("generation", "generated", 4, "generated must be from 0 to 3; got 4"),
        ("program", "query", 13, r"query must be from -1 to 12 \(-1 for the program's own\); got 13"),
        ("program", "text", "abc", "text must be 12 of the letters a, b, c, d, e; got 'abc'"),
        ("training", "checkpoint", 5, "checkpoint must be from 0 to 4; got 5"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(explorer: str, name: str, value: Any, message: str) -> None:
    make = EXPLORERS[explorer].make
    with pytest.raises(traitlets.TraitError, match=message):
        make(**{name: value})
    with pytest.raises(traitlets.TraitError, match=message):
        setattr(make(), name, value)
