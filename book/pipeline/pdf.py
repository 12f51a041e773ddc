"""`python -m book.pipeline.pdf build/quick`: the whole book as one PDF, printed by Chromium.

The executed chapters are rendered once more, as one long page. Explorers are printed in their initial state.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

from .stage import BookError, assemble, render

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless", "--disable-gpu"]
WIDTH = 860  # of the page in pixels: what A4 holds between its margins at this scale
PAPER = {
    "format": "A4",
    "scale": 0.78,
    "margin": {"top": "18mm", "bottom": "18mm", "left": "15mm", "right": "15mm"},
    "print_background": True,
    "outline": True,
    "tagged": True,
    "display_header_footer": True,
    "header_template": "<span></span>",
    "footer_template": (
        '<div style="width: 100%; text-align: center; font-size: 8px"><span class="pageNumber"></span></div>'
    ),
}


def chromium() -> str:
    """The path of Chromium: the variable CHROMIUM, or the first of `NAMES` on the path."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found or not Path(found).exists():
        raise BookError(
            f"A PDF is printed by Chromium, and there is none ({', '.join(NAMES)}): install one, or name it: "
            "CHROMIUM=/path make pdf"
        )
    return found


def launched(playwright: Playwright) -> Browser:
    """Chromium in its sandbox, or without one where it cannot have one (as root, or in a container)."""
    how: dict[str, Any] = {"executable_path": chromium(), "args": FLAGS}
    try:
        return playwright.chromium.launch(chromium_sandbox=True, **how)
    except Error:
        return playwright.chromium.launch(chromium_sandbox=False, **how)


def print_page(page_file: Path, target: Path) -> Path:
    """Prints a page on disk, with formulas and explorers drawn; returns the path of the PDF."""
    with sync_playwright() as playwright:
        browser = launched(playwright)
        page = browser.new_page(viewport={"width": WIDTH, "height": 1200}, color_scheme="light")
        page.goto(page_file.resolve().as_uri(), timeout=300_000)
        page.emulate_media(media="print")
        page.wait_for_timeout(2000)  # explorers draw once more at the width of the paper
        page.pdf(path=target, **PAPER)  # type: ignore[arg-type]
        browser.close()
    return target


def main() -> int:
    """Prints one profile's book; returns the exit status."""
    parser = argparse.ArgumentParser(description="Print the book from executed chapters.")
    parser.add_argument("build", type=Path, help="build/<profile>, where `make book` has been")
    build = parser.parse_args().build
    stage, output = build / "pdf-stage", build / "pdf"
    try:
        chromium()
        assemble(build, stage, divided=False)
        print("book  rendering one page", flush=True)
        pages = render(stage, output, builder="singlehtml")
        print("book  printing it", flush=True)
        print(print_page(pages / "index.html", build / "book.pdf"))
    except (BookError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        for folder in (stage, output):
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
