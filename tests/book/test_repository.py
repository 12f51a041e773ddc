"""One setting names the public repository: buttons and Colab's cell come with it, and go with it."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jupytext
import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from book._ext.launch import add_buttons
from book.pipeline import colab
from book.pipeline.colab import TAG, with_first_cell

ROOT = Path(__file__).parents[2]
ADDRESS = "https://github.com/somebody/some-book"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text())


def pages(folder: Path) -> dict[str, BeautifulSoup]:
    """A book of one page of prose and one chapter, by the settings of this book but for the address."""
    shutil.copytree(ROOT / "book/_ext", folder / "book/_ext")
    kept = {"launch", "author_year", "myst_nb", "jupyter_book", "sphinx_external_toc", "sphinx_book_theme",
            "sphinx_comments", "sphinx_togglebutton", "sphinxcontrib.bibtex"}  # fmt: skip
    theirs = CONFIG["sphinx"]["config"]
    config = {
        "title": "One chapter",
        "execute": {"execute_notebooks": "off"},
        "repository": CONFIG["repository"] | {"url": ADDRESS},
        "html": CONFIG["html"] | {"favicon": ""},
        "bibtex_bibfiles": ["references.bib"],
        "sphinx": {
            "local_extensions": CONFIG["sphinx"]["local_extensions"],
            "config": {key: theirs[key] for key in ("bibtex_reference_style", "bibtex_default_style")}
            | {"extensions": [name for name in theirs["extensions"] if name in kept]},
        },
    }
    (folder / "_config.yml").write_text(yaml.safe_dump(config))
    (folder / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n  - file: notebooks/first\n")
    (folder / "index.md").write_text(
        "# One chapter\n\n{cite:t}`abnar2020quantifying,spiegel2025attend,deiseroth2023atman`\n\n"
        "```{bibliography}\n```\n"
    )
    shutil.copy(ROOT / "book/references.bib", folder)
    (folder / "notebooks").mkdir()
    nbformat.write(chapter(), folder / "notebooks/first.ipynb")
    script = Path(sys.executable).with_name("jupyter-book")
    command = [script, "build", str(folder), "--path-output", str(folder / "out"), "-W"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    html = folder / "out/_build/html"
    return {
        name: BeautifulSoup((html / f"{name}.html").read_text(), "html.parser")
        for name in ("index", "notebooks/first")
    }


def chapter() -> nbformat.NotebookNode:
    """A notebook of a text and a cell."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [new_markdown_cell("# First"), new_code_cell("1 + 1")]
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def addresses(page: BeautifulSoup) -> list[str]:
    return [tag["href"] for tag in page.find_all("a", href=True) if tag["href"].startswith("http")]


@pytest.mark.slow
def test_with_an_address_a_chapter_opens_on_binder_and_colab(tmp_path: Path) -> None:
    found = pages(tmp_path)
    links = addresses(found["notebooks/first"])
    path = "somebody/some-book"
    assert f"https://mybinder.org/v2/gh/{path}/main?urlpath=lab/tree/notebooks/first.ipynb" in links
    assert f"https://colab.research.google.com/github/{path}/blob/main/notebooks/first.ipynb" in links
    assert ADDRESS in links
    listed = [label.get_text().strip("[]") for label in found["index"].select(".citation .label")]
    assert "Abnar and Zuidema 2020" in listed and "Spiegel et al. 2025" in listed
    assert listed == sorted(listed, key=str.casefold), "by author and year"


def test_without_one_there_is_no_button() -> None:
    config = SimpleNamespace(html_theme_options={"repository_url": ""})
    add_buttons(None, config)
    assert config.html_theme_options == {"repository_url": ""}


def test_no_address_is_named_yet_and_notebooks_have_no_cell_for_colab() -> None:
    """Once there is one: `make sync`, and this test asks for the cell in every notebook."""
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = [cell for cell in nbformat.read(path, 4).cells if TAG in cell.metadata.get("tags", [])]
        assert [CONFIG["repository"]["url"] in cell.source for cell in cells] == (
            [True] if CONFIG["repository"]["url"] else []
        ), "make sync"


def test_the_cell_comes_with_the_address_and_goes_with_it(tmp_path: Path, monkeypatch) -> None:
    text = tmp_path / "notebooks/text/first.md"
    text.parent.mkdir(parents=True)
    jupytext.write(chapter(), text, fmt="md:myst")
    before = text.read_text()
    monkeypatch.chdir(tmp_path)
    for url, cells in ((ADDRESS, 1), (ADDRESS, 1), ("", 0)):
        Path("_config.yml").write_text(yaml.safe_dump({"repository": {"url": url, "branch": "main"}}))
        colab.see_to_texts()
        found = [cell for cell in jupytext.read(text).cells if TAG in cell.metadata.get("tags", [])]
        assert len(found) == cells
    assert text.read_text() == before


def test_the_cell_does_nothing_elsewhere_and_fetches_the_book_on_colab(monkeypatch) -> None:
    source = with_first_cell(chapter(), ADDRESS, "main").cells[1].source
    said: list[str] = []
    shell = type("Shell", (), {"system": lambda self, line: said.append(line)})
    monkeypatch.setattr(sys, "path", [*sys.path])
    exec(source, {"get_ipython": shell})
    assert said == []
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    exec(source, {"get_ipython": shell})
    assert (
        f"--branch main {ADDRESS} where-attention-looks" in said[0]
        and "where-attention-looks[book,lm]" in said[1]
    )
    assert sys.path[0] == "where-attention-looks"
