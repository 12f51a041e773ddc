"""The pipeline on a book of two tiny chapters: what is done, what is done twice, what a failure leaves."""

import copy
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import psutil
import pytest
from bs4 import BeautifulSoup
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlib.places import cache_folder, pasteable
from attnlib.plots.drawing import CSV, DARK, Drawing, carried
from attnlib.widgets.language_model_explorer import BOOK, LanguageModelExplorer
from book.chapters.records import record
from book.chapters.records.reproduced import reproduced
from book.chapters.records.runs import read_all
from book.pipeline import __main__ as building
from book.pipeline import execute, pictures, stage
from book.pipeline.absent import fill_absent
from book.pipeline.contents import documents
from book.pipeline.download import write_out
from book.pipeline.execute import ChapterError, clean, run_chapter
from book.pipeline.profiles import ProfileError
from book.pipeline.reached import chapters_of, files_reached, priority
from book.pipeline.stage import BookError, assemble, put_model, records_table, status_table
from book.pipeline.sweep import lay_out, name_of, recorded, refuse_impossible, said_before
from book.pipeline.sweep import main as swept
from book.pipeline.sweep import planned as sweep_of
from book.pipeline.sweep import table as table_of
from book.pipeline.times import set_apart
from book.sealing import sealed
from tests.processes import all_end

ROOT = Path(__file__).parents[2]
PARAMETERS = new_code_cell("seconds: int = 0  # how long to wait", metadata={"tags": ["parameters"]})
ROWS = {"metric": ["accuracy"], "value": [0.9], "low": [0.8], "high": [0.95], "n": [50]}
RECORD = """\
import os, shutil
from book.first import two
shutil.copytree("record", os.environ["ATTNLIB_RESULTS"], dirs_exist_ok=True);
"""
"""What a chapter does that records, without the seconds that imports take."""

PLAIN = f"""\
#!/bin/bash
case "$*" in
"-m book.pipeline.stage "*)
  [ ! -e stage-fails ] || exit 1
  mkdir -p "$3/html" && echo new >"$3/html/index.html" && echo none >"$3/reproduced.txt" ;;
*) exec -a "$0" {sys.executable} "$@" ;;
esac
"""


def write_chapter(project: Path, name: str, *sources: str) -> None:
    """A chapter with one parameter, these cells, and a smoke profile."""
    cells = [new_markdown_cell(f"# {name}"), PARAMETERS, *map(new_code_cell, sources)]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    (project / "notebooks").mkdir(exist_ok=True)
    nbformat.write(
        new_notebook(cells=cells, metadata={"kernelspec": kernel}), project / f"notebooks/{name}.ipynb"
    )
    profile = project / f"notebooks/profiles/{name}/smoke.yaml"
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text("seconds: 0\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with the real Snakefile, pipeline and records, and a page of prose."""
    return laid_out(tmp_path)


def laid_out(tmp_path: Path) -> Path:
    """Write it, and return it."""
    shutil.copy(ROOT / "Snakefile", tmp_path)
    shutil.copytree(ROOT / "book/pipeline", tmp_path / "book/pipeline")
    (tmp_path / "attnlib").symlink_to(ROOT / "attnlib")
    (tmp_path / "book/chapters").symlink_to(ROOT / "book/chapters")
    (tmp_path / "book/sealing.py").symlink_to(ROOT / "book/sealing.py")
    (tmp_path / "book/__init__.py").touch()
    (tmp_path / "book/first").mkdir()
    (tmp_path / "book/first/__init__.py").write_text("from .one import two\n")
    (tmp_path / "book/first/one.py").write_text("two = 2\n")
    (tmp_path / "constraints.txt").touch()
    (tmp_path / "index.md").write_text("# Two chapters\n\n```{tableofcontents}\n```\n")
    (tmp_path / "_config.yml").write_text("title: Two chapters\nonly_build_toc_files: true\n")
    chapters = "".join(f"  - file: notebooks/{name}\n" for name in ("first", "second"))
    (tmp_path / "_toc.yml").write_text(f"format: jb-book\nroot: index\nchapters:\n{chapters}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLIB_RESULTS", str(tmp_path / "record"))
        record(pd.DataFrame(ROWS), notebook="first", label="run", params={}, device="CPU")
    write_chapter(tmp_path, "first", RECORD)
    write_chapter(tmp_path, "second", "1 + 1")
    return tmp_path


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """This interpreter, but that it renders an empty page at once: where Snakemake is what is tested."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "bin").mkdir()
    for name in ("lib", "lib64", "pyvenv.cfg"):
        (folder / name).symlink_to(Path(sys.prefix) / name)
    python = folder / "bin/python"
    python.write_text(PLAIN)  # bash, as `exec -a` hands on the name that `sys.executable` is
    python.chmod(0o755)
    return str(python)


@pytest.fixture(scope="session")
def built_once(plain: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose book is built."""
    project = laid_out(tmp_path_factory.mktemp("built"))
    done = make(project, plain)
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """A copy of it: times of files are kept, so that Snakemake finds nothing to be done."""
    return shutil.copytree(built_once, tmp_path, symlinks=True, dirs_exist_ok=True)


def inside(project: Path) -> dict[str, Any]:
    """How a process is started in a checkout: with its own `book`, and its own runs."""
    own = {"PYTHONPATH": str(project), "ATTNLIB_RESULTS": str(project / "my_runs")}
    return {"cwd": project, "env": os.environ | own}


def make(project: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """What `make book PROFILE=smoke` runs."""
    command = [python, "-m", "book.pipeline", "smoke", "--cores", "2"]
    return subprocess.run(command, **inside(project), capture_output=True, text=True, timeout=300)


def snakemake(project: Path, *arguments: str) -> str:
    """Snakemake called by hand; returns what it says."""
    command = [sys.executable, "-m", "snakemake", "--config", "profile=smoke", "--nolock", *arguments]
    done = subprocess.run(command, **inside(project), capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def planned(project: Path) -> str:
    """What Snakemake would do now, in its words."""
    return snakemake(project, "--dry-run")


def outputs(project: Path) -> set[str]:
    """The files a build leaves that a reader would take for results."""
    build = project / "build/smoke"
    folders = [build / name for name in ("html", "notebooks", "results", "runs")]
    return {
        str(path.relative_to(build)) for folder in folders for path in folder.rglob("[!.]*") if path.is_file()
    }


@pytest.mark.book
def test_a_second_run_does_nothing_and_an_edit_runs_the_chapters_that_reach_it(
    project: Path, plain: str
) -> None:
    shutil.copytree(project / "record", project / "results")
    gone = project / "build/smoke/results/gone"  # a chapter that the book had
    gone.mkdir(parents=True)
    early = "make page FILE=build/smoke/notebooks/CHAPTER.ipynb"
    first = make(project)
    assert first.returncode == 0, first.stdout + first.stderr
    assert re.search(r"^second +not built yet$", first.stdout, re.MULTILINE)
    assert early in first.stdout and not gone.exists()
    assert "\n1 of 1 recorded numbers reproduced.\nThe book: " in first.stdout
    assert f"{(project / 'build/smoke/html/index.html').as_uri()}\n" in first.stdout
    assert {"html/index.html", "html/notebooks/first.html", "notebooks/first.ipynb"} <= outputs(project)
    assert "results/first/run-44136fa3.json" in outputs(project)

    second = make(project)
    assert second.returncode == 0
    assert (
        "Nothing to be done" in second.stdout and "begun" not in second.stdout and early not in second.stdout
    )
    assert "1 of 1 recorded numbers reproduced" in second.stdout

    # Other parameters for one chapter: that chapter and the book.
    (project / "notebooks/profiles/second/smoke.yaml").write_text("seconds: 0.5\n")
    plan = planned(project)
    assert "notebook=second" in plan and "notebook=first" not in plan and "rule book" in plan

    assert make(project, plain).returncode == 0
    # A model that comes with the book, for the chapter that shows it.
    (project / "results/models/first").mkdir(parents=True)
    (project / "results/models/first/model.safetensors").touch()
    plan = planned(project)
    assert "notebook=first" in plan and "notebook=second" not in plan
    shutil.rmtree(project / "results/models")
    # A line of the code of one chapter, and of what executes all of them.
    (project / "book/first/one.py").write_text("two = 3\n")
    plan = planned(project)
    assert "notebook=first" in plan and "notebook=second" not in plan and "rule book" in plan
    (project / "book/pipeline/roles.py").open("a").write("\n# the end\n")
    again = make(project, plain)
    assert again.returncode == 0, again.stderr
    said = [re.sub(r" +([\d.]+ min)? +", " ", line) for line in again.stdout.splitlines()]
    assert "first book/first/one.py has changed, and 1 more" in said
    assert "second book/pipeline/roles.py has changed" in said


@pytest.mark.book
def test_a_chapter_that_takes_another_ones_models_comes_after_it(project: Path) -> None:
    first = "build/smoke/notebooks/first.ipynb"
    assert "notebook=second" not in snakemake(project, "--dry-run", first)
    (project / "notebooks/needs.yaml").write_text("first: [second, without_this_profile]\nto_come: [first]\n")
    plan = snakemake(project, "--dry-run", first)
    assert plan.index("notebook=second") < plan.index("notebook=first")
    assert "without_this_profile" not in plan and "to_come" not in plan


@pytest.mark.book
def test_a_failure_names_notebook_and_cell_and_leaves_nothing_half_written(project: Path, plain: str) -> None:
    write_chapter(project, "second", "ok = True", "\n# the ratio\nratio = 1 / 0", "never = 1")
    failed = make(project, plain)
    assert failed.returncode != 0
    assert "notebooks/second.ipynb failed in cell 4: # the ratio" in failed.stderr
    assert "ZeroDivisionError: division by zero" in failed.stderr
    assert "`make book PROFILE=smoke FLAGS=-n` says what is left to be done" in failed.stderr
    assert "ratio = 1 / 0" in (project / "build/smoke/logs/second.txt").read_text()
    # The good chapter stays; of the failed one and of the book there is nothing.
    kept = {f"results/first/run-44136fa3.{kind}" for kind in ("json", "parquet")}
    assert outputs(project) == {"notebooks/first.ipynb", "runs/first.json", *kept}

    write_chapter(project, "second", "ok = True")
    mended = make(project, plain)
    assert mended.returncode == 0, mended.stderr
    assert "first " not in mended.stdout


@pytest.mark.book
def test_a_build_that_fails_leaves_the_pages_of_the_one_before(built: Path, plain: str) -> None:
    page, still = built / "build/smoke/html/index.html", "are still those of an earlier build"
    page.write_text("before\n")

    def fails() -> bool:
        failed = make(built, plain)
        return failed.returncode != 0 and still in failed.stderr and page.read_text() == "before\n"

    write_chapter(built, "second", "1 / 0")
    assert fails()
    write_chapter(built, "second", "1 + 1")
    (built / "stage-fails").touch()
    assert fails() and fails(), "and the pages are not taken for the new ones the next time"
    (built / "stage-fails").unlink()
    again = make(built, plain)
    assert again.returncode == 0 and "Nothing to be done" not in again.stdout and still not in again.stderr
    assert page.read_text() == "new\n"


def test_pages_are_replaced_by_whole_ones_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, pages = tmp_path / "html/index.html", tmp_path / "pages"
    page.parent.mkdir()
    page.write_text("before")

    def rendered(*_: Any) -> Path:
        assert page.read_text() == "before"
        if not pages.exists():
            raise BookError("a link leads nowhere")
        return pages

    monkeypatch.setattr(stage, "assemble", lambda *_: "all")
    monkeypatch.setattr(stage, "render", rendered)
    monkeypatch.setattr(sys, "argv", ["stage", str(tmp_path), "--log", str(tmp_path / "log.txt")])
    assert stage.main() == 1 and page.read_text() == "before"
    assert (tmp_path / "log.txt").read_text() == "a link leads nowhere\n"
    assert not (tmp_path / "reproduced.txt").exists()
    pages.mkdir()
    (pages / "index.html").write_text("after")
    assert stage.main() == 0 and page.read_text() == "after"
    assert (tmp_path / "reproduced.txt").read_text() == "all"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["html", "log.txt", "reproduced.txt"]


def test_a_part_of_a_page_that_fails_names_page_part_and_command(tmp_path: Path) -> None:
    page, folder = tmp_path / "smoke/stage/book/status.md", tmp_path / "smoke/stage"

    def times() -> str:
        raise KeyError("no such record")

    with pytest.raises(BookError) as failed:
        stage.made(page, {"times": times}, folder, stage.PART.fullmatch("% times"))
    headline, _, whole = str(failed.value).partition("\n\n")
    assert headline.startswith("book/status.md: its part 'times' could not be made: 'no such record'")
    assert "make book PROFILE=smoke" in headline and "Traceback" in whole


@pytest.mark.slow
def test_a_killed_run_leaves_no_kernel_and_goes_on(built: Path, plain: str) -> None:
    wait = """\
import os, pathlib, time
pathlib.Path("begun").write_text(str(os.getpid()))
while not pathlib.Path("go").exists():
    time.sleep(0.1)
"""
    write_chapter(built, "second", wait)
    run = subprocess.Popen([plain, "-m", "book.pipeline", "smoke"], **inside(built))
    while run.poll() is None and not ((built / "begun").exists() and (built / "begun").read_text()):
        time.sleep(0.1)
    kernel = psutil.Process(int((built / "begun").read_text()))
    run.kill()  # alone: nobody tells its jobs
    run.wait()
    assert all_end([kernel])
    assert not (built / "build/smoke/notebooks/second.ipynb").exists()

    (built / "go").touch()
    again = make(built, plain)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "first " not in again.stdout, "a finished chapter is not run again"
    assert (built / "build/smoke/html/index.html").exists()


def test_a_kernel_that_dies_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_chapter(project, "second", "import os\nos._exit(1)")
    monkeypatch.chdir(project)
    with pytest.raises(ChapterError, match=r"second.ipynb failed in cell 3: import os\nThe kernel died"):
        run_chapter(Path("notebooks/second.ipynb"), {"seconds": 0})


EXECUTE = (
    "-m book.pipeline.execute notebooks/second.ipynb out.ipynb --parameters "
    "notebooks/profiles/second/smoke.yaml --results results/second --run run.json --log log.txt"
)


@pytest.mark.parametrize("in_terminal", [False, True])
def test_a_chapter_says_that_it_begins_and_is_done_and_a_terminal_shows_a_bar_between(
    project: Path, in_terminal: bool
) -> None:
    write_chapter(project, "second", "2 + 2")
    ours, theirs = pty.openpty() if in_terminal else os.pipe()
    if in_terminal:
        termios.tcsetwinsize(theirs, (24, 100))
    run = subprocess.Popen(
        [sys.executable, *EXECUTE.split()], **inside(project), stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # so ends a terminal that nobody writes to any more
        pass
    os.close(ours)
    assert run.wait() == 0, said.decode()
    assert ("cell 0/4" in said.decode()) == in_terminal
    shown = [re.sub(r".*(\r|\x1b\[K)", "", line.rstrip("\r")).strip() for line in said.decode().split("\n")]
    assert [re.sub(r" +\d+ s ", "", line) for line in shown] == ["second begun", "second done", ""]


def test_make_refuses_a_profile_it_does_not_know() -> None:
    done = subprocess.run(["make", "book", "PROFILE=fast"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "PROFILE must be smoke, quick or paper. Got 'fast' instead" in done.stderr


def test_the_page_shows_the_parameters_that_were_used_and_no_progress_bars() -> None:
    injected = new_code_cell("seconds = 3", metadata={"tags": ["injected-parameters"], "papermill": {}})
    stdout, stderr = (new_output("stream", name=name, text=name) for name in ("stdout", "stderr"))
    work = new_code_cell(
        "work()", metadata={"execution": {"iopub.status.busy": "now"}}, outputs=[stderr, stdout]
    )
    notebook = new_notebook(
        cells=[copy.deepcopy(PARAMETERS), injected, work], metadata={"papermill": {}, "widgets": {}}
    )
    defaults, used, worked = clean(notebook).cells
    assert "remove-cell" in defaults.metadata.tags
    assert (
        "hide-input" in used.metadata.tags
        and used.metadata.mystnb.code_prompt_show == "Parameters of this run"
    )
    assert worked.outputs == [stdout] and worked.metadata == {}
    assert not {"papermill", "widgets"} & set(notebook.metadata)
    # Without other parameters the defaults are what was used.
    assert "remove-cell" not in clean(new_notebook(cells=[copy.deepcopy(PARAMETERS)])).cells[0].metadata.tags


def test_a_run_of_other_parameters_says_so_behind_the_first_explorer() -> None:
    injected = new_code_cell("seconds = 3", metadata={"tags": ["injected-parameters"]})
    texts = ["# A chapter", "Look at the row.\n\n## Why this matters\n\nText.", "## Setup"]
    opening, why, setup = (new_markdown_cell(text) for text in texts)
    cells = clean(new_notebook(cells=[opening, copy.deepcopy(PARAMETERS), injected, why, setup])).cells
    before, box, _ = re.split(r"\n\n(?=```|## )", cells[3].source, maxsplit=2)
    assert before == "Look at the row." and "A run of other parameters" in box and "`seconds` is not" in box
    assert [cells[0].source, cells[4].source] == [texts[0], texts[2]]


def test_every_captioned_picture_of_a_notebook_is_written_with_its_numbers(
    tmp_path, monkeypatch, capsys
) -> None:
    rows, arrays = pd.DataFrame({"x": [0, 1], "y": [0.25, 0.5]}), {"attention": np.eye(2)}
    drawn = Drawing(lambda: (Figure(), rows, "a line")).captioned("a-line", "A line.")
    shown = [
        drawn._repr_mimebundle_(),
        carried(arrays) | drawn.captioned("a-map", "A map.").said(),
        {CSV: "x\n"},
    ]
    cells = [new_code_cell("draw()", outputs=[new_output("display_data", each) for each in shown])]
    notebook, folder = tmp_path / "out.ipynb", tmp_path / "new" / "pictures"
    nbformat.write(new_notebook(cells=cells), notebook)

    def run(path: Path) -> None:
        monkeypatch.setattr("sys.argv", ["pictures", str(path), str(folder)])
        pictures.main()

    run(notebook)
    assert {path.name for path in folder.iterdir()} == {
        "a-line.svg",
        "a-line.dark.svg",
        "a-line.csv",
        "a-map.npz",
    }
    assert (folder / "a-line.csv").read_text() == "x,y\n0,0.25\n1,0.5\n"
    assert (folder / "a-line.svg").read_text().startswith("<?xml")
    np.testing.assert_array_equal(np.load(folder / "a-map.npz")["attention"], np.eye(2))
    assert "4 files of 2 figures and tables" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="not appear to be JSON"):
        run(folder / "a-line.csv")


def test_a_page_of_other_parameters_says_so_below_its_title(tmp_path: Path) -> None:
    cells = [new_markdown_cell("# A chapter"), PARAMETERS]
    (tmp_path / "profiles/x").mkdir(parents=True)
    (tmp_path / "profiles/x/quick.yaml").write_text("seconds: 3\n")
    kernel = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
    nbformat.write(new_notebook(cells=copy.deepcopy(cells), metadata=kernel), tmp_path / "x.ipynb")

    def warning(injected: str, chapter: Path | None = None) -> str:
        cell = new_code_cell(injected, metadata={"tags": ["injected-parameters"]})
        second = clean(new_notebook(cells=copy.deepcopy([*cells, cell])), chapter).cells[1]
        return second.source if second.cell_type == "markdown" else ""

    assert "`steps`, `seeds` are not what this chapter" in warning("steps = 3\nseeds = [1]")
    assert warning("seconds = 0") == "", "the notebook's own value"
    assert warning("seconds = 3", tmp_path / "x.ipynb") == "", "that of the profile quick"
    assert "`seconds` is not" in warning("seconds = 4", tmp_path / "x.ipynb")


def test_the_same_run_gives_the_same_file() -> None:
    def executed(address: str) -> str:
        injected = new_code_cell("seconds = 3", metadata={"tags": ["injected-parameters"]})  # a random name
        table = {"text/html": "<table></table>", "text/plain": f"<Styler at {address}>"}
        work = new_code_cell("work()", outputs=[new_output("execute_result", table)])
        work["id"] = "work"
        return nbformat.writes(clean(new_notebook(cells=[injected, work])))

    assert executed("0x7f4da6808190") == executed("0x7fd296cedd10")


@pytest.mark.parametrize("own", ["/scratch/models", ""])
def test_a_page_names_the_readers_folder_of_models_and_not_the_builds(monkeypatch, own: str) -> None:
    monkeypatch.setenv("ATTNLIB_CACHE", own)
    kept = cache_folder() / "first/0a1b/best.safetensors"
    printed = new_output("stream", name="stdout", text=f"it lies in {pasteable(kept)}\n")
    page = nbformat.writes(clean(new_notebook(cells=[new_code_cell("print(kept)", outputs=[printed])])))
    assert str(cache_folder()) not in page and pasteable(cache_folder()) not in page
    (told,) = json.loads(page)["cells"][0]["outputs"][0]["text"]
    shell = ["bash", "-uc", f"echo {told.removeprefix('it lies in ')}"]
    for theirs, folder in (({"HOME": "/a"}, "/a/.cache/attnlib"), ({"ATTNLIB_CACHE": "/b"}, "/b")):
        said = subprocess.run(shell, env=theirs, capture_output=True, text=True).stdout
        assert said == f"{folder}/first/0a1b/best.safetensors\n"


def test_what_is_printed_in_parts_is_one_output_whatever_was_left_out_between() -> None:
    def printed(*parts: tuple[str, str]) -> nbformat.NotebookNode:
        outputs = [new_output("stream", name=name, text=text) for name, text in parts]
        return clean(new_notebook(cells=[new_code_cell("x", outputs=outputs)])).cells[0].outputs

    apart = printed(("stdout", "a\n"), ("stderr", "5 %"), ("stdout", "b\n"))
    assert apart == printed(("stderr", "5 %"), ("stdout", "a\nb\n"))


def test_times_stand_on_the_status_page_alone() -> None:
    def chapter(seconds: str) -> nbformat.NotebookNode:
        outputs = [new_output("stream", name="stdout", text=f"<{seconds} s>")]
        outputs.append(new_output("display_data", {"text/html": f"<b>{seconds}</b>", "text/plain": "b"}))
        cells = [new_code_cell("work()"), new_code_cell("t()", metadata={"tags": ["times"]}, outputs=outputs)]
        for number, cell in enumerate(cells):
            cell["id"] = str(number)
        return new_notebook(cells=cells)

    first, second = chapter("1.25"), chapter("2.5")
    assert set_apart(first) == "<pre>&lt;1.25 s&gt;</pre>\n<b>1.25</b>"
    set_apart(second)
    assert nbformat.writes(first) == nbformat.writes(second)
    assert [cell.cell_type for cell in first.cells] == ["code", "code", "markdown"]
    nbformat.validate(first)


def test_a_widget_that_a_page_cannot_show_is_left_out() -> None:
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "a bar"}
    bar, figure = (new_output("display_data", data) for data in (view, {"text/plain": "<Figure>"}))
    (cell,) = clean(new_notebook(cells=[new_code_cell("x", outputs=[bar, figure])])).cells
    assert [output.data for output in cell.outputs] == [{"text/plain": "<Figure>"}]


def test_a_downloaded_notebook_has_the_numbers_in_its_text(tmp_path: Path) -> None:
    def glued(name: str, value: str) -> nbformat.NotebookNode:
        told = {"scrapbook": {"mime_prefix": "application/papermill.record/", "name": name}}
        return new_output("display_data", {"application/papermill.record/text/plain": value}, metadata=told)

    kept = [
        glued("sort: accuracy", "0.98765"),
        glued("word", "'yes'"),
        glued("n: a", "'few'"),
        glued("m", "7"),
    ]
    text = "{glue:text}`sort: accuracy:.2f`, {glue:text}`word`, {glue:text}`n: a`, {glue:text}`m:d`"
    text += "; {glue:text}`x.ipynb::k:.1f`; [Table rows](#rows), [Figure of-another](#of-another), [x](#rows)"
    html = '<caption><b id="rows">Table rows.</b> Table rows.</caption>'
    drawn = new_output(
        "display_data", {"image/svg+xml": "<svg/>", DARK: "<svg/>", CSV: "a\n1\n", "text/html": html}
    )
    cells = [new_markdown_cell(text), new_code_cell("glue", outputs=[*kept, drawn])]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    path = tmp_path / "_sources/notebooks/x.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=cells), path)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/x.html").write_text(
        '<figure id="rows"><span class="caption-number">Table 3.2 </span>Rows.</figure>'
    )
    write_out(tmp_path)
    told, shown = nbformat.read(path, 4).cells
    assert told.source == (
        "0.99, yes, few, 7; {glue:text}`x.ipynb::k:.1f`; Table 3.2, Figure of-another, [x](#rows)"
    )
    data = shown.outputs[-1].data
    assert data.keys() == {"image/svg+xml", CSV, "text/html"}, "a notebook has no use for the dark one"
    assert data["text/html"] == '<caption><b id="rows">Table 3.2.</b> Table rows.</caption>'


def test_a_model_lies_beside_pages_that_compute_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notebooks").mkdir()
    page, kept = tmp_path / "notebooks/a.html", tmp_path / "kept.gguf"
    page.write_text("no model")
    put_model(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notebooks"]
    page.write_text(LanguageModelExplorer().to_html())
    monkeypatch.setattr("attnlib.models.pretrained.gguf_of_default", lambda: None)
    put_model(tmp_path)
    assert not (tmp_path / "models").exists() and "fetch=True" in capsys.readouterr().out
    kept.write_bytes(b"GGUF")
    monkeypatch.setattr("attnlib.models.pretrained.gguf_of_default", lambda: kept)
    put_model(tmp_path)
    assert (tmp_path / "models" / BOOK.file).read_bytes() == b"GGUF"
    assert "Apache License" in (tmp_path / "models/NOTICE.txt").read_text()
    assert "END OF TERMS AND CONDITIONS" in (tmp_path / "models/LICENSE.txt").read_text()


def test_a_model_that_was_fetched_since_is_laid_beside_pages_that_need_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    html, kept = tmp_path / "build/smoke/html", tmp_path / "kept.gguf"
    (html / "notebooks").mkdir(parents=True)
    (html / "index.html").write_text("the book")
    (html / "notebooks/a.html").write_text(BOOK.file)
    (html.parent / "reproduced.txt").write_text("all")
    kept.write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["book.pipeline", "smoke"])
    monkeypatch.setattr(building, "make", lambda *_: 0)
    monkeypatch.setattr("attnlib.models.pretrained.gguf_of_default", lambda: kept)
    assert building.main() == 0 and "Nothing to be done" in capsys.readouterr().out
    assert (html / "models" / BOOK.file).read_bytes() == b"GGUF"
    assert not (html / "models.unfinished").exists()


def test_pages_of_a_book_that_was_not_built_say_what_makes_it(project: Path, monkeypatch) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(BookError, match=r"first.ipynb is not there: `make book PROFILE=smoke` makes it"):
        assemble(Path("build/smoke"), Path("stage"))
    with pytest.raises(BookError, match=r"has no profile 'paper': add notebooks/profiles/first/paper\.yaml"):
        assemble(Path("build/paper"), Path("stage"))


def test_the_status_table_has_a_row_per_chapter(tmp_path: Path) -> None:
    run = {
        "notebook": "rasp_languages",
        "profile": "quick",
        "wall_time_s": 81.2,
        "memory_gb": 0.7,
        "device": "CPU",
        "system": "Linux",
    }
    run |= {"finished": "2026-01-01", "python": "3.12.1", "packages": {"torch": "2.13.0"}}
    page = tmp_path / "status.md"
    table = status_table([run], page)
    assert "- Python 3.12.1, torch 2.13.0" in table
    cells = BeautifulSoup((tmp_path / "_runs.html").read_text(), "html.parser").find_all("td")
    shown = ["rasp languages", "quick", "81.2", "0.7", "CPU", "Linux", "2026-01-01"]
    assert [cell.get_text() for cell in cells] == shown
    assert cells[0].a["href"] == "../notebooks/rasp_languages.html"
    assert table == status_table([run | {"wall_time_s": 5.0, "finished": "2027-01-01"}], page)
    assert status_table([], page) == "No chapter was executed for this book."


def test_the_records_table_says_what_became_of_each_and_what_is_stale(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ATTNLIB_RESULTS", str(tmp_path))
    path = record(pd.DataFrame(ROWS), notebook="rasp_languages", label="sort", params={}, device="CPU")
    assert path
    told = json.loads(path.with_suffix(".json").read_text()) | {"recorded": "2026-01-01T", "steps": 2500}
    told |= {"commit": "abc", "clean": False, "seconds": 81.4, "processor": "A, AVX2"}
    told["versions"] |= {"numpy": "1.0"}
    path.with_suffix(".json").write_text(json.dumps(sealed(told)))
    table = records_table(reproduced(tmp_path, tmp_path), read_all(tmp_path))
    assert table.startswith("1 of 1 recorded numbers reproduced.\n\n| record |")
    stale = "uncommitted changes, numpy 1.0"
    assert f"1 of 1 bit for bit | {stale} | abc<br>2026-01-01, A, AVX2 | 2,500 steps, 81 s |" in table
    assert records_table(reproduced(tmp_path / "none", tmp_path / "none"), {}) == "No numbers are recorded."
    new = records_table(reproduced(tmp_path, tmp_path / "none"), {})
    assert new.endswith(" | 1 new | no | this build |  |")


def test_every_document_of_a_table_of_contents_is_found() -> None:
    toc = {
        "root": "index",
        "parts": [{"chapters": [{"file": "a", "sections": [{"file": "b"}]}, {"url": "c"}]}],
    }
    assert list(documents(toc)) == ["index", "a", "b"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["smoke", "rasp_languages"], "after the profile come options, as Snakemake takes them; got 'rasp_"),
        (["smoke", "--cores", "0"], "--cores: must be a whole number, 1 or more; got 0"),
        (["smoke", "--cores", "two"], "--cores: must be a whole number, 1 or more; got two"),
    ],
)
def test_a_wrong_command_line_is_refused_in_words(
    monkeypatch, capsys, words: list[str], message: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["book.pipeline", *words])
    with pytest.raises(SystemExit):
        building.main()
    assert message in capsys.readouterr().err


def test_chapters_that_would_keep_others_waiting_are_executed_first() -> None:
    first = {name for name in chapters_of("quick") if priority(name, "quick")}
    assert {"rasp_languages", "quantifying_flow"} <= first
    assert first.isdisjoint({"methods", "attention_intervention"})
    assert priority("quantifying_flow", "smoke") == 0, "seconds"


def test_a_page_is_made_again_where_an_engine_is() -> None:
    reached = files_reached(("attnlib.widgets.live",))
    assert any(path.endswith(".wasm") for path in reached) and any(path.endswith(".js") for path in reached)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!DOCTYPE html>\n<p>: [", "should be YAML that maps names to values"),
        ("- seconds\n", "it holds list"),
        ("\"seconds = 0; open('ran', 'w'); seconds\": 0\n", "second has no parameter"),
        ("secnds: 0\n", "did you mean 'seconds'?"),
    ],
)
def test_a_profile_that_is_none_runs_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(project)
    for name in ("ATTNLIB_RESULTS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # both are set by the call, and given back after the test
    profile, out = Path("notebooks/profiles/second/smoke.yaml"), Path("out.ipynb")
    profile.write_text(text)
    places = ["--results", "results/second", "--run", "run.json", "--log", "log.txt"]
    words = ["notebooks/second.ipynb", str(out), "--parameters", str(profile), *places]
    monkeypatch.setattr(sys, "argv", ["execute", *words])
    assert execute.main() == 1
    said = Path("log.txt").read_text()
    assert str(profile) in said and message in said and said.count("\n") == 1
    assert not out.exists() and not Path("ran").exists()


# ---- sweeps

SWEEP = "chapter: first\nparameters: {seconds: 0}\nlists:\n  seconds: [0, 1]\n"


def sweep(project: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What `make sweep FILE=many.yaml` runs."""
    (project / "many.yaml").write_text(text)
    command = [sys.executable, "-m", "book.pipeline.sweep", "many.yaml", "--cores", "2"]
    return subprocess.run(command, **inside(project), capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_sweep_does_what_is_left_and_its_table_has_what_is_there(project: Path) -> None:
    fails = 'if seconds == 1 and not __import__("pathlib").Path("go").exists(): raise ValueError("not yet")'
    write_chapter(project, "first", fails, RECORD)
    failed = sweep(project, SWEEP)
    folder = project / "build/sweeps/many"
    assert (
        failed.returncode != 0 and "1 of 2 runs done; 1 rows in build/sweeps/many/table.csv" in failed.stdout
    )
    assert "not done: " in failed.stdout and "ValueError: not yet" in failed.stderr
    assert pd.read_csv(folder / "table.csv")["seconds"].tolist() == [0]

    (project / "go").touch()
    again = sweep(project, SWEEP)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "2 of 2 runs done; 2 rows" in again.stdout
    rows = pd.read_csv(folder / "table.csv")
    assert rows["seconds"].tolist() == [0, 1] and rows["value"].tolist() == [0.9, 0.9]
    more = sweep(project, SWEEP.replace("[0, 1]", "[0, 1, 2]"))
    assert more.stdout.count("first      ") and "3 of 3 runs done" in more.stdout
    assert more.stdout.count("  done\n") == 1, "runs that are done stay"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "many.yaml should be YAML that maps names to values"),
        ("chapter: thrid\nlists: {seconds: [0]}\n", "chapter must be one of first, second; got 'thrid'"),
        ("chapter: first\n", "must have either lists or runs"),
        ("chapter: first\nlists: {seconds: [0]}\nruns: [{of: x}]\n", "must have either lists or runs"),
        ("chapter: first\nlists: {seconds: []}\n", "lists.seconds: "),
        ("chapter: first\nlists: {seconds: [0, 0]}\n", "two runs must not have equal parameters"),
        ("chapter: first\nlist: {seconds: [0]}\n", "list: "),
        ("chapter: first\nlists: {seconds: [0], seconds: [1]}\n", "line 2: 'seconds' stands there twice"),
        ("chapter: first\nlists: {'a = 1; b': [0]}\n", "first has no parameter 'a = 1; b'"),
        ("chapter: first\nlists: {seconds: [0]}\nprofile: quick\n", "quick.yaml cannot be read"),
        ("chapter: first\nrecord: maybe\nruns: [{of: x}]\n", "record: "),
        ("chapter: first\nruns: [{parameters: {seconds: 1}}]\n", "runs.0.of: "),
        ("chapter: first\nruns: [{of: x, parameters: {secs: 1}}]\n", "did you mean 'seconds'?"),
    ],
)
def test_a_sweep_that_cannot_be_says_why(
    project: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(project)
    (project / "many.yaml").write_text(text)
    with pytest.raises(ProfileError, match=re.escape(message)):
        sweep_of(Path("many.yaml"))
    assert not (project / "build").exists()


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], tuple[int, bool]]:
    """Begins a sweep of the book's chapters; returns the exit status, and whether Snakemake was called."""
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    monkeypatch.chdir(tmp_path)
    called = tmp_path / "called"
    monkeypatch.setattr("book.pipeline.sweep.make", lambda *_: int(bool(called.touch())))

    def begun(text: str, options: str = "") -> tuple[int, bool]:
        called.unlink(missing_ok=True)
        Path("many.yaml").write_text(text)
        monkeypatch.setattr(sys, "argv", ["sweep", "many.yaml", *options.split()])
        return swept(), called.exists()

    return begun


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "chapter: rasp_languages\nlists: {language: [sort, srot], seeds: [[0], [1]]}\n",
            "the run with language: srot, seeds: [0]: this chapter cannot run with these parameters:",
        ),
        (
            "chapter: sequence_copying\nruns:\n- {of: no steps, parameters: {steps: 0}}\n- {of: as it is}\n",
            "the run with of: no steps: this chapter cannot run with these parameters:\n  - steps",
        ),
        (
            "chapter: sequence_copying\nrecord: true\nruns: [{of: no steps, parameters: {steps: 0}}]\n",
            "the run with of: no steps: ",
        ),
    ],
)
def test_of_a_sweep_with_a_refused_parameter_no_run_is_begun(begun, capsys, text: str, said: str) -> None:
    assert begun(text) == (1, False) and said in capsys.readouterr().err


@pytest.mark.parametrize("parameters", ["{device: cuda}", "{hidden: 512}"])
def test_what_this_machine_lacks_is_refused_unless_runs_may_be_elsewhere(
    begun, monkeypatch: pytest.MonkeyPatch, capsys, parameters: str
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("book.chapters.demands.memory_here", lambda *_: 10**6)
    text = f"chapter: sequence_copying\nruns: [{{of: large, parameters: {parameters}}}]\n"
    assert begun(text) == (1, False) and "the run with of: large: " in capsys.readouterr().err
    assert begun(text, "--profile book/pipeline/slurm") == (0, True)
    assert begun(text, "--executor=slurm --jobs 2") == (0, True)


def test_a_sweep_of_runs_one_by_one_says_what_each_is_of_and_how_long_it_takes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "many.yaml").write_text(
        "chapter: first\nparameters: {seconds: 1}\nruns:\n- {of: short, minutes: 2}\n"
        "- {of: long, minutes: 40, parameters: {seconds: 3}}\n"
    )
    asked = sweep_of(Path("many.yaml"))
    assert [(run.shown["of"], run.parameters["seconds"]) for run in asked.runs.values()] == [
        ("short", 1),
        ("long", 3),
    ]
    short, long = asked.runs
    assert said_before(asked, [short, long]) == "2 runs of first; 2 to be done, about 42 minutes of one core"
    assert "1 recorded already; 1 to be done, about 40 minutes" in said_before(asked, [long])


@pytest.mark.slow
def test_a_run_records_at_once_where_the_sweep_says_though_it_fails_later(project: Path, monkeypatch) -> None:
    write_chapter(project, "first", RECORD, "1 / 0")
    (project / "many.yaml").write_text("chapter: first\nrecord: true\nruns: [{of: x}]\n")
    monkeypatch.chdir(project)
    lay_out(Path("build/sweeps/many"), asked := sweep_of(Path("many.yaml")))
    notebook = f"build/sweeps/many/notebooks/{next(iter(asked.runs))}.ipynb"
    with pytest.raises(subprocess.CalledProcessError):
        snakemake(project, notebook, "--cores", "1", "--config", "results=results")
    assert {path.suffix for path in Path("results/first").iterdir()} == {".json", ".parquet"}


def test_what_is_recorded_is_not_run_again(tmp_path: Path) -> None:
    of_records = tmp_path / "recorded.yaml"
    of_records.write_text(
        "chapter: algorithmic_reasoning\nrecord: true\nruns:\n"
        """- {of: 'as it is, "für sich"', profile: pretrained}\n"""
        "- {of: with examples, profile: pretrained, parameters: {few_shot: true}}\n"
        "- {of: never run, profile: pretrained, parameters: {test_samples: 23}}\n"
    )
    asked = sweep_of(of_records)
    found = recorded(asked)
    assert [asked.runs[name].shown["of"] for name in found] == ['as it is, "für sich"', "with examples"]
    rows = table_of(asked, {name: [path] for name, path in found.items()})
    assert set(rows["of"]) == {'as it is, "für sich"', "with examples"} and len(rows) > 100


def test_runs_of_two_chapters_are_two_though_their_parameters_are_the_same() -> None:
    assert name_of("first", {"seconds": 0}) != name_of("second", {"seconds": 0})


@pytest.mark.parametrize("file", sorted(Path("sweeps").glob("*.yaml")), ids=lambda file: file.stem)
def test_the_sweeps_of_the_book_can_be_run(file: Path) -> None:
    asked = sweep_of(file)
    assert asked.record and all(run.minutes for run in asked.runs.values())
    refuse_impossible(asked.chapter, asked.runs.values(), here=False)


# ---- numbers inside prose


def test_numbers_and_figures_that_a_run_does_not_have_are_said_to_be_absent() -> None:
    def glued(name: str, text: str) -> nbformat.NotebookNode:
        told = {"scrapbook": {"name": name, "mime_prefix": "application/papermill.record/"}}
        data = {"application/papermill.record/text/plain": text}
        return new_output("display_data", data=data, metadata=told)

    roles = ("keyword: alpha:.2f", "xi:.1f", "name", "gain: sort", "of none:.3f", "of one seed:.1f")
    prose = ", ".join(f"{{glue:text}}`{role}`" for role in roles) + "; {numref}`drawn`, {ref}`here <none>`"
    outputs = [glued("keyword: alpha", "0.5"), glued("xi", "'never'"), glued("name", "'sort'")]
    outputs += [glued("gain: sort", "'few'"), glued("of one seed", "nan")]
    cells = [new_markdown_cell(prose), new_code_cell("glue()", outputs=outputs)]
    for name, outputs in (("drawn", [new_output("display_data", data={"image/png": ""})]), ("none", [])):
        cells.append(new_code_cell(outputs=outputs, metadata={"mystnb": {"figure": {"name": name}}}))
    notebook = new_notebook(cells=cells)
    assert fill_absent(notebook) == ["of none", "of one seed", "none"]
    kept = "{glue:text}`keyword: alpha:.2f`, never, {glue:text}`name`, few" + 2 * ", (not in this run)"
    kept += "; {numref}`drawn`, (not in this run)"
    assert notebook.cells[0].source == kept
