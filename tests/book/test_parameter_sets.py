"""Every parameter set that a chapter accepts can be rendered: sets far from its own, in one strict build."""

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

from book.pipeline.absent import ABSENT, fill_absent
from book.pipeline.execute import clean
from book.pipeline.stage import render
from tests.conftest import ROOT
from tests.notebooks.one_kernel import chapter_with, one_kernel
from tests.parameters import profile, smallest

FAR: dict[str, list[dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("far.yaml").read_text())
BUILDS = range(max(map(len, FAR.values())))
ELSEWHERE = re.compile(r"\{(doc|func|class|data|mod)\}(?=`)")  # links to pages that these builds leave out


@pytest.mark.parametrize(("chapter", "far"), [(chapter, far) for chapter in FAR for far in FAR[chapter]])
def test_every_set_is_one_that_its_chapter_accepts(chapter, far) -> None:
    assert smallest(chapter, **far)


@pytest.mark.book
@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("ATTNLIB_DATA"), reason="needs the public data sets: set ATTNLIB_DATA")
@pytest.mark.parametrize("number", BUILDS)
def test_sets_far_from_a_chapters_own_render_without_a_warning(tmp_path, monkeypatch, number) -> None:
    monkeypatch.chdir(ROOT)
    sets = {chapter: several[number] for chapter, several in FAR.items() if number < len(several)}
    stage = staged(tmp_path / "stage", list(sets))
    absent = {}
    with one_kernel() as execute:
        for chapter, far in sets.items():
            notebook = chapter_with(chapter, profile(chapter, "smoke") | {"device": "cpu"} | far)
            execute(notebook, tmp_path)
            absent[chapter] = fill_absent(notebook)
            for cell in clean(notebook).cells:
                cell.source = ELSEWHERE.sub("", cell.source) if cell.cell_type == "markdown" else cell.source
            (stage / f"notebooks/{chapter}.ipynb").write_text(nbformat.writes(notebook))
    pages = render(stage, tmp_path / "out") / "notebooks"  # a warning is an error
    for chapter, names in absent.items():
        assert (ABSENT in (pages / f"{chapter}.html").read_text()) == bool(names)
    assert number or any(absent.values()), "some of these sets have to leave a number out"


def staged(stage: Path, chapters: list[str]) -> Path:
    """A book of some chapters, the glossary and the references, still without the chapters."""
    (stage / "notebooks").mkdir(parents=True)
    (stage / "book").mkdir()
    for name in ("_static", "_ext", "assets", "references.bib", "references.md"):
        (stage / "book" / name).symlink_to(ROOT / "book" / name)
    glossary = (ROOT / "book/glossary.md").read_text()
    (stage / "book/glossary.md").write_text(ELSEWHERE.sub("", glossary))
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    config["execute"] = {"execute_notebooks": "off"}
    (stage / "_config.yml").write_text(yaml.safe_dump(config))
    pages = [*(f"notebooks/{chapter}" for chapter in chapters), "book/glossary", "book/references"]
    files = [{"file": name} for name in pages]
    (stage / "_toc.yml").write_text(yaml.safe_dump({"format": "jb-book", "root": "index", "chapters": files}))
    (stage / "index.md").write_text("# Far from home\n")
    return stage
