"""A book that is built twice from one tree is the same, byte for byte, but for the page that holds times."""

import filecmp
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from tests.book.test_pipeline import ROOT, make, project, write_chapter

__all__ = ["project"]  # a small checkout, with the real pipeline

pytestmark = [pytest.mark.book, pytest.mark.slow]

STATUS = (
    "---\nnosearch: true\n---\n\n# Times\n\n```{nb-exec-table}\n```\n\n"
    "## Times measured by chapters\n\n% times\n"
)


def test_a_book_built_twice_differs_in_its_times_only(project: Path, monkeypatch) -> None:
    write_chapter(
        project, "second", "object()", "print(*{'a', 'b'} - {'a'})", "import pandas\npandas.Series([1])"
    )
    with_times = project / "notebooks/second.ipynb"
    notebook = nbformat.read(with_times, 4)
    timed = "import time\nprint(time.time())"
    notebook.cells.append(new_code_cell(timed, id="timed", metadata={"tags": ["times"]}))
    nbformat.write(notebook, with_times)
    as_the_book_is(project)
    shutil.rmtree(project / "notebooks/profiles/first")  # one chapter is enough

    for number in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", number)  # the order of sets
        done = make(project)
        assert done.returncode == 0, done.stdout + done.stderr
        (project / "build").rename(project / number)
    first, second = project / "1/smoke/html", project / "2/smoke/html"
    files = {str(path.relative_to(first)) for path in first.rglob("*") if path.is_file()}
    assert files == {str(path.relative_to(second)) for path in second.rglob("*") if path.is_file()}
    same, different, _ = filecmp.cmpfiles(first, second, files, shallow=False)
    assert different == ["book/status.html"] and "notebooks/second.html" in same
    for html in (first, second):
        assert "status.html#times-measured-by-chapters" in (html / "notebooks/second.html").read_text()


def as_the_book_is(project: Path) -> None:
    """Lets a small checkout have the book's own settings, extensions and style, and a page of times."""
    for name in ("_ext", "_static", "assets"):
        shutil.copytree(ROOT / "book" / name, project / "book" / name)
    for name in ("_config.yml", "book/references.bib"):
        shutil.copy(ROOT / name, project / name)
    (project / "book/status.md").write_text(STATUS)
    toc = "format: jb-book\nroot: index\nchapters:\n  - file: notebooks/second\n  - file: book/status\n"
    (project / "_toc.yml").write_text(toc)
