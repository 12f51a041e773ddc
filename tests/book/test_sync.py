"""`make sync`: no edit of a chapter's notebook or text is lost."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from book.pipeline.sync import sync

ROOT = Path(__file__).parents[2]
NOTEBOOK, TEXT = Path("notebooks/first.ipynb"), Path("notebooks/text/first.md")
PAIR = [NOTEBOOK, TEXT]
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def git(*words: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *own, *words], check=True, capture_output=True)


def write(name: str) -> None:
    cells = [new_markdown_cell(f"# {name}"), new_code_cell("steps = 1")]
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": KERNEL}), f"notebooks/{name}.ipynb")


def edit(path: Path, to: str, seconds: float = 0) -> None:
    """Write another value into the cell, at another time."""
    path.write_text(path.read_text().replace("steps = 1", f"steps = {to}"))
    os.utime(path, (then := time.time() + seconds, then))


def values() -> list[str]:
    """What the cell says in the notebook and in the text."""
    return [jupytext.read(path).cells[-1].source for path in PAIR]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout of two chapters."""
    monkeypatch.chdir(tmp_path)
    for name in ("jupytext.toml", "_config.yml"):
        shutil.copy(ROOT / name, tmp_path)
    Path("notebooks/text").mkdir(parents=True)
    write("first")
    write("second")
    assert sync() == 0
    git("init")
    git("add", ".")
    git("commit", "--message", "both")
    shutil.rmtree("build")


@pytest.mark.parametrize("newer", PAIR, ids=["notebook", "text"])
def test_two_edits_are_both_named_and_nothing_is_changed(newer: Path, capsys) -> None:
    for path, value in zip(PAIR, "23", strict=True):
        edit(path, value, seconds=60 * (path == newer))
    second = Path("notebooks/text/second.md")
    edit(second, "4")
    files = [*PAIR, second, second.parents[1] / "second.ipynb"]
    before = [(path.read_bytes(), path.stat().st_mtime) for path in files]
    assert sync() == 1
    said = capsys.readouterr().err
    assert "notebooks/first.ipynb and notebooks/text/first.md differ" in said and "second" not in said
    assert [(path.read_bytes(), path.stat().st_mtime) for path in files] == before
    newer.unlink()  # as the message says
    assert sync() == 0 and len(set(values())) == 1
    assert values()[0] == ("steps = 3" if newer == NOTEBOOK else "steps = 2")


@pytest.mark.parametrize("edited", PAIR, ids=["notebook", "text"])
@pytest.mark.parametrize("seconds", [60, -60], ids=["newer", "older than the other"])
def test_one_edit_is_in_both(edited: Path, seconds: float) -> None:
    edit(edited, "2", seconds)
    assert sync() == 0 and values() == ["steps = 2"] * 2


def test_the_same_edit_in_both_is_no_contradiction_nor_are_outputs(capsys) -> None:
    for path in PAIR:
        edit(path, "2")
    notebook = nbformat.read(NOTEBOOK, 4)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="out")]
    nbformat.write(notebook, NOTEBOOK)
    assert sync() == 0 and values() == ["steps = 2"] * 2


@pytest.mark.parametrize("second", PAIR, ids=["notebook", "text"])
def test_one_may_edit_again_before_the_commit(second: Path) -> None:
    edit(TEXT, "1 + 1")
    assert sync() == 0
    edit(second, "3")
    assert sync() == 0 and values() == ["steps = 3 + 1"] * 2


@pytest.mark.parametrize("edited", PAIR, ids=["notebook", "text"])
@pytest.mark.parametrize("seconds", [60, -60], ids=["newer", "older than the other"])
def test_an_edit_that_was_committed_in_one_of_them_is_not_lost(edited: Path, seconds: float, capsys) -> None:
    (other,) = {*PAIR} - {edited}
    edit(edited, "2", seconds)
    git("commit", "--all", "--message", "one of them")
    before = other.read_bytes()
    edit(other, "3")
    assert sync() == 1 and "first.ipynb and notebooks/text/first.md differ" in capsys.readouterr().err
    other.write_bytes(before)
    assert sync() == 0 and values() == ["steps = 2"] * 2


def in_git_no_longer() -> None:
    shutil.rmtree(".git")


def renamed() -> None:
    for path in PAIR:
        git("rm", "--cached", str(path))
    git("commit", "--message", "as before they were added")


@pytest.mark.parametrize("unknown", [in_git_no_longer, renamed])
def test_of_files_that_are_not_in_git_none_is_lost(unknown: Callable[[], None], capsys) -> None:
    unknown()
    NOTEBOOK.unlink()
    assert sync() == 0 and values() == ["steps = 1"] * 2, "a new text gets its notebook"
    shutil.rmtree("build")
    edit(TEXT, "2")
    assert sync() == 1 and "first.ipynb and notebooks/text/first.md differ" in capsys.readouterr().err
    TEXT.unlink()
    assert sync() == 0 and values() == ["steps = 1"] * 2, "a new notebook gets its text"
    edit(TEXT, "3")
    assert sync() == 0 and values() == ["steps = 3"] * 2, "after that it is known what they said together"


def test_a_notebook_that_is_none_is_named(capsys) -> None:
    NOTEBOOK.write_text("<<<<<<< HEAD\n{}")
    assert sync() == 1
    assert "notebooks/first.ipynb cannot be read as a notebook" in capsys.readouterr().err
    assert NOTEBOOK.read_text().startswith("<<<")
