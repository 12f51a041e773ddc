"""A chapter that a reader has run by papermill, as a page like the book's."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import papermill
import pytest

from attnlib import plots
from book.pipeline import page as pages
from book.pipeline.execute import clean
from tests.book.built import ROOT
from tests.browser import watched_page

pytestmark = pytest.mark.book

MARKED = "all => all.map(each => ['.pasted-text', 'del'].map(part => each.querySelector(part).innerText))"
DRAWN = "all => Promise.all(all.map(img => { img.loading = 'eager'; return img.decode(); }))"


@pytest.fixture(scope="module")
def rerun(html: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cheapest chapter with one parameter that is another one than in the built book."""
    out = tmp_path_factory.mktemp("rerun") / "out.ipynb"
    papermill.execute_notebook(
        ROOT / "notebooks/methods.ipynb",
        out,
        {"right": 8},
        cwd=ROOT,
        progress_bar=False,
        kernel_name="python3",
    )
    return out


def test_a_page_of_a_rerun_marks_the_numbers_that_are_others(rerun: Path, browser) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "book.pipeline.page", str(rerun)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    address = done.stdout.removeprefix("The page: ").strip()
    assert address == rerun.with_name("out_page").joinpath("notebooks/methods.html").as_uri()
    with watched_page(browser) as (page, problems):
        page.goto(address)
        minute = page.locator(".one-minute")
        marked = minute.locator("mark.changed").evaluate_all(MARKED)
        assert marked == [["8 of 21", "20 of 21"], ["38 %", "95 %"]]
        same = minute.locator(".pasted-text", has_text="0.31 (a)")
        assert same.count() == 1 and same.locator("xpath=ancestor::mark").count() == 0
        assert "glue" not in page.locator("article").first.inner_text()
        assert "right" in page.locator(".admonition.warning").inner_text()
        assert page.locator(".caption-number").first.inner_text().strip().startswith("Figure 1.1")
        page.locator("section.attnx").first.get_by_label("Layer", exact=True).select_option("1")
        page.locator("figure img").evaluate_all(DRAWN)
        assert problems == []


def test_numbers_that_a_run_did_not_reach_are_dashes(rerun: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    notebook = nbformat.read(rerun, as_version=4)
    for cell in notebook.cells[5:]:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    pages.lay_out(notebook, "methods", tmp_path)
    text = nbformat.read(tmp_path / "notebooks/methods.ipynb", as_version=4).cells[0].source
    assert "has a measured accuracy of \N{EN DASH}." in text and "{glue:text}" not in text


def test_an_edited_text_is_shown_with_the_outputs_of_the_built_book(
    rerun: Path, tmp_path: Path, monkeypatch
) -> None:
    """What an author edits is the text; where the code changed, the outputs are of other code."""
    monkeypatch.chdir(tmp_path)
    Path("build/quick/notebooks").mkdir(parents=True)
    Path("notebooks").mkdir()
    nbformat.write(clean(nbformat.read(rerun, as_version=4)), "build/quick/notebooks/methods.ipynb")
    edited = nbformat.read(ROOT / "notebooks/methods.ipynb", as_version=4)
    edited.cells[0].source += "\n\nA sentence more."
    nbformat.write(edited, "notebooks/methods.ipynb")
    notebook = pages.read(Path("notebooks/methods.ipynb"))
    assert notebook.cells[0].source.endswith("A sentence more.") and pages.is_finished(notebook)
    code = next(cell for cell in edited.cells if cell.cell_type == "code" and "tags" not in cell.metadata)
    code.source += "\nprint('more')"
    nbformat.write(edited, "notebooks/methods.ipynb")
    with pytest.raises(pages.NoChapterError, match=r"the code of its cell \d+ is not that of build/quick"):
        pages.read(Path("notebooks/methods.ipynb"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "cannot be read as a notebook"),
        (None, "none has its title"),
        ("", "cannot be read as a notebook"),
    ],
)
def test_what_is_no_run_of_a_chapter_is_refused(
    text: str | None, why: str, rerun: Path, tmp_path: Path
) -> None:
    path = tmp_path / "out.ipynb"
    if text is None:
        other = nbformat.read(rerun, as_version=4)
        other.cells[0].source = "# A notebook of my own"
        text = nbformat.writes(other)
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "book.pipeline.page", str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and why in done.stderr and "Traceback" not in done.stderr
    assert not path.with_name("out_page").exists()


def test_numbers_in_tables_are_marked_where_row_and_column_are_the_same() -> None:
    def output(*rows: tuple[str, float]) -> nbformat.NotebookNode:
        table = pd.DataFrame(rows, columns=["method", "score"])
        data = plots.table(table, digits=2).captioned("scores", "Scores.")._repr_mimebundle_()
        return nbformat.from_dict({"cells": [{"outputs": [{"data": data}]}]})

    ours = output(("rollout", 0.25), ("occlusion", 0.5), ("flow", 0.75), ("twice", 1), ("twice", 2))
    theirs = output(("flow", 0.75), ("rollout", 0.5), ("twice", 3), ("twice", 4))
    tables = {"scores": pages.numbers_of(theirs.cells[0].outputs[0].data["text/html"])}
    assert pages.mark_tables(ours, tables) == (1, 2)  # rows of the same words are not compared
    marked = ours.cells[0].outputs[0].data["text/html"]
    assert re.findall("<mark.*?>(.*?)<span.*?<del>(.*?)</del>", marked) == [("0.25", "0.50")]
    assert marked.count("<tr>") == theirs.cells[0].outputs[0].data["text/html"].count("<tr>") + 1
