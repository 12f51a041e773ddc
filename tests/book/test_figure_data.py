"""What a page has under its figures and tables, and which figure it shows in the dark."""

from io import BytesIO, StringIO
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from sphinx.application import Sphinx

from attnlib import plots

ROWS = pd.DataFrame({"of": ["a", "b"], "by": "x", "value": [1 / 3, 0.5], "low": 0.1, "high": 0.9})
MAP = torch.tensor([[0.1, 0.9, 0.0], [0.2, 0.3, 0.5]])
ALTS = {
    "points": "Points with intervals, share. x: highest b 0.5, lowest a 0.33.",
    "heat-map": "A heat map, generated down the side and prompt below: "
    "cells strongest in row 1 (p) and column 2 (b), 0.9.",
}
PYTHON = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
EXTENSIONS = Path(__file__).parents[2] / "book/_ext"


def shown(source, *things, **metadata):
    outputs = [new_output("display_data", thing._repr_mimebundle_()) for thing in things]
    return new_code_cell(source, outputs=outputs, metadata=metadata)


def told(**numbers):
    kind = "application/papermill.record/"
    outputs = [
        new_output(
            "display_data",
            {f"{kind}text/plain": repr(number)},
            metadata={"scrapbook": {"name": name, "mime_prefix": kind}},
        )
        for name, number in numbers.items()
    ]
    return new_code_cell("tell()", outputs=outputs, metadata={"tags": ["remove-cell"]})


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """A book of one chapter and a page with a picture, rendered; nothing may be warned about."""
    tree = tmp_path_factory.mktemp("book")
    (tree / "conf.py").write_text(
        f"import sys; sys.path.insert(0, {str(EXTENSIONS)!r})\n"
        "extensions = ['myst_nb', 'figure_data']; nb_execution_mode = 'off'; numfig = True\n"
        "numfig_format = {'figure': 'Figure %s', 'table': 'Table %s'}\n"
        "myst_enable_extensions = ['dollarmath']\n"
        "nb_mime_priority_overrides = [('html', 'text/html', 5)]\n"
    )
    (tree / "index.md").write_text(
        "# Book\n\n```{figure} some.svg\nSome.\n```\n\n{numref}`rows` is elsewhere.\n\n"
        "```{toctree}\n:numbered: 1\nnotebooks/x\n```\n"
    )
    drawn = plots.estimates(ROWS, "of", "by", "share")
    looked = plots.token_map(MAP, ["p", "q"], ["a", "b", "c"])
    (tree / "some.svg").write_text(drawn.svg())
    (tree / "some.dark.svg").write_text(drawn.svg("dark"))
    ROWS.to_csv(tree / "some.csv", index=False)
    cells = [
        new_markdown_cell("# Chapter"),
        new_code_cell("n = 1", metadata={"tags": ["parameters"]}),
        new_code_cell("n = 2", metadata={"tags": ["injected-parameters"]}),
        shown("draw()", drawn.captioned("points", "Points of *two*, $n = 2$."), tags=["hide-input"]),
        shown("look()", looked.captioned("heat-map", "The map.")),
        shown("two()", plots.table(ROWS).captioned("rows", "All `rows`."), plots.table(ROWS[["value"]])),
        shown("three()", plots.table(ROWS), tags=["remove-input"]),
        new_markdown_cell(
            "[Table rows](#rows) has what [Figure points](#points) shows; [here](#points), too."
        ),
        shown('drawn.captioned("none", "None.") if False else None'),
        new_markdown_cell("Nothing in [Figure none](#none)."),
        told(lacking=float("nan"), never=float("inf"), there=0.25),
        new_markdown_cell("Told: {glue:text}`lacking:.1f`, {glue:text}`never`, {glue:text}`there:.1f`."),
    ]
    (tree / "notebooks").mkdir()
    (tree / "notebooks/x.ipynb").write_text(nbformat.writes(new_notebook(cells=cells, metadata=PYTHON)))
    said = StringIO()
    Sphinx(tree, tree, tree / "html", tree / "trees", "html", status=None, warning=said).build()
    assert said.getvalue() == ""
    return tree / "html"


@pytest.fixture
def chapter(pages):
    return BeautifulSoup((pages / "notebooks/x.html").read_text(), "html.parser")


def linked(page, pages, word):
    """The file that a line's link leads to."""
    found = [a["href"] for a in page.select("p.sources a") if a.get_text().startswith(word)]
    return [(pages / "notebooks" / address).resolve() for address in found]


def test_the_numbers_beside_the_page_are_those_that_were_drawn(chapter, pages):
    points, heat_map, first, second, third = linked(chapter, pages, "data")
    assert points == pages / "_data/x/points.csv" and third == pages / "_data/x/table-2.csv"
    for path, rows in ((points, ROWS), (first, ROWS), (second, ROWS[["value"]]), (third, ROWS)):
        pd.testing.assert_frame_equal(pd.read_csv(path), rows)
    with np.load(BytesIO(heat_map.read_bytes())) as kept:
        np.testing.assert_array_equal(kept["values"], MAP.numpy())
        assert kept["rows"].tolist() == ["p", "q"] and kept["columns"].tolist() == ["a", "b", "c"]


def test_a_line_leads_to_the_parameters_of_the_run_and_to_the_very_code(chapter):
    lines = chapter.select("p.sources")
    assert [len(line.select("a")) for line in lines] == [3, 3, 3, 3, 2], "code that is left out has no link"
    for line, code in zip(lines, ["draw()", "look()", "two()", "two()"], strict=False):
        _, parameters, lines_of_code = (link["href"].lstrip("#") for link in line.select("a"))
        assert chapter.find(id=parameters).get_text().strip() == "n = 2"
        assert chapter.find(id=lines_of_code).get_text().strip() == code


def test_the_line_stands_below_what_it_is_of(chapter):
    assert [line.find_previous_sibling().name for line in chapter.select("p.sources")][:3] == ["figure"] * 3
    assert all(line.find_previous("table") for line in chapter.select("p.sources")[2:])


def test_figures_and_tables_are_counted_by_chapter_and_captioned(chapter):
    figures = chapter.select("figure[id]")
    said = {each["id"]: each.select_one("figcaption").get_text().strip("¶\n") for each in figures}
    assert said == {
        "points": "Figure 1.1 Points of two, \\(n = 2\\).",
        "heat-map": "Figure 1.2 The map.",
        "rows": "Table 1.1 All rows.",
    }
    order = [child.name for child in chapter.select_one("figure#rows").find_all(["figcaption", "table"])]
    assert order == ["figcaption", "table"] and not chapter.select("caption")
    assert not chapter.select("figure figure"), "what JupyterLab shows is left out"


def test_a_reference_is_a_number_and_leads_there(chapter, pages):
    words = chapter.find(lambda tag: tag.name == "p" and "has what" in tag.get_text())
    assert words.get_text() == "Table 1.1 has what Figure 1.1 shows; here, too."
    assert [a["href"] for a in words.select("a")] == ["#rows", "#points", "#points"]
    index = BeautifulSoup((pages / "index.html").read_text(), "html.parser")
    assert index.find("a", string="Table 1.1")["href"] == "notebooks/x.html#rows"


def test_a_figure_comes_in_two_of_which_the_theme_shows_one(chapter, pages):
    for figure in chapter.select("figure:has(img)"):
        light, dark = figure.select("a.themed > img")
        link = figure.select_one("a")
        assert link["class"] == ["themed"] and link["href"] == light["src"], "it opens large"
        for image in (light, dark):  # loaded when it comes into view; the page does not move then
            assert image["loading"] == "lazy" and int(image["width"]) > int(image["height"]) / 2 > 0
        assert light["class"] == ["only-light"] and dark["class"] == ["only-dark"]
        assert light["src"] != dark["src"] and light["alt"] == dark["alt"] == ALTS[figure["id"]]
        assert all((pages / "notebooks" / image["src"]).is_file() for image in (light, dark))
        assert figure.find("figcaption").find_previous("img").parent["class"][0] == "themed"


def test_a_picture_of_the_source_tree_has_the_twin_and_the_table_beside_it(pages):
    page = BeautifulSoup((pages / "index.html").read_text(), "html.parser")
    assert [image["src"] for image in page.select("figure img")] == [
        "_images/some.svg",
        "_images/some.dark.svg",
    ]
    assert page.select_one("figure + p.sources a")["href"] == "_data/index/some.csv"
    pd.testing.assert_frame_equal(pd.read_csv(pages / "_data/index/some.csv"), ROWS)


def test_what_a_run_does_not_show_is_said_in_words(chapter):
    words = chapter.find(lambda tag: tag.name == "p" and "Nothing" in tag.get_text())
    assert words.get_text() == "Nothing in a figure that this run does not show."


def test_a_number_of_the_text_that_a_run_does_not_have_is_a_dash(chapter):
    words = chapter.find(lambda tag: tag.name == "p" and "Told" in tag.get_text())
    assert words.get_text() == "Told: –, –, 0.2."
