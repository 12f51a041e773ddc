"""The explorer of attention in Chromium: references, lines, tokens, small pictures of heads."""

import re

import numpy as np
import pytest
import torch

from attnlib.widgets import AttentionExplorer
from tests.book.test_explorers_in_browser import looks
from tests.browser import becomes, canvas_hash, point, readout
from tests.explorers import LETTERS, alignment_explorer, attention_explorer
from tests.explorers import weights as some_weights

pytestmark = pytest.mark.book

MAP, OVERLAY = ".attnx-map", ".attnx-overlay"


def test_colours_grow_with_the_weight(opened):
    weights = torch.linspace(0, 1, 8)[None, None, None].expand(1, 1, 8, 8)
    page = opened(AttentionExplorer(LETTERS, weights))
    lightness = page.locator(MAP).evaluate(
        """(canvas) => { const step = canvas.width / 8, pen = canvas.getContext("2d");
           return [...Array(8).keys()].map((k) => pen.getImageData((k + 0.5) * step, step / 2, 1, 1).data)
             .map(([red, green, blue]) => red + green + blue); }"""
    )
    assert lightness[0] == 3 * 255  # an exact zero is blank
    assert lightness == sorted(set(lightness), reverse=True)


def test_the_reference_can_be_hidden_and_is_absent_where_there_is_none(opened):
    page = opened(attention_explorer())
    outlined = canvas_hash(page, MAP)
    page.get_by_label("reference", exact=True).click()
    plain = canvas_hash(page, MAP)
    assert plain != outlined
    page.get_by_label("reference", exact=True).click()
    assert canvas_hash(page, MAP) == outlined
    page.get_by_label("Head", exact=True).select_option("0")
    without = canvas_hash(page, MAP)
    page.get_by_label("reference", exact=True).click()
    assert canvas_hash(page, MAP) == without


def test_the_reference_is_drawn_around_its_cells(opened):
    page = opened(AttentionExplorer(LETTERS, torch.zeros(1, 1, 8, 8), references=torch.eye(8).bool()))
    orange = page.locator(MAP).evaluate(
        """(canvas) => { const step = canvas.width / 8, pen = canvas.getContext("2d");
           return [...Array(64).keys()].map((i) => { const [q, k] = [Math.floor(i / 8), i % 8];
             const edge = pen.getImageData(k * step + step / 4, Math.max(q * step - 1, 0), step / 2, 3).data;
             return edge[0] > 200 && edge[2] < 90; }); }"""
    )
    top_edges = np.eye(8, dtype=bool)
    top_edges[1:] |= np.eye(8, dtype=bool)[:-1]  # the lower edge of one cell is the upper of the next
    assert (np.array(orange).reshape(8, 8) == top_edges).all()


def test_every_head_has_its_own_reference(opened):
    """Five keys: a reference does not end with a byte."""
    weights = torch.stack([torch.eye(5).roll(shift, dims=1) for shift in range(3)])[None]
    references = {(0, head): weights[0, head] > 0 for head in range(3)}
    page = opened(AttentionExplorer(list("abcde"), weights, references=references, query=4))
    for head in range(3):
        page.get_by_label("Head", exact=True).select_option(str(head))
        said = readout(page)
        assert f"({(4 + head) % 5}) 1.00; 100 % of the row on its reference" in said


def test_rows_without_a_reference_can_be_left_out(opened):
    """The last three of eight queries have one, each in another head."""
    weights, references = some_weights(1, 3), {}
    for head in range(3):
        mask = torch.zeros(8, 8, dtype=torch.bool)
        mask[5 + head, head] = True
        references[0, head] = mask
    page = opened(AttentionExplorer(LETTERS, weights, references=references, head=1, query=6))
    readout, rows = page.locator(".attnx-readout"), page.get_by_label("its rows only")
    said = readout.inner_text()
    assert said.startswith("Query 'g' (6)") and "% of the row on its reference" in said
    rows.check()
    assert readout.inner_text() == said
    assert "3 queries by 8 keys" in page.locator(".attnx-stage").get_attribute("aria-label")
    tokens = page.locator(".attnx-strip").first.locator(".attnx-token")
    assert tokens.all_inner_texts() == LETTERS[5:]
    tokens.last.click()
    assert readout.inner_text().startswith("Query 'h' (7)")
    page.get_by_label("Head", exact=True).select_option("2")
    said = readout.inner_text()
    assert "% of the row on its reference" in said
    rows.uncheck()
    assert readout.inner_text() == said and tokens.count() == 8
    tokens.first.click()
    rows.check()  # a row that is no longer there
    assert readout.inner_text().startswith("Point at")
    rows.uncheck()
    assert readout.inner_text().startswith("Query 'a' (0)")


def test_lines_between_tokens_can_stand_in_the_place_of_the_map(opened):
    page = opened(attention_explorer(query=-1))
    form, drawn = page.get_by_label("How attention is drawn"), page.locator(".attnx-drawn")
    assert drawn.is_hidden()
    form.select_option("lines")
    assert page.locator(".attnx-stage").is_hidden() and drawn.is_visible()
    pictures = [canvas_hash(page, ".attnx-drawn")]  # of all rows
    box = drawn.bounding_box()
    for query in (2, 5):
        page.mouse.move(box["x"] + 20, box["y"] + box["height"] * (query + 0.5) / 8)
        assert readout(page).startswith(f"Query '{LETTERS[query]}' ({query})")
        pictures.append(canvas_hash(page, ".attnx-drawn"))
    page.mouse.click(box["x"] + 20, box["y"] + box["height"] * 5.5 / 8)
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 5)  # keys are not asked; the chosen row stays
    assert canvas_hash(page, ".attnx-drawn") == pictures[-1]
    page.get_by_label("reference", exact=True).click()  # the outline of its reference goes
    pictures.append(canvas_hash(page, ".attnx-drawn"))
    page.get_by_label("Head", exact=True).select_option("2")
    pictures.append(canvas_hash(page, ".attnx-drawn"))
    assert len(set(pictures)) == len(pictures)
    form.select_option("map")
    assert drawn.is_hidden() and page.locator(".attnx-stage").is_visible()


def test_a_hover_names_the_largest_keys_and_the_share_on_the_reference(opened):
    page = opened(attention_explorer())
    point(page, OVERLAY, 2.5 / 8, 2.5 / 8)
    row = some_weights()[0, 1, 2]
    said = readout(page)
    largest = row.argsort(descending=True)[:3].tolist()
    assert [int(k) for k in re.findall(r"\((\d)\)", said)] == [2, *largest, 2]  # and the key pointed at
    assert abs(int(re.search(r"(\d+) % of the row", said)[1]) - 100 * row[5].item()) <= 2


def test_tokens_can_be_pointed_at_chosen_and_walked_through(opened):
    page = opened(attention_explorer())
    tokens = page.locator("button.attnx-token")
    assert tokens.nth(3).get_attribute("style") in (None, "")
    tokens.nth(2).hover()
    assert "background-color" in tokens.nth(3).get_attribute("style")
    assert readout(page).startswith("Query 'c' (2)")
    tokens.nth(2).click()
    page.keyboard.press("ArrowRight")
    assert page.locator("[aria-live]").inner_text().startswith("Layer 0, head 1. Query 'd' (3)")
    assert tokens.nth(3).get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.dataset.query") == "3"


def test_the_small_pictures_choose_a_head_by_mouse_and_by_keys(opened):
    page = opened(attention_explorer())
    before = canvas_hash(page, MAP)
    page.get_by_role("button", name="layer 1, head 2").click()
    assert canvas_hash(page, MAP) != before
    assert page.get_by_label("Layer", exact=True).input_value() == "1"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert canvas_hash(page, MAP) == before
    assert page.evaluate("document.activeElement.title") == "layer 0, head 1"


def test_tokens_that_cannot_be_seen_are_made_visible(opened):
    page = opened(AttentionExplorer([" the", "\n", "\t", "", "\u200b"], some_weights(1, 1, 5, 5)))
    assert page.locator("button.attnx-token").all_inner_texts() == ["␣the", "⏎", "⇥", "∅", "U+200B"]


def test_equal_widgets_on_a_page_are_drawn_and_turned_independently(opened):
    page = opened(attention_explorer(), attention_explorer(), attention_explorer(layer=1))
    count = "places => places.map((place) => place.childElementCount)"
    places = page.locator("[data-attnlib]").evaluate_all(count)
    assert places == [1, 1, 1]
    hashes = [canvas_hash(page, f":nth-match({MAP}, {i})") for i in (1, 2, 3)]
    assert hashes[0] == hashes[1] != hashes[2]
    page.get_by_label("Head", exact=True).nth(1).select_option("0")
    after = [canvas_hash(page, f":nth-match({MAP}, {i})") for i in (1, 2, 3)]
    assert after[0] == hashes[0] and after[2] == hashes[2] and after[1] != hashes[1]


def test_the_books_light_panel_on_a_dark_page_makes_it_light(opened):
    panel = f'<div style="background: #ced6dd; padding: 1em">{attention_explorer().to_html()}</div>'
    assert opened(panel, dark=True).locator(".attnx").get_attribute("data-mode") == "light"


def test_what_is_hidden_at_first_is_drawn_when_shown(opened):
    page = opened(
        f"<details><summary>more</summary>{attention_explorer().to_html()}</details>", attention_explorer()
    )
    page.get_by_text("more").click()
    shown = canvas_hash(page, f":nth-match({MAP}, 2)")
    assert becomes(page, lambda: canvas_hash(page, MAP), lambda now: now == shown) == shown


def test_the_page_hears_of_its_own_keys_and_of_no_others(opened):
    page = opened(attention_explorer())
    page.evaluate(
        "() => { window.heard = []; addEventListener('keydown', (event) => heard.push(event.key)); }"
    )
    page.locator(".attnx-stage").first.focus()
    for keys in ("ArrowDown", "j", "Enter", "Control+Enter", "Control+k", "Meta+k", "Alt+j"):
        page.keyboard.press(keys)
    heard = [key for key in page.evaluate("heard") if key not in ("Control", "Meta", "Alt")]
    assert heard == ["k", "k", "j"]


def test_the_weight_of_the_chosen_cell_is_read_out(opened) -> None:
    n = 80
    weights = torch.full((1, 1, n, n), 1 / n)
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], weights))
    stage = page.locator(".attnx-stage")
    stage.focus()
    for key in ("Home", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    page.mouse.move(1, 1)
    assert re.search(r" On 't\d+' \(\d+\): 0\.01\d*\.$", readout(page)), readout(page)


def test_tokens_from_right_to_left_keep_their_numbers_behind_them(opened) -> None:
    words = ["שלום", "עולם", "היום", "מחר"]
    page = opened(
        AttentionExplorer(words, torch.eye(4)[None, None]),
        AttentionExplorer(list("abcd"), torch.eye(4)[None, None]),
    )
    for place, apart in ((0, True), (1, False)):
        page.locator(".attnx-overlay").nth(place).click(position={"x": 40, "y": 40})
        said = page.locator(".attnx-readout").nth(place).inner_text()
        assert ("\u2068'" in said and "'\u2069" in said) == apart, said


def test_a_page_that_is_scrolled_repaints_nothing_and_one_that_turns_dark_does(opened) -> None:
    """Themes mark a page that is scrolled by a class, in the place where they say what is dark."""
    page = opened(alignment_explorer(title="T"))
    light = looks(page)
    page.evaluate(
        """() => {
             const pen = CanvasRenderingContext2D.prototype, clear = pen.clearRect;
             window.painted = 0;
             pen.clearRect = function (...box) { painted++; return clear.apply(this, box); };
           }"""
    )
    page.evaluate("document.body.classList.add('scrolled')")
    page.wait_for_timeout(600)  # colours that come late are looked for after 400 ms
    assert page.evaluate("painted") == 0 and looks(page) == light
    page.evaluate("document.body.style.background = '#121212'; document.body.classList.add('dark')")
    assert becomes(page, lambda: page.locator(".attnx").get_attribute("data-mode"), "dark".__eq__) == "dark"
    assert page.evaluate("painted") > 0 and looks(page) != light


def test_room_for_a_scroll_bar_is_kept_before_there_is_one(opened) -> None:
    """Else a card that is lower on a narrower page would make it come and go for ever."""
    assert opened(attention_explorer()).evaluate("innerWidth - document.documentElement.offsetWidth") > 0


def test_what_is_chosen_is_seen_and_reached_however_attention_is_drawn(opened) -> None:
    page = opened(
        AttentionExplorer([f"t{i}" for i in range(187)], some_weights(1, 1, 187, 187), query=160), width=500
    )
    reachable = page.locator(".attnx-strip button[tabindex='0']")
    for form, frame, last in (("lines", ".attnx-lines", "t159"), ("map", ".attnx-stage", "t158")):
        page.get_by_label("Drawn as").select_option(form)
        assert page.locator(frame).evaluate("node => node.scrollTop") > 1000, form
        reachable.focus()
        page.keyboard.press("ArrowLeft")
        assert reachable.all_inner_texts() == [last]
