"""Every page of the built book: from disk, with the network off, wide and narrow, in light and dark.

A page is opened once in the light and once in the dark, and all that is asked of it is asked then.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page

from tests.browser import drawn, watched_page

from .built import CHAPTERS, DOCUMENTS, FURTHER

pytestmark = pytest.mark.book

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
CHECKS = Path(__file__).with_name("page_checks.js")
WEIGHT = 3_000_000  # bytes of all that a page loads, each of its figures among them
COLUMNS = 12  # a table of more has no room in the column; it shows that it scrolls
FORMULAS = {*CHAPTERS, "book/api/stats", "book/api/models", "book/api/training"}
KINDS = [
    "book/performance",
    "book/status",
    "book/explorers",
    "book/api/stats",
    "book/glossary",
    "book/references",
]
"""Pages of every kind but the chapters', which all of its kind look like in the dark."""

THEMED = """boxes => boxes.map(box => [...box.children].filter(
    image => image.checkVisibility()).map(image => image.className).join())"""
SHADES = """['color', 'backgroundColor'].map(key => getComputedStyle(document.body)[key].match(/\\d+/g)[0])"""

Visited = tuple[Page, list[str], dict[Path, int]]
"""A page for one visit after the other, its problems, and the bytes of each file that it asked for."""


@contextmanager
def visited(browser: Browser, dark: bool) -> Iterator[Visited]:
    asked: dict[Path, int] = {}

    def note(address: str) -> None:
        path = Path(unquote(urlsplit(address).path))
        if address.startswith("file:") and path.is_file():
            asked[path] = path.stat().st_size

    with watched_page(browser, dark=dark, width=1400) as (page, problems):
        page.add_init_script(path=AXE)
        page.add_init_script(path=CHECKS)
        page.on("request", lambda request: note(request.url))
        yield page, problems, asked


@pytest.fixture(scope="module")
def light(browser: Browser) -> Iterator[Visited]:
    with visited(browser, dark=False) as page:
        yield page


@pytest.fixture(scope="module")
def dark(browser: Browser) -> Iterator[Visited]:
    with visited(browser, dark=True) as page:
        yield page


def wrong_with(page: Page, path: Path, how: str) -> list[str]:
    """What keeps a reader out of a page.

    By axe-core: names that can be read out, roles that fit, contrast; of our markup and of the theme's.
    Beside it: what page_checks.js says, and the colour scheme that the reader prefers, in figures too.
    """
    page.goto(path.as_uri())
    found: list[str] = page.evaluate(f"wrong.{how}({COLUMNS})")
    theme = page.locator("html").get_attribute("data-theme")
    text, background = map(int, page.evaluate(SHADES))
    if theme != how or (text > background) != (how == "dark") or abs(text - background) <= 120:
        found.append(f"the theme is {theme}: {text} on {background}")
    shown = page.eval_on_selector_all("article .themed", THEMED)
    figures = (
        page.locator("article figure:has(img)").count() if path.parent.name == "notebooks" else len(shown)
    )
    if shown != [f"only-{how}"] * figures:
        found.append(f"figures for the other theme: {shown}")
    return found


def wrong_where_narrow(page: Page) -> list[str]:
    """The same of the page that is open, as a phone shows it."""
    wide = page.viewport_size
    page.set_viewport_size({"width": 400, "height": 800})
    drawn(page)  # what observes its size draws again
    found: list[str] = page.evaluate("wrong.narrow()")
    page.set_viewport_size(wide)
    return found


def some_first(documents: list[str], alike: str, first: set[str]) -> list[Any]:
    """Of the pages below `alike`, `make test` opens the first, and `make test-all` every one."""
    later = {each for each in documents if each.startswith(alike)} - first
    return [pytest.param(each, marks=pytest.mark.slow) if each in later else each for each in documents]


@pytest.mark.parametrize(
    "document",
    some_first(
        [*DOCUMENTS, *FURTHER, "search", "genindex", "py-modindex", "_modules/index"],
        "book/api/",
        {"book/api/stats", "book/api/rollout"},
    ),
)
def test_a_page_shuts_no_reader_out_wide_or_narrow_and_loads_little(
    html: Path, light: Visited, document: str
) -> None:
    page, problems, asked = light
    problems.clear()
    asked.clear()
    found = wrong_with(page, html / f"{document}.html", "light")
    weight = sum(asked.values())
    formulas = page.locator(".math").count()
    assert any("katex" in path.name for path in asked) == bool(formulas), "only where there are any"
    assert formulas or document not in FORMULAS
    found += wrong_where_narrow(page)
    assert problems + found == []
    assert weight < WEIGHT, sorted(((size, path.name) for path, size in asked.items()), reverse=True)[:9]


@pytest.mark.parametrize(
    "document",
    some_first(
        ["index", *CHAPTERS, *KINDS, "search", "genindex", "py-modindex"],
        "notebooks/",
        {*CHAPTERS[:3], *CHAPTERS[-2:]},
    ),
)
def test_in_the_dark_it_is_as_readable(html: Path, dark: Visited, document: str) -> None:
    page, problems, _ = dark
    problems.clear()
    found = wrong_with(page, html / f"{document}.html", "dark")
    assert problems + found + wrong_where_narrow(page) == []


def test_a_figure_opens_large_by_touch_and_by_key_and_closes_again(html: Path, browser: Browser) -> None:
    with watched_page(browser, width=400, height=800) as (page, problems):
        page.goto((html / f"{CHAPTERS[0]}.html").as_uri())
        figure, large = page.locator("a.themed").first, page.locator("dialog.large")
        small = figure.locator("img.only-light").bounding_box()["width"]
        for opens, closes in [
            (figure.click, lambda: large.get_by_role("button", name="Close").click()),
            (lambda: figure.press("Enter"), lambda: page.keyboard.press("Escape")),
        ]:
            opens()
            assert large.locator("img.only-light").bounding_box()["width"] > 1.5 * small
            assert not large.locator("img.only-dark").is_visible()
            closes()
            large.wait_for(state="detached")  # that it is closed is told a task later
            assert figure.evaluate("figure => figure === document.activeElement")
        assert problems == []


def test_a_table_in_a_fold_can_be_moved_by_keys_once_it_is_open(html: Path, browser: Browser) -> None:
    """It has no width until then."""
    with watched_page(browser, width=400, height=800) as (page, _):
        page.goto((html / f"{CHAPTERS[0]}.html").as_uri())
        page.evaluate("document.querySelectorAll('article details').forEach(fold => { fold.open = true; })")
        drawn(page)
        box = page.locator("details .more-right").first
        box.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.querySelector('details .more-left')")


def test_the_focus_shows_the_interval_of_a_number(html: Path, light: Visited) -> None:
    """As a touch does; a pointer has the title."""
    page, _, _ = light
    page.goto((html / "notebooks/rasp_languages.html").as_uri())
    number = page.locator("article abbr.brief").first
    number.focus()
    said = number.evaluate("number => getComputedStyle(number, '::after').content")
    assert number.get_attribute("title") in said.replace('\\"', '"')
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
