"""The explorer of two measures in Chromium: tints, places of what is needed, the answer, long texts."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attnlib.widgets import MeasureExplorer
from tests.book.test_explorers_in_browser import looks
from tests.book.test_large_maps_in_browser import COUNTED
from tests.browser import downloaded, readout, tints
from tests.explorers import measure_explorer, question

pytestmark = pytest.mark.book


def side(page, place):
    return page.locator(f".attnm-side:nth-child({place + 1})")


def token(page, place, at):
    return side(page, place).locator(f"[data-token='{at}']")


def colours(page, place):
    return tints(side(page, place).locator(".attnm-token"))


def measure(page, where):
    return page.get_by_label(f"Method on the {where}")


def test_both_sides_are_tinted_by_their_measure_and_what_is_needed_is_outlined(opened):
    page = opened(measure_explorer())
    left, right = colours(page, 0), colours(page, 1)
    assert left[4] is None and left[5] is None, "no candidates"
    assert sum(left[1]) < sum(left[2]) < sum(left[0]), "the larger, the darker"
    assert right[0][0] > right[0][2] and right[1][2] > right[1][0] and right[3] is None  # orange, blue, blank
    for place in range(2):
        marked = side(page, place).locator(".attnm-source")
        assert marked.all_inner_texts() == ["b", "d"]
        assert "rgb" in marked.first.evaluate("node => getComputedStyle(node).boxShadow")
        assert side(page, place).locator(".attnm-query").all_inner_texts() == ["="]
        assert side(page, place).locator(".attnm-faint").all_inner_texts() == ["=", "b"]


def test_the_places_of_what_is_needed_stand_below_and_a_missing_measure_says_why(opened):
    page = opened(measure_explorer())
    found = page.locator(".attnm-found")
    assert found.all_inner_texts() == ["What is needed is 1st, 4th of 4.", "What is needed is 1st, 3rd of 4."]
    measure(page, "right").select_option("even attention")
    assert found.nth(1).inner_text() == "What is needed is 4th, 4th of 4."
    measure(page, "left").select_option("flow")
    assert found.nth(0).inner_text() == "Not given: there are no layers"
    assert colours(page, 0) == [None] * 6
    measure(page, "left").select_option("blank-out")
    assert colours(page, 0)[0][0] > colours(page, 0)[0][2]
    page.get_by_label("Question", exact=True).select_option("second")
    assert found.nth(1).inner_text() == "Not given: not asked"


def test_a_click_keeps_a_token_and_it_is_marked_on_both_sides(opened):
    page = opened(measure_explorer())
    for kept, marked in [("'c' (2), not needed", 2), ("Point at a token", 0)]:  # and lets it go
        token(page, 0, 2).click()
        assert page.locator(".attnx-chosen").count() == 2
        page.mouse.move(5, 5)
        assert readout(page).startswith(kept) and page.locator(".attnx-chosen").count() == marked


def test_the_models_answer_is_judged(opened):
    page = opened(
        MeasureExplorer(
            {"right": question(predicted="b", expected="b"), "wrong": question(predicted="c", expected="b")}
        )
    )
    label = page.locator(".attnm-answer")
    assert label.inner_text() == "The model says 'b', which is right."
    page.get_by_label("Question", exact=True).select_option("wrong")
    assert label.inner_text() == "The model says 'c'; right is 'b'."


def test_on_a_narrow_page_the_sides_stand_below_each_other(opened):
    page = opened(measure_explorer(), dark=True, width=400)
    boxes = [side(page, place).bounding_box() for place in range(2)]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]
    assert page.locator("section.attnx").get_attribute("data-mode") == "dark"


def test_the_key_says_what_the_colours_mean_and_orange_only_where_there_is_some(opened):
    page = opened(measure_explorer(noun="Judge"))
    key = page.locator(".attnm-legend")
    favours, opposes = key.locator("span", has_text="speaks for"), key.locator("span", has_text="against it")
    red, _, blue = tints(favours.first.locator(".attnx-swatch"))[0]
    assert blue > red
    red, _, blue = tints(opposes.first.locator(".attnx-swatch"))[0]
    assert red > blue
    page.get_by_label("Judge on the right").select_option("even attention")
    assert favours.first.is_visible() and opposes.first.is_hidden(), "neither side has a sign"


def test_two_measures_have_one_way_from_numbers_to_colours(opened) -> None:
    signed, share = torch.tensor([1.0, 0.25, -0.1, 0, 0, 0]), torch.tensor([1.0, 0.25, 0.1, 0, 0, 0])
    asked = question(scores={"rollout": share, "blank-out": signed})
    page = opened(MeasureExplorer({"one": asked}, first="rollout", second="blank-out"))
    tints = page.locator(".attnm-sides .attnm-text").evaluate_all(
        "all => all.map(row => getComputedStyle(row.children[1]).backgroundColor.match(/\\d+/g).map(Number))"
    )
    assert np.abs(np.subtract(*tints)).max() <= 3, tints  # they are stored in steps of their own


@pytest.mark.parametrize("tokens", [12, 10_000])
def test_a_text_of_ten_thousand_tokens_says_what_it_leaves_out(opened, tmp_path: Path, tokens: int) -> None:
    scores = {"rollout": torch.rand(tokens), "blank-out": torch.randn(tokens)}
    question = {"tokens": [f"w{i}" for i in range(tokens)], "scores": scores, "query": tokens - 1}
    page = opened(MeasureExplorer({"q": question}))
    written = page.locator(".attnm-side").first.locator("button.attnm-token").count()
    told = page.locator(".attnx-long")
    assert (written == tokens) == told.is_hidden()
    if tokens > 12:
        assert told.inner_text().startswith(f"Text and table show the first {written} of 10,000 tokens; ")
    downloaded(page, "Save as CSV", tmp_path / "numbers.csv")
    assert len((tmp_path / "numbers.csv").read_text().splitlines()) == tokens + 1


def test_another_measure_and_a_step_back_write_no_word_anew(opened) -> None:
    torch.manual_seed(0)
    scores = {name: torch.randn(900) for name in ("rollout", "blank-out", "gradient norm")}
    page = opened(MeasureExplorer({"q": {"tokens": ["w"] * 900, "scores": scores, "query": 899}}))
    shown = looks(page)
    tinted = page.locator(".attnm-token").first.evaluate("node => node.style.backgroundColor")
    page.evaluate(COUNTED)
    page.get_by_label("Method on the left").select_option("gradient norm")
    other = page.locator(".attnm-token").first.evaluate("node => node.style.backgroundColor")
    assert other != tinted
    page.get_by_text("undo").click()
    assert looks(page) == shown
    assert page.locator(".attnm-token").first.evaluate("node => node.style.backgroundColor") == tinted
    assert page.evaluate("words") == 0
