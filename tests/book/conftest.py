"""The built book, a browser for each module of tests, and explorers opened in it."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser

from attnlib.widgets.static import whole_page
from tests.browser import Page, drawn, open_browser, watched_page

from .built import ROOT

Pages = list[tuple[Page, list[str]]]
"""With the problems of each."""


@pytest.fixture(scope="session")
def html() -> Path:
    """The folder of pages. The pipeline builds the smoke profile; what is up to date is kept."""
    command = [sys.executable, "-m", "book.pipeline", "smoke", "--cores", "2"]
    kept = {"ATTNLIB_CACHE": str(ROOT / "build/test-cache")}  # a model has the key of all that went into it
    kept["ATTNLIB_RESULTS"] = str(ROOT / "build/no-runs")  # nobody's own runs are shown
    done = subprocess.run(command, cwd=ROOT, env=os.environ | kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return ROOT / "build/smoke/html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def idle(browser: Browser) -> Iterator[Callable[..., Pages]]:
    """By the settings of a page, those that no test looks at now; another is made where there is none."""
    with ExitStack() as stack:
        kept = defaultdict[str, Pages](list)

        def idle(**settings: Any) -> Pages:
            pages = kept[str(settings)]
            if not pages:
                pages.append(stack.enter_context(watched_page(browser, **settings)))
            return pages

        yield idle


@pytest.fixture
def opened(idle: Callable[..., Pages], tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens explorers, or pieces of HTML, as one page; at the end, nothing may have gone wrong on it."""
    used: list[tuple[Pages, Page, list[str]]] = []

    def opened(*pieces: Any, dark: bool = False, **settings: Any) -> Page:
        path = tmp_path / f"page{len(used)}.html"
        body = "\n".join(piece if isinstance(piece, str) else piece.to_html() for piece in pieces)
        path.write_text(whole_page("test", body), encoding="utf-8")
        pages = idle(dark=dark, **settings)
        page, problems = pages.pop()
        used.append((pages, page, problems))
        problems.clear()
        page.emulate_media(color_scheme="dark" if dark else "light")  # as it was before an earlier test
        page.mouse.move(0, 0)
        page.goto(path.as_uri())
        page.wait_for_function("document.querySelector('.attnx, .attnx-map')")
        drawn(page)  # the size observer draws once more
        return page

    yield opened
    for pages, page, problems in used:
        pages.append((page, problems))
    assert [problem for _, _, problems in used for problem in problems] == []


@pytest.fixture
def served(tmp_path):
    """A folder over http, and the paths that were asked for."""
    paths = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            paths.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", tmp_path, paths
    server.shutdown()
