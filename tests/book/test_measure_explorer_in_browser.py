"""The explorer of two measures in Chromium, with the network off."""

import re

import pytest
import torch

from attnlib.widgets import MeasureExplorer
from tests.browser import readout, tints

pytestmark = pytest.mark.book

TOKENS = ["a", "b", "c", "d", "=", "b"]
SCORES = {
    "rollout": torch.tensor([0.1, 0.4, 0.3, 0.05, 0.9, 0.0]),
    "blank-out": torch.tensor([-1.0, 2.0, 0.5, 0.0, 0.0, 0.0]),
    "even attention": torch.ones(6),
}
CANDIDATES = torch.tensor([True] * 4 + [False] * 2)
TRUTH = torch.tensor([False, True, False, True, False, False])


def question(**changes):
    parts = {"tokens": TOKENS, "scores": SCORES, "truth": TRUTH, "candidates": CANDIDATES, "query": 4}
    return parts | {"missing": {"flow": "there are no layers"}} | changes


def explorer(**settings):
    other = question(tokens=["x", " y", " z"], scores={"rollout": torch.tensor([0.2, 0.7, 0.1])}, query=2)
    other |= {"truth": torch.tensor([True, False, False]), "candidates": torch.tensor([True, True, False])}
    return MeasureExplorer({"first": question(), "second": other}, **settings)


def side(page, place):
    return page.locator(f".attnm-side:nth-child({place + 1})")


def token(page, place, at):
    return side(page, place).locator(f"[data-token='{at}']")


def colours(page, place):
    return tints(side(page, place).locator(".attnm-token"))


def measure(page, where):
    return page.get_by_label(f"Method on the {where}")


def test_both_sides_are_tinted_by_their_measure_and_what_is_needed_is_outlined(opened):
    page = opened(explorer())
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
    page = opened(explorer())
    found = page.locator(".attnm-found")
    assert found.all_inner_texts() == ["What is needed is 1st, 4th of 4.", "What is needed is 1st, 3rd of 4."]
    measure(page, "right").select_option("even attention")
    assert found.nth(1).inner_text() == "What is needed is 4th, 4th of 4."
    measure(page, "left").select_option("flow")
    assert found.nth(0).inner_text() == "Not given: there are no layers"
    assert colours(page, 0) == [None] * 6
    measure(page, "left").select_option("blank-out")
    assert colours(page, 0)[0][0] > colours(page, 0)[0][2]


def test_a_hover_or_a_click_tells_both_numbers_and_marks_the_token_on_both_sides(opened):
    page = opened(explorer())
    token(page, 1, 1).hover()
    assert re.fullmatch(
        r"'b' \(1\), needed: rollout 0\.40 \(1st of 4\), blank-out \+2\.0\d? \(1st of 4\)\.", readout(page)
    ), readout(page)
    assert page.locator(".attnx-chosen").count() == 2
    token(page, 0, 0).hover()
    assert re.match(r"'a' \(0\), not needed: rollout 0\.1\d*, blank-out −1\.0", readout(page)), readout(page)
    token(page, 0, 4).hover()
    assert readout(page) == "'=' (4), predicts."
    page.mouse.move(5, 5)
    assert readout(page).startswith("Point at a token")
    for place, kept in [(0, "'c' (2), not needed"), (1, "Point at a token")]:  # chosen by a click, and let go
        token(page, place, 2).click()
        page.mouse.move(5, 5)
        assert readout(page).startswith(kept)


def test_the_keyboard_leads_to_every_token_of_both_sides(opened):
    page = opened(explorer())
    token(page, 0, 0).focus()
    for key, place, at in [("ArrowRight", 0, 1), ("ArrowDown", 1, 1), ("End", 1, 5), ("ArrowRight", 1, 5),
                           ("ArrowUp", 0, 5), ("Home", 0, 0), ("ArrowLeft", 0, 0)]:  # fmt: skip
        page.keyboard.press(key)
        focused = token(page, place, at)
        assert focused.evaluate("node => node === document.activeElement")
        assert f"({at})" in readout(page)
        assert f"({at})" in page.get_by_role("status").inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".attnx-chosen").count() == 0
    assert page.locator(".attnm-token[tabindex='0']").count() == 2  # one of each side is reached by tab


def test_another_question_is_chosen_and_read_as_text(opened):
    page = opened(explorer())
    page.get_by_label("Question", exact=True).select_option("second")
    assert side(page, 0).locator(".attnm-token").all_inner_texts() == ["x", "y", "z"]
    assert page.locator(".attnm-found").nth(1).inner_text() == "Not given: not asked"
    assert "rollout" in page.get_by_role("status").inner_text()


def test_the_table_has_the_numbers_of_both(opened):
    page = opened(explorer())
    page.locator("summary").click()
    page.locator(".attnx-details tbody tr").nth(4).wait_for()  # filled once it is open
    cells = page.locator(".attnx-details tbody tr").nth(1).locator("th, td").all_inner_texts()
    assert cells[:2] == ["'b' (1)", "needed"] and cells[2].startswith("0.4") and cells[3].startswith("+2")
    assert page.locator(".attnx-details tbody tr").nth(4).locator("td").all_inner_texts() == ["", "", ""]


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
    page = opened(explorer(), dark=True, width=400)
    boxes = [side(page, place).bounding_box() for place in range(2)]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]
    assert page.locator("section.attnx").get_attribute("data-mode") == "dark"


def test_the_key_says_what_the_colours_mean_and_orange_only_where_there_is_some(opened):
    page = opened(explorer(noun="Judge"))
    key = page.locator(".attnm-legend")
    favours, opposes = key.locator("span", has_text="speaks for"), key.locator("span", has_text="against it")
    red, _, blue = tints(favours.first.locator(".attnx-swatch"))[0]
    assert blue > red
    red, _, blue = tints(opposes.first.locator(".attnx-swatch"))[0]
    assert red > blue
    page.get_by_label("Judge on the right").select_option("even attention")
    assert favours.first.is_visible() and opposes.first.is_hidden(), "neither side has a sign"
