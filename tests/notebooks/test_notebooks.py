"""Every chapter: runs, agrees with its text, holds no outputs, and says what its parameters are."""

import ast
import re
from pathlib import Path

import jupytext
import nbformat
import papermill.cli
import pytest

from book.chapters import demands
from book.chapters.storing import all_chapters
from tests.parameters import defaults_of, profile

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
PROFILES = ("smoke", "quick", "paper")
GUIDES = {"own_model": "it shows how the package is used on a model of the reader's, and claims nothing"}
"""What is executed like a chapter, but reproduces nothing: it records no numbers and trains no model."""

each_chapter = pytest.mark.parametrize("name", CHAPTERS)
each_study = pytest.mark.parametrize("name", [name for name in CHAPTERS if name not in GUIDES])


def notebook(name: str) -> Path:
    return ROOT / f"notebooks/{name}.ipynb"


def profiles(name: str) -> list[str]:
    """A chapter may have more than the three."""
    return [path.stem for path in (ROOT / f"notebooks/profiles/{name}").glob("*.yaml")]


def parameters(name: str) -> dict:
    """Papermill's account of the parameters cell: what `--help-notebook` prints."""
    return papermill.inspect_notebook(notebook(name))


def test_there_is_a_chapter() -> None:
    assert CHAPTERS


@each_chapter
def test_it_agrees_with_its_text(name: str) -> None:
    text = ROOT / f"notebooks/text/{name}.md"
    assert text.exists(), "make sync"
    ours, theirs = nbformat.read(notebook(name), 4), jupytext.read(text)

    def content(cells: list) -> list:
        return [(cell.cell_type, cell.source.rstrip(), cell.metadata.get("tags", [])) for cell in cells]

    assert content(ours.cells) == content(theirs.cells), "make sync"


def test_every_text_has_its_notebook() -> None:
    assert sorted(path.stem for path in (ROOT / "notebooks/text").glob("*.md")) == CHAPTERS, "make sync"


@each_chapter
def test_it_holds_no_outputs(name: str) -> None:
    read = nbformat.read(notebook(name), 4)
    for cell in read.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None, (
                f"clear the outputs: {cell.source[:60]}"
            )
    assert "widgets" not in read.metadata


@each_chapter
def test_its_parameters_have_type_default_and_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = parameters(name)
    assert found
    for parameter in found.values():
        assert parameter["inferred_type_name"] not in {"None", ""}, f"no type: {parameter['name']}"
        assert parameter["default"], f"no default: {parameter['name']}"
        assert len(parameter["help"]) > 5, f"no help: {parameter['name']}"
    with pytest.raises(SystemExit, match=r"^0$"):
        papermill.cli.papermill.main(["--help-notebook", str(notebook(name))], "papermill")
    shown = capsys.readouterr().out
    for parameter in found.values():
        assert f"{parameter['name']}: {parameter['inferred_type_name']} (default" in shown
        assert parameter["help"][:20] in shown


@each_study
def test_its_class_is_in_the_file_of_its_name_and_takes_every_profile(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demands, "memory_here", lambda _: 64 * 10**9)
    chapter = all_chapters()[name]
    defaults = defaults_of(name)
    assert set(chapter.model_fields) == set(defaults)
    for which in profiles(name):
        p = chapter.checked(defaults | profile(name, which))
        assert p.notebook == name and p.label
        assert len({run.name for run in p.runs()}) == len(p.runs())


@each_chapter
def test_profiles_name_only_parameters(name: str) -> None:
    assert set(PROFILES) <= set(profiles(name))
    for which in profiles(name):
        assert set(profile(name, which)) <= set(parameters(name)), which


@each_chapter
def test_cells_are_short_and_define_nothing_long(name: str) -> None:
    """Notebooks import, never define."""
    for cell in nbformat.read(notebook(name), 4).cells:
        if cell.cell_type != "code" or cell.source.lstrip().startswith(("%", "!")):
            continue
        if "parameters" not in cell.metadata.get("tags", []):
            assert len(cell.source.splitlines()) <= 25, f"a cell of {name} is too long: {cell.source[:60]}"
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= 10, f"{node.name} belongs in attnlib"


@each_chapter
def test_it_opens_with_what_came_out(name: str) -> None:
    """Behind the title: findings in numbers, and where to see them. The chapter glues what they name."""
    read = nbformat.read(notebook(name), 4)
    title, box, _ = read.cells[0].source.split("```", 2)
    assert re.fullmatch(r"# .+\n\n", title), "the box stands right behind the title"
    assert box.startswith("{admonition} In one minute\n:class: one-minute\n")
    findings = [line for line in box.splitlines() if line.startswith("* ")]
    assert 2 <= len(findings) <= 3
    assert len(re.findall(r"\{glue:text\}`", box)) >= 2
    assert re.search(r"\]\(#|\{ref\}`", box), "a figure or an explorer that shows it"
    code = "\n".join(cell.source for cell in read.cells if cell.cell_type == "code")
    assert re.search(r"\b(?:glue|tell\w*)\(", code)


NAMED = re.compile(r'\.captioned\(\s*f?"([^"]+)",\s*r?f?"([^"]+)"')
REFERENCE = re.compile(r"\[(Figure|Table) ([a-z0-9-]+)\]\(#([a-z0-9-]+)\)")
LOOSE = re.compile(r"\b(?:table|figure)s? (?:above|below)|\bthis (?:table|figure)|\{numref\}", re.IGNORECASE)


@each_chapter
def test_what_it_shows_is_captioned_and_referred_to_by_its_name(name: str) -> None:
    cells = nbformat.read(notebook(name), 4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    named = [found[1] for found in NAMED.finditer(code)]
    assert len(set(named)) == len(named)
    assert code.count(".captioned(") == len(named), "a name and a caption, as texts"
    assert not LOOSE.findall(prose), "say which one: [Table name](#name)"
    everywhere = {found[1] for each in CHAPTERS for cell in nbformat.read(notebook(each), 4).cells
                  for found in NAMED.finditer(cell.source)}  # fmt: skip
    for kind, word, target in REFERENCE.findall(prose):
        assert word == target and target in everywhere, f"[{kind} {word}](#{target})"


@each_chapter
def test_its_folds_say_what_is_in_them(name: str) -> None:
    """And no explorer is folded away."""
    for cell in nbformat.read(notebook(name), 4).cells:
        if "hide-cell" in cell.metadata.get("tags", []):
            assert "Explorer" not in cell.source
            assert cell.metadata.get("mystnb", {}).get("code_prompt_show", "").startswith("Show "), (
                cell.source[:60]
            )


@each_chapter
def test_it_is_in_the_book(name: str) -> None:
    assert f"notebooks/{name}\n" in (ROOT / "_toc.yml").read_text()
