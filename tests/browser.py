"""Opens pages in the system's Chromium with the network off and everything that goes wrong written down.

::

    with open_browser() as browser, watched_page(browser, dark=True) as (page, problems):
        page.goto(path.as_uri())
        before = canvas_hash(page, "canvas")
        ...
        assert problems == []

Chromium is ``/usr/bin/chromium`` or what the environment variable ``CHROMIUM`` names; without one the
calling test is skipped, and the reason says so. Where the variable ``CI`` is set, it fails.
"""

import base64
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import axe_playwright_python
import pytest
from anywidget import AnyWidget
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Request, Route, sync_playwright
from playwright.sync_api import Page as Page

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
KERNEL = Path(__file__).with_name("kernel.js").read_text(encoding="utf-8")
"""What stands in for a kernel: renders a widget's module as anywidget calls it."""

CONTRAST = """(node) => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const behind = getComputedStyle(node.closest(".attnx")).backgroundColor;
  const both = [light(getComputedStyle(node).color), light(behind)];
  return Math.max(...both) / Math.min(...both);
}"""
"""How much a text stands out from the card that it is on."""

LOCAL_SCHEMES = {"file", "data", "blob", "about"}


def chromium_path() -> Path:
    """Where Chromium is; skips the calling test when it is nowhere, and in CI fails it."""
    path = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    if not path.exists():
        stop = pytest.fail if os.environ.get("CI") else pytest.skip
        stop(f"no Chromium at {path}; install it or set the environment variable CHROMIUM to its path")
    return path


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Chromium by Playwright; closed at the end. Opening takes about a second, so share it in a module."""
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched_page(
    browser: Browser, dark: bool = False, width: int = 1100, height: int = 900, origin: str | None = None
) -> Iterator[tuple[Page, list[str]]]:
    """A fresh page and the growing list of its problems.

    Problems are: a request outside (it is aborted), a local request that failed or was answered with an
    error, an error on the console, an uncaught exception, and a dialog (it is dismissed).

    Args:
        browser: from `open_browser`.
        dark: whether the page is told that the reader prefers a dark colour scheme.
        width: of the viewport, in pixels.
        height: of the viewport, in pixels.
        origin: scheme and host of a local server whose requests are let through, such as
            ``http://127.0.0.1:8000``; requests of the schemes file, data and blob always are.
    """
    problems: list[str] = []

    def gate(route: Route) -> None:
        parts = urlsplit(route.request.url)
        if parts.scheme in LOCAL_SCHEMES or f"{parts.scheme}://{parts.netloc}" == origin:
            route.continue_()
        else:
            problems.append(f"outside request: {route.request.url}")
            route.abort()

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            problems.append(f"console error: {message.text}")

    def on_failure(request: Request) -> None:
        if request.failure == "net::ERR_ABORTED":
            return  # Chromium gave it up itself (the page was left, say); a missing file says another thing
        failed = f"failed request: {request.url} ({request.failure})"
        if f"outside request: {request.url}" not in problems:
            problems.append(failed)

    def on_dialog(dialog: Dialog) -> None:
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", offline=False
    )
    try:
        context.route("**/*", gate)
        page = context.new_page()
        page.on("console", on_console)
        page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
        page.on("requestfailed", on_failure)
        page.on("dialog", on_dialog)
        page.on(
            "response",
            lambda reply: problems.append(f"{reply.status}: {reply.url}") if reply.status >= 400 else None,
        )
        yield page, problems
    finally:
        context.close()


def connect(page: Page, widget: AnyWidget) -> Callable[..., None]:
    """Show a widget as JupyterLab does, below what is there; the kernel is the test.

    Bytes come as DataViews at an odd offset. In the page, `model.set(name, value)` is what the reader sets,
    `put({name: value})` what Python does, `heard` holds who listens to what, `sent` what the view asked, and
    `letGo()` ends it.

    Returns:
        How to do what the kernel does: answer what was asked, and tell what changed.
    """
    state, binary = _synced(widget)
    page.add_style_tag(content=str(widget._css))
    page.evaluate(KERNEL, [str(widget._esm), state, binary])
    drawn(page)

    def kernel(ask: bool = True) -> None:
        """Answers what the view asked, if it did, and tells it what changed."""
        before, _ = _synced(widget)
        for message in page.evaluate("sent.splice(0)") if ask else []:
            widget._handle_custom_msg(message, [])
        after, _ = _synced(widget)
        page.evaluate("put", {name: after[name] for name in after if after[name] != before[name]})

    return kernel


def _synced(widget: AnyWidget) -> tuple[dict[str, Any], list[str]]:
    """What the kernel tells a view, bytes as base64, and which traits are bytes."""
    names = sorted(set(widget._state()) - {"_esm", "_css"})
    state = {name: getattr(widget, name) for name in names}
    binary = [name for name, value in state.items() if isinstance(value, bytes)]
    return state | {name: base64.b64encode(state[name]).decode() for name in binary}, binary


def drawn(page: Page) -> None:
    """Wait until the page has drawn what it was told: two of its frames, however long they take."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def becomes(page: Page, read: Callable[[], Any], wanted: Callable[[Any], bool], seconds: float = 10) -> Any:
    """What is read once it is as wanted; where it never is, what is read last, for the test to show."""
    end = time.monotonic() + seconds
    while not wanted(found := read()) and time.monotonic() < end:
        page.wait_for_timeout(50)
    return found


def canvas_hash(page: Page, selector: str) -> str:
    """Hash of the picture in the first canvas that ``selector`` finds: equal pictures, equal hashes."""
    picture = page.locator(selector).first.evaluate("canvas => canvas.toDataURL()")
    return hashlib.sha256(str(picture).encode()).hexdigest()


def point(page: Page, selector: str, across: float = 0.5, down: float = 0.5, click: bool = False) -> None:
    """Puts the pointer on a place of a node, told as parts of its width and height."""
    node = page.locator(selector).first
    box = node.bounding_box()
    assert box is not None
    node.hover(position={"x": across * box["width"], "y": down * box["height"]})
    if click:
        page.mouse.down()
        page.mouse.up()


def readout(page: Page) -> str:
    """What an explorer says of what is pointed at or chosen."""
    return page.locator(".attnx-readout").inner_text()


def tints(tokens: Locator) -> list[list[int] | None]:
    """The background of each token, as [red, green, blue]; None where it has none."""
    found = tokens.evaluate_all("all => all.map((token) => token.style.backgroundColor)")
    return [[int(part) for part in re.findall(r"\d+", each)] or None for each in found]


def focused(page: Page) -> str:
    """What the keys go to, by what it is called."""
    called: str = page.evaluate(
        """() => {
             const { ariaLabel, tagName, textContent } = document.activeElement;
             return ariaLabel ?? (tagName === "BODY" ? "nothing" : textContent);
           }"""
    )
    return called


def slide(page: Page, checkpoint: int) -> None:
    """Moves the slider of a training."""
    page.get_by_label("Checkpoint", exact=True).fill(str(checkpoint))


def violations(page: Page) -> list[Any]:
    """What axe-core finds of explorers: names that can be read out, roles that fit, contrast."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[Any] = page.evaluate(
        """() => axe.run(".attnx").then(({ violations }) =>
             violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]))"""
    )
    return found


def downloaded(page: Page, button: str, path: Path) -> str:
    """Saves what a button offers; returns the name that it is offered by."""
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    download.value.save_as(path)
    return download.value.suggested_filename


def agrees(text: str, value: Any) -> bool:
    """Whether a number that is shown is right to one unit of its last digit."""
    text = text.replace("−", "-").replace("+", "")
    if "<" in text:
        return bool(abs(value) < float(text.replace("<", "").replace("-", "")))
    return abs(float(text) - float(value)) <= 10.0 ** -len(text.partition(".")[2])
