"""What a reader chose in an explorer stands in the page's address, and whoever opens that sees the same."""

import re
from functools import partial

import pytest
import torch

from attnlib.widgets import AttentionExplorer, ModelExplorer
from tests.book.test_explorers_in_browser import LOOKS, sent
from tests.book.test_model_explorer_in_browser import line, typed
from tests.browser import becomes, canvas_hash, drawn, watched_page
from tests.explorers import LETTERS, shown, weights

pytestmark = pytest.mark.book

MAP = ".attnx-map"


def test_the_address_holds_the_choice_of_one_explorer_among_several(opened, browser):
    page = opened(*(AttentionExplorer(LETTERS, weights(), title=title) for title in ("first", "second")))
    second = page.locator("section.attnx").nth(1)
    second.get_by_label("Layer", exact=True).select_option("1")
    second.get_by_label("Head", exact=True).select_option("2")
    second.locator(".attnx-token").nth(3).click()
    address = sent(page)
    assert re.search(r"#explorer=1&head=2&layer=1&query=3$", address)
    with watched_page(browser) as (other, problems):
        other.goto(address)

        def places():
            return [
                [each.get_by_label(name, exact=True).input_value() for name in ("Layer", "Head")]
                for each in other.locator("section.attnx").all()
            ]

        wanted = [["0", "0"], ["1", "2"]]
        assert becomes(other, places, lambda now: now == wanted) == wanted
        assert "'d' (3)" in other.locator(".attnx-readout").nth(1).inner_text()
        assert other.locator("section.attnx").nth(1).bounding_box()["y"] < 720
        # An address typed into an open page, which in the same moment tells an older choice.
        typed = "#explorer=1&layer=0&head=-1"
        tells = "const old = location.href; location.hash = typed; history.replaceState(null, '', old)"
        other.evaluate(f"typed => {{ {tells} }}", typed)
        assert becomes(other, lambda: places()[1][0], lambda layer: layer == "0") == "0"
        assert problems == []


def test_an_address_that_means_nothing_here_harms_nothing(opened):
    page = opened(AttentionExplorer(LETTERS, weights(), title="as it was"))
    before, own = canvas_hash(page, MAP), page.url
    for address in (
        "explorer=0&layer=-1&head=1e3&query=0x1&title=<b>",
        "explorer=9&layer=1",
        "explorer=0&weights=AAAA&layer=%00",
        "section",
        "explorer=0&layer=999&head=77&query=400&item=8",
    ):
        page.goto("about:blank")
        page.goto(f"{own}#{address}")
        page.locator(MAP).wait_for()
        drawn(page)
        assert page.locator(".attnx-title").inner_text() == "as it was" and page.locator("b").count() == 0
        if "999" not in address:  # beyond the last layer is the last
            assert canvas_hash(page, MAP) == before, address


def test_what_was_typed_and_done_with_the_attention_can_be_sent(opened, browser):
    page = opened(ModelExplorer(shown("rasp_languages", "sort"), layer=0))
    typed(page, "hgfeda")
    page.get_by_label("Attention of the chosen head").select_option("even")
    page.get_by_label("How much of it, in per cent").fill("40")
    wrote, address = line(page, "writes"), sent(page)
    assert "text=hgfeda" in address and "swaps=L0H0%7Eeven" in address and "strength=0.4" in address
    with watched_page(browser) as (other, problems):
        other.goto(address)
        swap = other.get_by_label("Attention of the chosen head")
        assert becomes(other, swap.input_value, lambda chosen: chosen == "even") == "even"
        assert other.get_by_label("How much of it, in per cent").input_value() == "40"
        assert line(other, "writes") == wrote and problems == []
    with watched_page(browser) as (other, problems):
        other.goto(re.sub("swaps=[^&]*", "swaps=L9H9~even.L0H0~up.__proto__~off&strength=7", address))
        assert becomes(other, swap_of(other), lambda chosen: chosen == "own") == "own" and problems == []


def swap_of(page):
    return page.get_by_label("Attention of the chosen head").input_value


def test_a_link_is_in_the_address_bar_where_there_is_no_clipboard(opened):
    """As over plain http."""
    page = opened(AttentionExplorer(LETTERS, weights(), title="first"))
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.locator(".attnx-link").click()
    assert page.locator(".attnx-link").inner_text() == "see the address bar"
    assert page.evaluate("location.hash") == "#explorer=0"


def test_a_link_to_what_is_shown_is_copied(opened):
    page = opened(AttentionExplorer(LETTERS, weights(), title="first"))
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.get_by_label("Layer", exact=True).select_option("1")
    button = page.locator(".attnx-link")
    button.click()
    assert becomes(page, button.inner_text, lambda said: said == "copied") == "copied"
    assert page.evaluate("copied").endswith("#explorer=0&layer=1") and page.evaluate("copied") == page.url


def test_a_link_in_the_text_sets_the_explorer_of_its_page_and_shows_it(html, browser):
    pages = [path for path in sorted(html.glob("notebooks/*.html")) if 'href="#explorer=' in path.read_text()]
    assert len(pages) >= 6
    moved = 0
    for path in pages:
        with watched_page(browser) as (page, problems), watched_page(browser) as (other, _):
            page.goto(path.as_uri())
            links = page.locator("article a[href^='#explorer=']").all()
            changed = [follows(page, other, link) for link in links]
            assert problems == [], path.name
            moved += any(changed)
    assert moved >= 6  # the smallest models of a page may have nothing else to show


def follows(page, other, link):
    """Whether a link changes its explorer, which then is as whoever opens the page at its address sees it."""
    chosen = link.get_attribute("href")
    place = int(re.search(r"explorer=(\d+)", chosen)[1])
    card, there = (each.locator("[data-attnlib]").nth(place) for each in (page, other))
    before = card.evaluate(LOOKS)
    other.goto("about:blank")
    other.goto(page.url.partition("#")[0] + chosen)
    link.click()
    page.mouse.move(0, 0)
    drawn(page)
    after = card.evaluate(LOOKS)
    assert becomes(other, lambda: there.evaluate(LOOKS), lambda looks: looks == after) == after, chosen
    for opened, each in ((page, card), (other, there)):  # which scrolls there once all of the page is loaded
        place = partial(lambda box: box.bounding_box()["y"], each)
        assert 0 <= becomes(opened, place, lambda y: 0 <= y < 600) < 600, chosen
    return after != before


def test_a_link_holds_lines_colours_and_the_key_too(opened) -> None:
    page = opened(AttentionExplorer(list("abcd"), torch.full((1, 1, 4, 4), 0.25)))
    page.get_by_label("What the strongest colour stands for").select_option("shown")
    page.locator(".attnx-overlay").click(position={"x": 40, "y": 40})
    page.get_by_label("How attention is drawn").select_option("lines")
    page.locator(".attnx-link").click()
    assert page.evaluate("location.hash").endswith("#explorer=0&colours=shown&drawn=lines&key=1&query=1")
    shown = canvas_hash(page, ".attnx-drawn")
    page.reload()
    page.locator(".attnx-drawn").wait_for()
    drawn(page)
    assert canvas_hash(page, ".attnx-drawn") == shown
