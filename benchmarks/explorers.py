"""How long explorers keep a page busy: the longest task of every action, page by page of a built book.

    make book && python benchmarks/explorers.py [--build build/quick] [--record]

In headless Chromium (`$CHROMIUM`, or /usr/bin/chromium), on an otherwise idle machine. Each turn opens a page
anew, so that a first save is the first; of the turns the best counts, since what else a machine does can only
take time. The browser tells of tasks of 50 ms and more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page
from timing import Line, common_options, open_browser, report

ROOT = Path(__file__).parents[1]
TURNS, SETTLED = 2, 200  # turns; milliseconds after which an action has nothing left to do
WATCHED = """() => {
  window.tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((task) => task.duration)))
    .observe({ entryTypes: ["longtask"] });
}"""
ACTIONS = ("comes into view", "is pointed at", "takes a key", "SVG", "PNG", "CSV")


def busy(page: Page) -> float:
    """The longest task since this was asked last, in milliseconds."""
    page.wait_for_timeout(SETTLED)
    return max(page.evaluate("tasks.splice(0)"), default=0.0)


def of_card(page: Page, card: Locator) -> Iterator[tuple[str, float]]:
    """What is done to an explorer, and the longest task of it."""
    card.scroll_into_view_if_needed()
    yield "comes into view", busy(page)
    for kind in ("SVG", "PNG", "CSV"):
        with page.expect_download():
            card.get_by_label(f"Save as {kind}").click()
        yield kind, busy(page)
    for control in card.locator("input[type=range], select, .attnx-stage").all():
        if not control.is_visible():
            continue
        control.hover()
        yield "is pointed at", busy(page)
        control.focus()
        page.keyboard.press("ArrowDown")
        yield "takes a key", busy(page)


def of_page(browser: Browser, path: Path) -> dict[str, float]:
    """The longest task of every action on the explorers of one page; empty where it has none."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.add_init_script(f"({WATCHED})()")
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(5 * SETTLED)
    busy(page)
    found = dict[str, float]()
    for card in page.locator(".attnx").all():
        if card.is_visible():
            for action, task in of_card(page, card):
                found[action] = max(found.get(action, 0.0), task)
    page.close()
    return found


def main() -> None:
    """Measure every page that has an explorer."""
    parser = common_options(__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build/quick", help="the folder of a build")
    options = parser.parse_args()
    pages = sorted(path for path in (options.build / "html").rglob("*.html") if "attnx" in path.read_text())
    if not pages:
        raise SystemExit(
            f"{options.build}/html has no explorers: `make book` first, or name a build with --build"
        )
    lines: list[Line] = []
    with open_browser() as browser:
        for page in pages:
            turns = [found for _ in range(TURNS) if (found := of_page(browser, page))]
            if not turns:
                continue
            best = {action: min(turn.get(action, 0.0) for turn in turns) for action in ACTIONS}
            told = {action: f"{task:.0f}" if task else "under 50" for action, task in best.items()}
            lines.append({"page": page.stem.replace("_", " "), **told})
    report("explorers", lines, options.record)


if __name__ == "__main__":
    main()
