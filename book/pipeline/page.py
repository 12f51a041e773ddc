"""Render a chapter that papermill has run as a page like the book's: `make page FILE=out.ipynb`.

`python -m book.pipeline.page OUT.ipynb [-o FOLDER]`

The author of a chapter can name the chapter itself, `make page FILE=notebooks/X.ipynb`. The page then has the
current text and the outputs of the built book, so nothing is executed.

Numbers appear in the sentences. If a built book has the same chapter, numbers that differ from the book's are
marked, and the book's numbers are struck out beside them. The page opens from disk, without a network.
"""

import argparse
import html
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import yaml

from book.pipeline.absent import ABSENT, NAN, NOT_YET, fill_absent
from book.pipeline.contents import documents
from book.pipeline.execute import clean, parameters_of
from book.pipeline.profiles import ProfileError
from book.pipeline.roles import NUMBER, glued, name_and_format, written
from book.pipeline.stage import NOT_PAGES, NOT_PROSE, BookError, render, write_out

TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\((/[^)\s]+)\)|\{doc\}`([^`<]*?)\s*(?:<)?(/[\w/]+)>?`")
"""A link to another page, in the syntax of MyST or of Sphinx: its words and its address."""

WITH = ("book/glossary", "book/references")
"""The pages that a chapter's words and citations lead to."""

CHANGED = '<mark class="changed">{role}<span class="sr-only"> in place of </span> <del>{old}</del></mark>'
COMPARED = """```{{div}} origins
<mark class="changed">Marked</mark> numbers ({changed} of the {both} in text and tables) differ from those of
the book's own run, `{beside}`, which stand <del>struck out</del> beside them.
```"""
TABLE = re.compile(r'<b id="(?P<name>[^"]+)">.*?</table>', re.DOTALL)
"""A table with a caption, as `attnlib.plots.table` writes it."""

ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
HEADING = re.compile(r'<th class="col_heading level0 (col\d+)"[^>]*>([^<]*)</th>')
CELL = re.compile(r'(?P<start><td class="data row\d+ (?P<column>col\d+)"[^>]*>)(?P<text>[^<]*)</td>')
NUMERAL = re.compile(r"[+\-\u2212]?\d")
ALONE = """```{{div}} origins
No number is marked: there is no built book to compare this run with. `make book` makes one.
```"""


class NoChapterError(Exception):
    """No page can be made of a notebook; the message says why."""


class Beside(NamedTuple):
    """A run of the same chapter in a built book, with which the page is compared.

    Attributes:
        path: the executed notebook.
        numbers: the numbers that its cells glued, by name.
        tables: the numbers of each table, by the table's name; the keys are a row's words and the column.
    """

    path: Path
    numbers: Mapping[str, str]
    tables: Mapping[str, Mapping[tuple[str, ...], str]]


def make_page(executed: Path, folder: Path) -> Path:
    """Renders a chapter that was run, and replaces `folder` by the finished pages; returns the page."""
    notebook = read(executed)
    chapter = chapter_of(notebook)
    if folder.exists() and not (folder.is_dir() and (folder / f"notebooks/{chapter}.html").exists()):
        raise NoChapterError(
            f"{folder} exists and does not hold a page of this chapter: name another folder with -o"
        )
    with tempfile.TemporaryDirectory() as scratch:
        stage = Path(scratch, "stage")
        lay_out(notebook, chapter, stage, nearest(notebook, chapter, executed))
        pages = render(stage, Path(scratch, "pages"), strict=False)
        write_out(pages)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pages, folder, ignore=shutil.ignore_patterns(*NOT_PAGES))
    return folder / f"notebooks/{chapter}.html"


def read(executed: Path) -> nbformat.NotebookNode:
    """A notebook with outputs."""
    try:
        notebook = nbformat.read(executed, as_version=4)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError) as error:
        raise NoChapterError(f"{executed} cannot be read as a notebook: {error}") from error
    if not any(cell.get("outputs") for cell in notebook.cells):
        return with_outputs(notebook, executed)
    return notebook


def with_outputs(notebook: nbformat.NotebookNode, chapter: Path) -> nbformat.NotebookNode:
    """A chapter with code cells run by a built book; `NoChapterError` if there is none or code differs."""
    built = max(Path("build").glob(f"*/notebooks/{chapter.name}"), key=os.path.getmtime, default=None)
    if built is None:
        raise NoChapterError(f"{chapter} holds no outputs: run it first, by papermill or by `make book`")
    there = nbformat.read(built, as_version=4).cells
    run = {cell["id"]: cell for cell in there if cell.cell_type == "code"}
    cells = list[nbformat.NotebookNode]()
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "code":
            if cell["id"] not in run or run[cell["id"]].source != cell.source:
                raise NoChapterError(
                    f"the code of its cell {number} is not that of {built}: run it, "
                    f"`papermill {chapter} out.ipynb`, then `make page FILE=out.ipynb`"
                )
            cells.append(run[cell["id"]])
            if "parameters" in cell.metadata.get("tags", []) and "injected-parameters" in run:
                cells.append(run["injected-parameters"])
        else:
            cells.append(cell)
    notebook.cells = cells
    return notebook


def chapter_of(notebook: nbformat.NotebookNode) -> str:
    """The name of the chapter whose title a notebook has; raises `NoChapterError` if there is none."""
    of_chapters = {
        title(nbformat.read(path, as_version=4)): path.stem for path in Path("notebooks").glob("*.ipynb")
    }
    try:
        return of_chapters[title(notebook)]
    except KeyError:
        raise NoChapterError("it is no chapter of this book: none has its title") from None


def title(notebook: nbformat.NotebookNode) -> str:
    """The first heading of the first level."""
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return next((found[1] for text in texts if (found := TITLE.search(text))), "")


def lay_out(notebook: nbformat.NotebookNode, chapter: str, stage: Path, beside: Beside | None = None) -> None:
    """Writes a source tree with one chapter, the glossary and the references into `stage`."""
    shutil.copytree("book", stage / "book", ignore=NOT_PROSE)
    toc = yaml.safe_load(Path("_toc.yml").read_text(encoding="utf-8"))
    document = f"notebooks/{chapter}"
    own = {"format": "jb-book", "root": document, "chapters": [{"file": name} for name in WITH]}
    (stage / "_toc.yml").write_text(yaml.safe_dump(own), encoding="utf-8")
    (stage / "_config.yml").write_text(yaml.safe_dump(config(number_of(chapter, toc))), encoding="utf-8")
    said = mark_changed(notebook, beside)
    fill_absent(notebook, ABSENT if is_finished(notebook) else NOT_YET)
    notebook = clean(notebook, Path(f"notebooks/{chapter}.ipynb"))
    there = {document, *WITH}
    texts = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    for cell in texts:
        cell.source = LINK.sub(lambda link: without_target(link, there), cell.source)
    headed = next(cell for cell in texts if TITLE.search(cell.source))
    headed.source = TITLE.sub(lambda heading: f"{heading[0]}\n\n{said}", headed.source, count=1)
    (stage / "notebooks").mkdir()
    nbformat.write(notebook, stage / f"{document}.ipynb")


def config(number: int | None) -> dict[str, Any]:
    """The book's configuration, with figures numbered as on the chapter's page in the book."""
    own: dict[str, Any] = yaml.safe_load(Path("_config.yml").read_text(encoding="utf-8"))
    own["execute"] = {"execute_notebooks": "off"}
    sphinx = own["sphinx"]["config"]
    sphinx["computed_by"] = "your run"
    if number:
        sphinx["numfig_secnum_depth"] = 0
        sphinx["numfig_format"] = {kind.lower(): f"{kind} {number}.%s" for kind in ("Figure", "Table")}
    return own


def number_of(chapter: str, toc: Mapping[str, Any]) -> int | None:
    """The number of a chapter in the book, counted over all numbered parts; `None` if it has none."""
    counted = [name for part in toc["parts"] if "numbered" in part for name in documents(part)]
    document = f"notebooks/{chapter}"
    return counted.index(document) + 1 if document in counted else None


def without_target(link: re.Match[str], there: set[str]) -> str:
    """A link as it is if its page is in `there`, otherwise only the words of the link."""
    text, address, words, document = link.groups()
    named = re.sub(r"\.(ipynb|md)(#.*)?$", "", (address or document).lstrip("/"))
    return link[0] if named in there else text or words or f"*{named.rpartition('/')[2]}*"


def nearest(notebook: nbformat.NotebookNode, chapter: str, executed: Path) -> Beside | None:
    """The run in a built book with parameters most like a notebook's; `None` if no book is built."""
    own = parameters_of(notebook)

    def unlike(path: Path) -> int:
        theirs = parameters_of(nbformat.read(path, as_version=4))
        return sum(own.get(name) != theirs.get(name) for name in own | theirs)

    there = sorted(Path("build").glob(f"*/notebooks/{chapter}.ipynb"))
    built = [path for path in there if path.resolve() != executed.resolve()]
    if not built:
        return None
    path = min(built, key=unlike)
    there = nbformat.read(path, as_version=4)
    tables = {
        found["name"]: numbers_of(found[0])
        for output in _outputs(there)
        for found in TABLE.finditer(output["data"]["text/html"])
    }
    return Beside(path, glued(there), tables)


def numbers_of(table: str) -> dict[tuple[str, ...], str]:
    """The numbers of a table by row words and column; rows with the same words as another are left out."""
    return {key: cell["text"] for key, cell in _cells(table).items()}


def _cells(table: str) -> dict[tuple[str, ...], re.Match[str]]:
    rows, headings = [(words_of(row), row) for row in ROW.findall(table)], dict(HEADING.findall(table))
    often = Counter(words for words, _ in rows)
    return {
        (*words, headings.get(cell["column"], "")): cell
        for words, row in rows
        if often[words] == 1
        for cell in CELL.finditer(row)
        if NUMERAL.match(cell["text"])
    }


def words_of(row: str) -> tuple[str, ...]:
    """The words of a row of a table, which identify the row: its cells that are not numbers."""
    return tuple(cell["text"] for cell in CELL.finditer(row) if not NUMERAL.match(cell["text"]))


def mark_changed(notebook: nbformat.NotebookNode, beside: Beside | None) -> str:
    """Marks numbers that differ from those of another run; returns the note that explains the marks."""
    if beside is None:
        return ALONE.format()
    own, old, both, changed = glued(notebook), beside.numbers, 0, 0

    def number(role: re.Match[str]) -> str:
        nonlocal both, changed
        name, form = name_and_format(role[1], own)
        if NAN in (old.get(name, NAN), own.get(name, NAN)):
            return role[0]
        both += 1
        now, before = (written(each[name], form) for each in (own, old))
        if now == before:
            return role[0]
        changed += 1
        return CHANGED.format(role=role[0], old=html.escape(before))

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = NUMBER.sub(number, cell.source)
    in_tables = mark_tables(notebook, beside.tables)
    return COMPARED.format(changed=changed + in_tables[0], both=both + in_tables[1], beside=beside.path)


def mark_tables(
    notebook: nbformat.NotebookNode, old: Mapping[str, Mapping[tuple[str, ...], str]]
) -> tuple[int, int]:
    """Marks numbers in tables likewise; returns how many were marked, and how many were compared."""
    both = changed = 0

    def marked(table: re.Match[str]) -> str:
        nonlocal both, changed
        text, before = table[0], old.get(table["name"], {})
        for key, cell in _cells(text).items():
            both += key in before
            if before.get(key, cell["text"]) != cell["text"]:
                changed += 1
                new = CHANGED.format(role=cell["text"], old=before[key])
                text = text.replace(cell[0], f"{cell['start']}{new}</td>")  # its tag is unique
        return text

    for output in _outputs(notebook):
        output["data"]["text/html"] = TABLE.sub(marked, output["data"]["text/html"])
    return changed, both


def _outputs(notebook: nbformat.NotebookNode) -> list[Any]:
    every = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output for output in every if "<table" in output.get("data", {}).get("text/html", "")]


def is_finished(notebook: nbformat.NotebookNode) -> bool:
    """Whether every code cell was run."""
    return all(
        cell.execution_count is not None
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.source.strip()
    )


def main() -> None:
    """Make the page, and say where it is."""
    parser = argparse.ArgumentParser(prog="python -m book.pipeline.page", description=__doc__)
    parser.add_argument("notebook", type=Path, help="a chapter that was run, or one whose text was edited")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FOLDER",
        help="folder for the page (default: NAME_page beside the notebook, or in build/pages)",
    )
    chosen = parser.parse_args()
    beside = Path("build/pages") if chosen.notebook.parent.name == "notebooks" else chosen.notebook.parent
    folder = chosen.output or beside / f"{chosen.notebook.stem}_page"
    if not Path("_config.yml").exists():
        sys.exit("A page is made in the book's own folder: there is no _config.yml here.")
    try:
        page = make_page(chosen.notebook, folder)
    except (NoChapterError, BookError, ProfileError, OSError) as error:
        sys.exit(f"No page was made of {chosen.notebook}: {error}")
    print(f"The page: {page.resolve().as_uri()}")


if __name__ == "__main__":
    main()
