"""The page that `attnlib look` writes, as a reader opens it: from disk, with the network off."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from attnlib.commands import main
from tests.browser import canvas_hash, drawn, watched_page

pytestmark = pytest.mark.book


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    """Makes a page of the tiny random model."""

    def make(*options: str) -> Path:
        page = tmp_path_factory.mktemp("sent") / "look.html"
        assert (
            main(["look", "tiny-random", "hello there", "--new-tokens", "3", "-o", str(page), *options]) == 0
        )
        return page

    return make


def test_rollout_answers_a_hover(page_of, browser: Browser) -> None:
    with watched_page(browser, dark=True) as (page, problems):
        page.goto(page_of("--method", "rollout").as_uri())
        page.wait_for_selector(".attnx-map")
        drawn(page)
        overlay, said = page.locator(".attnx-overlay").first, page.locator(".attnx-readout").first
        before, sentence = canvas_hash(page, ".attnx-overlay"), said.inner_text()
        overlay.hover()
        drawn(page)
        assert canvas_hash(page, ".attnx-overlay") != before and said.inner_text() != sentence
        before = canvas_hash(page, ":nth-match(.attnx-map, 2)")
        page.get_by_label("Layer", exact=True).fill("1")
        assert canvas_hash(page, ":nth-match(.attnx-map, 2)") != before
        assert page.locator("body").inner_text().count("it wrote the likeliest token each time") == 1
        assert problems == []


def test_a_measure_whose_sources_are_not_known_speaks_of_none(page_of, browser: Browser) -> None:
    with watched_page(browser) as (page, problems):
        page.goto(page_of("--method", "gradient norm").as_uri())
        page.wait_for_selector(".attnm-token")
        said = page.locator(".attnx-readout")
        before = said.inner_text()
        page.locator(".attnm-sides [data-token='2']").first.hover()
        assert said.inner_text() != before and "gradient norm" in said.inner_text()
        assert "needed" not in page.locator("section.attnx").inner_text()
        assert not page.get_by_label("Question", exact=True).is_visible()
        page.locator(".attnm-written [data-token='2']").click()
        assert page.locator(".attnm-side").first.locator(".attnm-token").count() == 12 + 2
        page.keyboard.press("ArrowLeft")
        assert page.locator(".attnm-side").first.locator(".attnm-token").count() == 12 + 1
        assert page.locator(".attnm-written .attnx-chosen").get_attribute("data-token") == "1"
        assert problems == []


def test_without_a_method_two_stand_side_by_side_and_the_page_says_what_they_are(page_of, browser) -> None:
    with watched_page(browser) as (page, problems):
        page.goto(page_of().as_uri())
        page.wait_for_selector(".attnm-token")
        assert page.get_by_label("Method on the left").input_value() == "AttnLRP"
        assert page.get_by_label("Method on the right").input_value() == "rollout"
        said = page.locator("body").inner_text()
        assert said.count("it does not find the source of an answer") == 1
        assert "AttnLRP propagates the prediction" in said
        assert problems == []
