"""The explorer of programs in Chromium, with the network off; its numbers are those of the library."""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlib.attribution.registry import METHODS, attributions
from attnlib.benchmarking.compiling import Disguise, compiled
from attnlib.benchmarking.population import draw
from attnlib.benchmarking.programs import Program
from attnlib.benchmarking.questions import precision
from attnlib.widgets import ProgramExplorer
from tests.browser import Page, downloaded
from tests.explorers import program_explorer

pytestmark = pytest.mark.book

ASKED = ("rollout", "mean attention", "raw attention, last layer")


def symbols(page: Page) -> Any:
    return page.get_by_role("button", name=re.compile("^Symbol "))


def outputs(page: Page) -> Any:
    return page.get_by_role("button", name=re.compile("^Output "))


def by_hand(program: Program, text: str, query: int) -> dict[str, np.ndarray]:
    """What the library says of every token but the beginning: values, both truths, and scores of methods."""
    ids = np.array([[program.alphabet, *("abcdefgh".index(letter) for letter in text)]])
    values, at = program.values(ids), np.array([query])
    found = {f"v{number}": values[number][0, 1:] for number in program.used() if number > 1}
    found |= {"reads": program.reads(ids)[0, query, 1:], "causes": program.causes(ids, at)[0, 1:]}
    methods = {name: METHODS[name] for name in ASKED}
    target = torch.from_numpy(program.outputs(ids)[0, at])
    model = compiled(program, Disguise(), checked=0)
    scores = attributions(model, torch.from_numpy(ids), methods, None, query, target)
    return found | {name: each[0, 1:].double().detach().numpy() for name, each in scores.items()}


@pytest.mark.parametrize("seed", [1000, 1001, 1005, 1010, 1013, 1016])
def test_the_page_computes_what_the_library_does(opened: Any, tmp_path: Path, seed: int) -> None:
    """Values, both truths, and attention of the transformer that the program is compiled to."""
    program, rng = draw(seed), np.random.default_rng(seed)
    text = "".join("abcdefgh"[i] for i in rng.integers(program.alphabet, size=program.length))
    query = int(rng.integers(1, program.tokens))
    made = ProgramExplorer({"p": {"program": program, "text": text, "query": query}})
    page = opened(made)
    downloaded(page, "Save as CSV", tmp_path / "numbers.csv")
    rows = [*csv.DictReader((tmp_path / "numbers.csv").open())]
    assert "".join(row["symbol"] for row in rows) == text
    for name, wanted in by_hand(program, text, query).items():
        shown = [row[name] for row in rows]
        if name.startswith("v"):
            names = program.value_names(int(name[1:]))
            assert shown == [names[value] for value in wanted], name
        else:
            np.testing.assert_allclose(np.array(shown, float), wanted, atol=1e-3, err_msg=name)


def test_a_method_gets_the_score_of_the_chapter(opened: Any) -> None:
    page = opened(program_explorer(item=1))
    found = by_hand(draw(1010), "bcddcccbcc", 6)
    candidates = np.arange(1, 11) != 6
    for name in ASKED:
        for truth in ("reads", "causes"):
            sources = found[truth].astype(bool) & candidates
            (score,) = precision(found[name][None], sources[None], candidates[None])
            line = page.locator(".attnr-line", has_text=re.compile(f"^{name}"))
            expected = f"{score:.2f} by {truth}".replace("-", "−")
            assert np.isnan(score) or expected in line.inner_text(), (name, truth)


def test_another_symbol_changes_what_is_computed_from_it(opened: Any) -> None:
    page = opened(program_explorer())
    question = page.locator(".attnr-question")
    assert question.inner_text() == "Which tokens matter for the output b at position 12?"
    symbols(page).first.click()  # a names position 9, and b the tenth
    assert symbols(page).all_inner_texts()[0] == "b"
    ninth, tenth = (page.locator(f".attnr-traced[data-at='{at}']") for at in (9, 10))
    assert ninth.count() == 0 and tenth.count() == 1
    page.get_by_role("button", name="undo").click()
    assert ninth.count() == 1 and tenth.count() == 0


def test_letters_are_typed_and_arrows_lead_along(opened: Any) -> None:
    page = opened(program_explorer())
    symbols(page).first.focus()
    for key in ("e", "E", "ArrowRight", "z", "b"):
        page.keyboard.press(key)
    assert "".join(symbols(page).all_inner_texts()).startswith("eedb")
    assert page.evaluate("document.activeElement.dataset.at") == "5"


def test_other_programs_and_inputs_are_drawn(opened: Any) -> None:
    page = opened(program_explorer(text="eeeeeeeeeeee"))
    page.get_by_role("button", name="draw another program").click()
    assert page.get_by_label("Program", exact=True).input_value() == "1"
    assert "".join(symbols(page).all_inner_texts()) == "bcddcccbcc", "its own input"
    seen = set()
    for _ in range(3):
        page.get_by_role("button", name="draw another input").click()
        seen.add("".join(symbols(page).all_inner_texts()))
    assert len(seen) > 1 and all(re.fullmatch("[a-e]{10}", text) for text in seen)


def test_an_input_of_another_program_in_an_address_is_passed_over(opened: Any) -> None:
    page = opened(program_explorer())
    page.evaluate("location.hash = '#explorer=0&item=1&text=abc&query=12'")
    page.wait_for_function("document.querySelector('.attnr-question').innerText.endsWith('position 6?')")
    assert "".join(symbols(page).all_inner_texts()) == "bcddcccbcc"


def test_an_output_is_asked_about(opened: Any) -> None:
    page = opened(program_explorer(item=1))
    outputs(page).nth(1).click()
    assert page.locator(".attnr-question").inner_text().endswith("at position 2?")
    assert outputs(page).nth(1).get_attribute("aria-pressed") == "true"
