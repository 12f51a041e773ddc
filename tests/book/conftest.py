"""A browser for each module of tests, and explorers opened in it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from attnlib.widgets.static import whole_page
from tests.browser import Page, drawn, open_browser, watched_page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens explorers, or pieces of HTML, as one page; at the end, nothing may have gone wrong on it."""
    with ExitStack() as pages:
        everything: list[list[str]] = []

        def opened(*pieces: Any, **settings: Any) -> Page:
            path = tmp_path / f"page{len(everything)}.html"
            body = "\n".join(piece if isinstance(piece, str) else piece.to_html() for piece in pieces)
            path.write_text(whole_page("test", body), encoding="utf-8")
            page, problems = pages.enter_context(watched_page(browser, **settings))
            everything.append(problems)
            page.goto(path.as_uri())
            page.wait_for_function("document.querySelector('.attnx, .attnx-map')")
            drawn(page)  # the size observer draws once more
            return page

        yield opened
    assert [problem for problems in everything for problem in problems] == []
