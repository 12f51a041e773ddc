"""What every explorer's page promises: equal bytes, nothing from outside, and all that its script reads."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import traitlets

from tests.attnlib.widgets import test_alignment_explorer as alignment
from tests.attnlib.widgets import test_dynamics_explorer as dynamics
from tests.attnlib.widgets import test_generation_explorer as generation
from tests.attnlib.widgets import test_measure_explorer as measure
from tests.attnlib.widgets import test_model_explorer as model
from tests.attnlib.widgets import test_program_explorer as program
from tests.attnlib.widgets import test_training_explorer as training
from tests.attnlib.widgets import test_widgets as attention
from tests.explorers import is_harmless, state_of

EXPLORERS = {
    "alignment": (alignment.explorer, {"checkpoint": 0}),
    "attention": (attention.two_examples, {"layer": 1}),
    "dynamics": (dynamics.explorer, {"token": 1}),
    "generation": (generation.two_examples, {"layer": 0}),
    "measure": (measure.explorer, {"item": 1}),
    "model": (model.explorer, {"layer": 1}),
    "program": (program.explorer, {"query": 2}),
    "training": (training.explorer, {"checkpoint": 0}),
}


@pytest.fixture(params=EXPLORERS)
def made(request: pytest.FixtureRequest) -> tuple[Callable[..., Any], dict[str, int]]:
    """An explorer's maker, and a setting that changes what is shown."""
    return EXPLORERS[request.param]


def test_equal_widgets_give_equal_bytes_and_others_do_not(made: Any) -> None:
    explorer, other = made
    assert explorer().to_html() == explorer().to_html() != explorer(**other).to_html()


def test_no_text_can_end_the_script_or_open_a_tag(made: Any) -> None:
    """Of tokens, too, the page holds nothing else than the same JSON."""
    assert is_harmless(made[0](title="</script><b>").to_html())


def test_a_page_asks_for_nothing_from_outside(made: Any) -> None:
    page = made[0]().to_html()
    addresses = set(re.findall(r"https?://[^\s\"'`]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name of SVG's, never requested
    assert not re.search(r"\bimport\b|\bfetch\(|@import|url\(", page)


def test_the_static_page_holds_every_trait_that_the_live_view_reads(made: Any) -> None:
    explorer = made[0]()
    read = set(re.findall(r'(?:model\.get|chooser)\("(\w+)"', str(explorer._esm)))
    held = set(state_of(explorer.to_html()))
    assert read - {"colours"} == held - {"colours"}  # a choice that not every explorer offers


@pytest.mark.parametrize(
    ("explorer", "name", "value", "message"),
    [
        ("attention", "layer", 2, "layer must be from 0 to 1; got 2"),
        ("attention", "head", 3, r"head must be from -1 to 2 \(-1 for the mean of heads\); got 3"),
        ("attention", "query", 4, r"query must be from -1 to 3 \(-1 for none\); got 4"),
        ("attention", "item", 2, "item must be from 0 to 1; got 2"),
        ("dynamics", "token", 4, r"token must be from -1 to 3 \(-1 for none\); got 4"),
        ("generation", "layer", 3, r"layer must be from -1 to 2 \(-1 for the mean over layers\); got 3"),
        ("generation", "generated", 2, "generated must be from 0 to 1; got 2"),
        ("program", "query", 13, r"query must be from -1 to 12 \(-1 for the program's own\); got 13"),
        ("program", "text", "abc", "text must be 12 of the letters a, b, c, d, e; got 'abc'"),
        ("training", "checkpoint", 3, "checkpoint must be from 0 to 2; got 3"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(explorer: str, name: str, value: Any, message: str) -> None:
    make, _ = EXPLORERS[explorer]
    with pytest.raises(traitlets.TraitError, match=message):
        make(**{name: value})
    with pytest.raises(traitlets.TraitError, match=message):
        setattr(make(), name, value)
