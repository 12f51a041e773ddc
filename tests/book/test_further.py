"""A chapter's further experiments have a page of their own; the notebook that readers download is whole."""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from book.pipeline.further import divide, redirected, with_pages_below

SUMMARY = "## Summary and limitations\n\nIt is so ([details](#details))."
FURTHER = """(further)=
## Further experiments

Skip them.

(other-seeds)=
### Other seeds

See [the summary](#summary-and-limitations).

#### Details

{glue:text}`seeds`"""


def glued(name: str) -> nbformat.NotebookNode:
    """What `tell` leaves."""
    about = {"scrapbook": {"name": name, "mime_prefix": "application/papermill.record/"}}
    return new_output("display_data", data={"application/papermill.record/text/plain": "3"}, metadata=about)


def shown(text: str) -> nbformat.NotebookNode:
    """What a cell shows."""
    return new_output("display_data", data={"text/plain": text})


def chapter(folder: Path) -> Path:
    """A chapter whose first cell tells a number of both pages; its last section is the chapter's again."""
    cells = [
        new_markdown_cell("# Heads (A study, 2020)", id="title"),
        new_code_cell("setup", id="setup", outputs=[glued("seeds"), shown("accuracy")]),
        new_markdown_cell(f"{SUMMARY}\n\n{FURTHER}", id="text"),
        new_code_cell("further", id="further", outputs=[glued("more"), shown("other accuracy")]),
        new_markdown_cell("### Longer inputs", id="longer"),
        new_markdown_cell("(again)=\n## Run it again\n\n### With papermill", id="again"),
        new_code_cell("last", id="last", outputs=[shown("end")]),
    ]
    path = folder / "heads.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def read(path: Path) -> tuple[str, list[list[str]], set[str]]:
    """A page's text, what each code cell shows on it, and what is told in it."""
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return (
        "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown"),
        [
            [each["data"]["text/plain"] for each in cell.outputs if "text/plain" in each["data"]]
            for cell in cells
            if cell.cell_type == "code" and "remove-cell" not in cell.metadata.get("tags", [])
        ],
        {each.metadata["scrapbook"]["name"] for each in outputs if "scrapbook" in each.metadata},
    )


def test_each_section_is_on_one_page_and_both_know_all_numbers(tmp_path: Path) -> None:
    """Text and outputs are divided; numbers that any cell tells are known to both pages."""
    path = chapter(tmp_path)
    whole = path.read_text()
    moved = divide(path, tmp_path / "whole")
    assert moved == ["other-seeds", "longer-inputs"]
    assert (tmp_path / "whole/heads.ipynb").read_text() == whole

    text, outputs, told = read(path)
    assert outputs == [["accuracy"], ["end"]] and told == {"seeds", "more"}
    assert text.startswith(f"# Heads (A study, 2020)\n\n{SUMMARY}\n\n(further)=\n## Further experiments\n")
    assert "[Other seeds](heads_further.ipynb#other-seeds)" in text and "Skip" not in text
    assert '<span id="longer-inputs"></span>' in text
    assert text.endswith("(again)=\n## Run it again\n\n### With papermill")

    text, outputs, told = read(tmp_path / "heads_further.ipynb")
    assert outputs == [["other accuracy"]] and told == {"seeds", "more"}
    assert text.startswith("# Further experiments: Heads\n") and "(further)=" not in text
    assert "(other-seeds)=\n## Other seeds\n" in text and "\n### Details\n" in text
    assert text.endswith("## Longer inputs") and "[Heads](heads.ipynb)" in text


def test_a_chapter_without_further_experiments_stays_one_page(tmp_path: Path) -> None:
    """Its file is not touched."""
    path = tmp_path / "heads.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell(SUMMARY)]), path)
    before = path.read_bytes()
    assert divide(path, tmp_path / "whole") == [] and path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["heads.ipynb"]


def test_links_and_contents_lead_to_the_second_page() -> None:
    """Links to other sections, chapters and explorers stay as they are."""
    moved = {"heads": ["other-seeds"]}
    links = "[a](/notebooks/heads.ipynb#other-seeds) [b](heads.ipynb#summary) [c](tails.ipynb#other-seeds)"
    assert redirected(links, moved) == links.replace("heads.ipynb#other", "heads_further.ipynb#other")
    toc = {
        "root": "index",
        "parts": [{"numbered": 1, "chapters": [{"file": "n/heads"}, {"file": "n/tails"}]}],
    }
    below = {"file": "n/heads", "sections": [{"file": "n/heads_further", "title": "Further experiments"}]}
    assert with_pages_below(toc, ["n/heads"]) == {
        "root": "index",
        "parts": [{"numbered": 1, "chapters": [below, {"file": "n/tails"}]}],
    }
