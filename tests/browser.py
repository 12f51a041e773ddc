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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from anywidget import AnyWidget
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Request, Route, sync_playwright
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


def render_live(page: Page, widget: AnyWidget) -> None:
    """Render a widget's module in a page as anywidget calls it, below what is there.

    Bytes come as DataViews at an odd offset. In the page, `model.set(name, value)` is what Python or the
    reader sets, `heard` holds who listens to what, and `letGo()` ends it.
    """
    state = {name: getattr(widget, name) for name in widget._state()}
    packed = {
        name: base64.b64encode(each).decode() for name, each in state.items() if isinstance(each, bytes)
    }
    plain = {name: value for name, value in state.items() if name not in packed}
    page.evaluate(
        """async ([source, plain, packed]) => {
          const state = { ...plain }, heard = {};
          for (const [name, text] of Object.entries(packed)) {
            const bytes = Uint8Array.from(atob("AAAA" + text), (letter) => letter.charCodeAt(0));
            state[name] = new DataView(bytes.buffer, 3);
          }
          window.heard = heard;
          window.model = { get: (name) => state[name], save_changes() {},
            set(name, value) {
              state[name] = value;
              for (const react of heard["change:" + name] ?? []) react();
            },
            on: (event, react) => (heard[event] ??= []).push(react),
            off: (event, react) => { heard[event] = heard[event].filter((other) => other !== react); } };
          const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
          const el = document.body.appendChild(document.createElement("div"));
          window.letGo = (await import(url)).default.render({ model, el });
        }""",
        [str(widget._esm), plain, packed],
    )
    page.wait_for_timeout(100)


def canvas_hash(page: Page, selector: str) -> str:
    """Hash of the picture in the first canvas that ``selector`` finds: equal pictures, equal hashes."""
    picture = page.locator(selector).first.evaluate("canvas => canvas.toDataURL()")
    return hashlib.sha256(str(picture).encode()).hexdigest()
