"""Search in a book that is read from disk: what it says of a page, which stands first, and what is saved."""

from pathlib import Path

import pytest
from sphinx.application import Sphinx

from tests.book.built import ROOT
from tests.browser import watched_page

pytestmark = pytest.mark.book

PAGES = {
    "index": "# Start\n\nHere are rollouts of all sorts, and sinks.\n",
    "sink": "# Attention sink\n\nThe first token.\n\n## Two sinks\n\nA second one, *behind* it.\n",
    "far": "# Another page\n\nAn attention that no sink has, and the word rollout.\n",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pages, as Sphinx makes them with the extension and the book's own theme."""
    folder = tmp_path_factory.mktemp("disk")
    for name, text in PAGES.items():
        (folder / f"{name}.md").write_text(text)
    (folder / "index.md").write_text(PAGES["index"] + "\n```{toctree}\nsink\nfar\n```\n")
    (folder / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'book/_ext')!r})\n"
        "extensions = ['myst_parser', 'sphinx_book_theme', 'from_disk']\n"
        "html_context = {'default_mode': 'auto'}\n"
        "html_css_files = ['custom.css']\n"
        f"html_theme, html_static_path = 'sphinx_book_theme', [{str(ROOT / 'book/_static')!r}]\n"
    )
    Sphinx(folder, folder, folder / "out", folder / "trees", "html", status=None).build()
    (folder / "out/one.ipynb").write_text("{}")
    return folder / "out"


def found(page, site: Path, words: str) -> list[str]:
    page.goto(f"{(site / 'search.html').as_uri()}?q={words}")
    page.get_by_text("Search finished").wait_for()
    return page.locator("#search-results li").all_inner_texts()


def test_a_search_shows_what_pages_say_and_titles_come_first(site: Path, browser) -> None:
    with watched_page(browser) as (page, problems):
        first, *others = found(page, site, "attention sink")
        assert first.startswith("Attention sink\n") and "The first token. Two sinks A second" in first
        assert any(other.startswith("Another page\n") and "that no sink has" in other for other in others)
        section, *_ = found(page, site, "two sinks")
        assert section.split("\n")[-1] == "Two sinks A second one, behind it."
        assert problems == []


def test_the_query_begins_behind_the_magnifier(site: Path, browser) -> None:
    with watched_page(browser) as (page, _):
        page.goto((site / "search.html").as_uri())
        field, icon = (
            page.locator(".bd-search-container input"),
            page.locator(".bd-search-container .bd-search > :first-child"),
        )
        padding = field.evaluate("input => parseFloat(getComputedStyle(input).paddingLeft)")
        right = icon.bounding_box()["x"] + icon.bounding_box()["width"]
        assert field.bounding_box()["x"] + padding > right


def test_only_the_search_loads_what_pages_say(site: Path) -> None:
    loads = {path.name for path in site.glob("*.html") if "texts.js" in path.read_text()}
    assert loads == {"search.html"}


def test_a_served_notebook_is_saved(site: Path, browser) -> None:
    import from_disk  # on the path since the site was made

    link = '<a href="one.ipynb" target="_blank" class="btn">notebook</a>'
    bodies = {"page.html": from_disk.NOTEBOOK.sub(from_disk.SAVED, link), "one.ipynb": "{}"}
    page = browser.new_page()
    page.route(
        "http://book.test/*",
        lambda route: route.fulfill(body=bodies[route.request.url[17:]], content_type="text/html"),
    )
    page.goto("http://book.test/page.html")
    with page.expect_download() as started:
        page.get_by_text("notebook").click()
    assert started.value.suggested_filename == "one.ipynb"
    page.close()
