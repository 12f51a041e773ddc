"""Move a chapter's further experiments to a page of their own below the chapter's.

A chapter is one notebook, which readers download and run as a whole. When its page is rendered, the section
"Further experiments" becomes a second page. In its place the chapter has a list of links to its sections.
"""

import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from docutils.nodes import make_id
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from book.chapters.findings.finding import slug

HEADING = re.compile(r"(?:\([\w-]+\)=\n)?## Further experiments\n*")
"""The section's heading, with a label if there is one."""

SECTION = re.compile(r"^(?=\([\w-]+\)=\n## |(?<!\)=\n)## )", re.MULTILINE)
"""Where a section begins: at its heading, or at the label before it."""

BELOW = re.compile(r"^##(?P<depth>#+) (?P<words>.+)$", re.MULTILINE)
TITLE = re.compile(r"^# (?P<words>.+?)(?: \(.+\))?$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?P<folder>/?(?:notebooks/)?)(?P<page>\w+)\.ipynb#(?P<anchor>[\w-]+)(?=\))")

INTRODUCTION = """# Further experiments: {title}

These experiments belong to the chapter [{title}]({chapter}.ipynb). One notebook computes both pages. Its
setup and its parameters are on the chapter's page.

```{{div}} underlined
```

{text}"""
LIST = """{heading}

These experiments are on [a page of their own]({name}.ipynb):

{entries}"""
ENTRY = '* <span id="{id}"></span>[{words}]({name}.ipynb#{anchor})'
"""A link to a section of the second page. Its id is the section's older anchor on the chapter's page."""


def divided(cells: Iterable[NotebookNode]) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """The cells of a chapter's two pages. The second has no text if there are no further experiments.

    Both pages contain all code cells in order, since any cell may glue numbers of the text. On each page,
    cells that belong to the other page are hidden.
    """
    pages: tuple[list[NotebookNode], list[NotebookNode]] = ([], [])
    inside = False
    for cell in cells:
        if cell.cell_type == "code":
            pages[inside].append(cell)
            pages[not inside].append(silent(cell))
            continue
        for number, text in enumerate(filter(str.strip, SECTION.split(cell.source))):
            if SECTION.match(text):
                heading = HEADING.match(text)
                inside = heading is not None
                if heading:
                    pages[0].append(new_markdown_cell(heading[0].strip(), id=f"{cell.id}-list"))
            pages[inside].append(new_markdown_cell(text.strip(), id=f"{cell.id}-{number}"))
    return pages


def silent(cell: NotebookNode) -> NotebookNode:
    """A copy of a code cell that is hidden, with no outputs but the numbers that it glued."""
    told = [output for output in cell.outputs if "scrapbook" in output.get("metadata", {})]
    tags = dict.fromkeys([*cell.metadata.get("tags", []), "remove-cell"])
    return nbformat.from_dict({**cell, "outputs": told, "metadata": {**cell.metadata, "tags": [*tags]}})


def further_page(chapter: str) -> str:
    """The name of a chapter's second page."""
    return f"{chapter}_further"


def divide(path: Path, whole: Path) -> list[str]:
    """Divides an executed chapter of the stage into two pages, if it has further experiments.

    Args:
        path: the chapter.
        whole: a folder into which the undivided chapter is copied.

    Returns:
        the anchors of the second page's sections; empty if there is no second page.
    """
    chapter = nbformat.read(path, as_version=4)
    first, second = divided(chapter.cells)
    if not (texts := [cell for cell in second if cell.cell_type == "markdown"]):
        return []
    name, title = further_page(path.stem), title_of(first)
    sections = {
        slug(found["words"]): found["words"]
        for cell in texts
        for found in BELOW.finditer(cell.source)
        if found["depth"] == "#"
    }
    entries = [
        ENTRY.format(id=make_id(words), anchor=anchor, words=words, name=name)
        for anchor, words in sections.items()
    ]
    for cell in first:
        if cell.cell_type == "markdown" and HEADING.fullmatch(cell.source):
            cell.source = LIST.format(heading=cell.source, name=name, entries="\n".join(entries))
    opening = HEADING.sub("", texts[0].source, count=1)
    texts[0].source = INTRODUCTION.format(title=title, chapter=path.stem, text=opening)
    for cell in texts:
        cell.source = BELOW.sub(r"#\g<depth> \g<words>", cell.source)
    whole.mkdir(exist_ok=True)
    shutil.copy(path, whole)
    for cells, target in ((first, path), (second, path.with_stem(name))):
        chapter.cells = cells
        nbformat.write(chapter, target)
    return [*sections]


def title_of(cells: Iterable[NotebookNode]) -> str:
    """A chapter's title without the name of the study in brackets."""
    return next(found["words"] for cell in cells if (found := TITLE.search(cell.source)))


def with_pages_below(toc: Any, chapters: Collection[str]) -> Any:
    """A table of contents in which some chapters have their second pages as sections."""
    if isinstance(toc, list):
        return [with_pages_below(each, chapters) for each in toc]
    if not isinstance(toc, dict):
        return toc
    below = {key: with_pages_below(value, chapters) for key, value in toc.items()}
    if toc.get("file") in chapters:
        below["sections"] = [{"file": further_page(toc["file"]), "title": "Further experiments"}]
    return below


def redirected(text: str, moved: Mapping[str, Collection[str]]) -> str:
    """The text of a page with links to `moved` sections, given by chapter, redirected to the second pages."""

    def link(found: re.Match[str]) -> str:
        page, anchor = found["page"], found["anchor"]
        page = further_page(page) if anchor in moved.get(page, ()) else page
        return f"{found['folder']}{page}.ipynb#{anchor}"

    return LINK.sub(link, text)
