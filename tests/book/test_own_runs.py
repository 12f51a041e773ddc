"""The book of a reader who ran chapters by hand: the same pages, but for the last section of chapters."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_markdown_cell

from book.chapters.records import record
from book.pipeline.further import further_page
from tests.book.built import ROOT
from tests.book.test_built_twice import as_the_book_is
from tests.book.test_pipeline import ROWS, make, project, write_chapter

__all__ = ["project"]  # a small checkout, with the real pipeline

pytestmark = pytest.mark.book

COUNTED = re.compile(r"\b(Figure|Table)\s\d+\.\d+")

OF_ALL_PAGES = {"objects.inv", "searchindex.js", "_static/texts.js"}
"""What is made from the words and names of all pages."""


def without_own_runs(page: Path) -> str:
    """A page less the section of own runs, and the place that its contents have for it."""
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    for part in soup.select("section#your-runs"):
        part.decompose()
    for link in soup.select('a[href="#your-runs"]'):
        link.find_parent("li").decompose()
    for link in soup.select('a[href*="_further.html"]'):  # what is there is counted on from the chapter's own
        link.string = COUNTED.sub("", link.get_text())
    return "\n".join(filter(str.strip, str(soup).splitlines()))


def assert_pages_differ_in_own_runs_only(before: Path, now: Path, chapters: Collection[str]) -> None:
    """Two folders of pages, the second with own runs of these chapters."""

    def files(folder: Path) -> set[str]:
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    pages = {f"notebooks/{chapter}.html" for chapter in chapters}
    tables = {
        f"_data/{chapter}/{chapter.replace('_', '-')}-your-{of}.csv"
        for chapter in chapters
        for of in ("runs", "numbers")
    }
    assert files(now) - files(before) == tables and files(before) <= files(now)
    different = {name for name in files(before) if (before / name).read_bytes() != (now / name).read_bytes()}
    below = {f"notebooks/{further_page(chapter)}.html" for chapter in chapters} & files(before)
    sources = {f"_sources/{page.removesuffix('.html')}.ipynb" for page in pages | below}
    assert pages | sources <= different - OF_ALL_PAGES <= pages | below | sources
    for name in below:  # its figures and tables are counted on from those of the chapter
        of_both = [
            BeautifulSoup((each / name).read_text(), "html.parser").get_text() for each in (before, now)
        ]
        assert COUNTED.sub("", of_both[0]) == COUNTED.sub("", of_both[1]), name
    for name in pages:
        assert BeautifulSoup((now / name).read_text(), "html.parser").select("#your-runs figure table")
        assert without_own_runs(now / name) == without_own_runs(before / name), name


def test_own_runs_are_the_last_section_of_their_chapter(project: Path, monkeypatch) -> None:
    write_chapter(project, "second", "1 + 1")
    chapter = nbformat.read(project / "notebooks/second.ipynb", 4)
    chapter.cells.append(new_markdown_cell("## What to try next", id="next"))
    nbformat.write(chapter, project / "notebooks/second.ipynb")
    as_the_book_is(project)
    shutil.rmtree(project / "notebooks/profiles/first")  # one chapter is enough

    def run(folder: str, **other: float) -> None:
        monkeypatch.setenv("ATTNLIB_RESULTS", str(project / folder))
        rows = pd.DataFrame(ROWS | other)
        record(rows, notebook="second", label="run", params=other, device="CPU")

    run("results")
    first = make(project)
    assert first.returncode == 0, first.stdout + first.stderr
    shutil.copytree(project / "build/smoke/html", project / "before")
    run("my_runs", n=7)
    second = make(project)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "cell" not in second.stdout, "no chapter runs again"
    assert_pages_differ_in_own_runs_only(project / "before", project / "build/smoke/html", ["second"])


@pytest.mark.slow
def test_runs_of_every_chapter_by_hand_change_nothing_else_of_the_book(html: Path, tmp_path: Path) -> None:
    """They are the records of the smoke build, which runs by hand with its profiles leave as well."""
    own, build = tmp_path / "own", tmp_path / "smoke"
    shutil.copytree(html.parent / "results", own, ignore=shutil.ignore_patterns(".*"))
    for name in ("notebooks", "results", "runs"):
        shutil.copytree(html.parent / name, build / name)
    chapters = {path.parent.name for path in own.glob("*/*.parquet")}
    assert len(chapters) == 10
    places = {"ATTNLIB_RESULTS": own, "ATTNLIB_CACHE": ROOT / "build/test-cache", "PYTHONPATH": ROOT}
    environment = os.environ | {name: str(place) for name, place in places.items()}

    def run(*command: str, folder: Path = ROOT) -> str:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (
            done.stdout + done.stderr + "".join(map(Path.read_text, build.glob("*.txt")))
        )
        return done.stdout

    results = {path: path.stat().st_mtime_ns for path in (ROOT / "results").rglob("*")}
    run(sys.executable, "-m", "book.pipeline.stage", str(build), "--log", str(build / "log.txt"))
    assert_pages_differ_in_own_runs_only(html, build / "html", chapters)

    renewed = ("README.md", "CITATION.cff")
    for name in renewed:
        shutil.copy(ROOT / name, tmp_path)
    run(sys.executable, "-m", "book.chapters.findings", "--readme", folder=tmp_path)
    for name in renewed:
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), name

    dry = run(sys.executable, "-m", "book.pipeline", "smoke", "--dry-run")
    assert "rule notebook" not in dry, "no chapter is to run again"
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "results").rglob("*")} == results
