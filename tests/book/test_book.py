"""The built book, of the smoke profile: what stands on its pages, and what answers on them."""

import functools
import inspect
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser
from sphinx.util.inventory import InventoryFile

import attnlib
import attnlib.generators.algorithmic
import attnlib.generators.rasp
import attnlib.models
import attnlib.stats
from book.chapters.findings.claims import CLAIMS
from book.chapters.findings.finding import VERDICTS
from book.chapters.records.reproduced import SAME, reproduced
from book.chapters.records.runs import RECORDED, SMOKE, read_all
from book.pipeline.further import further_page
from tests.browser import canvas_hash, drawn, watched_page

from .built import CHAPTERS, DOCUMENTS, FURTHER, parsed

LAST = CHAPTERS.index("notebooks/random_programs") + 1
"""The chapters before the page on speed."""

READS = "notebooks/attention_intervention"
"""It judges what the chapter before it recorded, whose models and explorers stand there."""

WITHOUT_RECORD = {"notebooks/own_model", "notebooks/methods", "notebooks/random_programs", READS}
"""One shows how the package is used, one works out examples by hand, two read: none records anything."""

LIMIT = 300_000  # bytes of a page; API pages may have twice that, a chapter with its explorers three times

pytestmark = pytest.mark.book


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_records_what_it_measured(html: Path, chapter: str) -> None:
    tables = sorted((html.parent / "results" / Path(chapter).name).glob("*.parquet"))
    assert bool(tables) != (chapter in WITHOUT_RECORD), "a chapter records; what only shows does not"
    assert all(table.with_suffix(".json").exists() for table in tables), "records without provenance"


def test_the_first_page_plays(html: Path, browser: Browser) -> None:
    """Typing is answered, the picture follows, and a head switched off can change the answer."""
    with watched_page(browser) as (page, problems):
        page.goto((html / "index.html").as_uri())
        said, heat_map = page.locator(".attno-said"), "section.attnx .attnx-map"
        before = canvas_hash(page, heat_map)
        assert "=125, right" in said.inner_text()
        page.locator("section.attnx input[type=text]").fill("12+34")
        assert "12+34=46, right" in said.inner_text()
        assert canvas_hash(page, heat_map) != before
        page.get_by_label("Attention of the chosen head").select_option("off")
        assert "as trained: 46, right" in said.inner_text()
        for option in page.get_by_label("Model", exact=True).locator("option").all_inner_texts():
            page.get_by_label("Model", exact=True).select_option(label=option)
            assert page.locator(".attnq-note").inner_text().startswith("Right: ")
        assert problems == []


def test_the_first_page_argues(html: Path) -> None:
    """Every claim stands there with its verdict and a link, and the build says what it reproduced."""
    soup = parsed(html / "index.html")
    shown = soup.select(".claims tbody tr")
    claims = [each.select_one("a").get_text().replace("\u2019", "'") for each in shown]  # set as print has it
    assert claims == [claim.words.replace("`", "") for claim in CLAIMS]
    assert {each.select_one(".verdict").get_text() for each in shown} <= set(VERDICTS)
    assert len(soup.select(".needle .prompt mark")) == 2 and len(soup.select(".front-card svg")) == 6
    assert "recorded numbers" in soup.get_text()


def test_every_number_of_this_build_is_the_one_that_was_recorded(html: Path) -> None:
    """What proves that no line of code has changed a number unnoticed, see `results/smoke`."""
    made = html.parent / "results"
    now, kept = read_all(made), read_all(RECORDED / SMOKE)
    assert {name for name, _ in now} == {name for name, _ in kept}
    here = {key for key in now if now[key][1]["processor"] == kept[key][1]["processor"]}
    if not here:
        pytest.skip("recorded on other processors, where sums are rounded otherwise")
    found = reproduced(made, RECORDED / SMOKE)
    of_here = found.set_index(["notebook", "record"]).index.isin(here)
    moved = found[of_here & ~found["verdict"].isin(SAME)]
    assert moved.empty, moved.to_string()


DYNAMICS = "notebooks/classification_dynamics"
MEASURES = ("notebooks/attribution_benchmark", "notebooks/faithfulness_metrics", "notebooks/random_programs")
"""Their explorer chooses among measures, and has a test of its own (test_measure_explorer_in_browser)."""


@pytest.mark.parametrize("chapter", [each for each in CHAPTERS if each not in (DYNAMICS, *MEASURES, READS)])
def test_the_chapters_explorer_answers(html: Path, browser: Browser, chapter: str) -> None:
    """Layer, head and hover each change the picture, not only a number beside it."""
    with watched_page(browser) as (page, problems):
        page.goto((html / f"{chapter}.html").as_uri())
        explorer = page.locator("section.attnx").first
        explorer.scroll_into_view_if_needed()
        heat_map, overlay = "section.attnx .attnx-map", "section.attnx .attnx-overlay"
        for label in ("Layer", "Head"):
            choice = explorer.get_by_label(label, exact=True)
            values = choice.locator("option").evaluate_all("all => all.map(option => option.value)")
            if values != ["-1", "0"]:  # the mean of one head is that head
                pictures = set()
                for value in values:
                    choice.select_option(value)
                    pictures.add(canvas_hash(page, heat_map))
                assert len(pictures) == len(values), label
        before = canvas_hash(page, overlay)
        box = page.locator(overlay).first.bounding_box()
        page.locator(overlay).first.hover(position={"x": box["width"] * 0.7, "y": box["height"] * 0.7})
        drawn(page)
        assert canvas_hash(page, overlay) != before
        assert problems == []


def test_the_explorer_of_tokens_over_training_answers(html: Path, browser: Browser) -> None:
    """Every checkpoint has its own colours, and its own place on the chart."""
    with watched_page(browser) as (page, problems):
        page.goto((html / f"{DYNAMICS}.html").as_uri())
        slider = page.locator("section.attnx input[type=range]").first
        slider.scroll_into_view_if_needed()
        pictures, last = set(), int(slider.get_attribute("max"))
        for checkpoint in range(last + 1):
            slider.fill(str(checkpoint))
            tints = page.locator(".attnd-row").first.evaluate("row => row.innerHTML")
            pictures.add((tints, canvas_hash(page, "section.attnx .attnt-marker")))
        assert len({tints for tints, _ in pictures}) == len({marker for _, marker in pictures}) == last + 1
        assert problems == []


OPEN_TABLES = 7
"""So many tables of a chapter are open; more, and a reader looks for the one that matters."""


@pytest.mark.parametrize("chapter", [*CHAPTERS, *FURTHER])
def test_few_tables_are_open_and_code_only_where_it_teaches(html: Path, chapter: str) -> None:
    article = parsed(html / f"{chapter}.html").find("article")
    shown = [each for each in article.select("div.cell_output table") if not each.find_parent("details")]
    assert len(shown) <= OPEN_TABLES
    assert not [each for each in article.select("section.attnx, .attnx") if each.find_parent("details")]
    cells = article.select("div.cell") if article.select_one(".one-minute, .underlined") else []
    unfolded = [
        cell for cell in cells if cell.select_one("div.cell_input") and not cell.select_one("details")
    ]
    assert all("tag_teaches" in cell["class"] for cell in unfolded)


@pytest.mark.parametrize("chapter", [*CHAPTERS, *FURTHER])
def test_every_figure_and_table_of_a_chapter_has_its_numbers_below_it(html: Path, chapter: str) -> None:
    path = html / f"{chapter}.html"
    article = parsed(path).find("article")
    shown = article.select("div.cell_output > figure")
    assert shown and len(shown) == len(article.select("div.cell_output :is(img.only-light, table.dataframe)"))
    for each in shown:
        line = each.find_next_sibling()
        assert line is not None and line.get("class") == ["sources"], each.get("id")
        data, *_ = (path.parent / link["href"] for link in line.select("a"))
        rows = pd.read_csv(data) if data.suffix == ".csv" else np.load(data)
        assert list(rows), data  # columns, or arrays
        if data.suffix == ".csv":
            texts = rows.select_dtypes(exclude="number").astype(object).fillna("").astype(str)
            assert not [cell for name in texts for cell in texts[name] if IN_WORDS.match(cell)], data
        heads = [cell.get_text().strip() for cell in each.select("thead th")]
        assert "index" not in heads, f"{each['id']} does not say what its first column holds"


IN_WORDS = re.compile(r"[+-]?\d[\d.,]*( %| points)? (\[|±)")
"""A number with its interval or spread in one cell: for readers, not for programs."""

RAW = re.compile(r"\b(?:nan|NaN|NaT|None|<NA>|inf)\b|\w+Error\b|object at 0x")


COUNTED = re.compile(r"\], (n = )?[\d,]+( seeds?)?$")
"""Over how many a number is, behind its interval: that is a column's, or the caption's, to say."""

SHARE, NUMBER = re.compile(r"^(accuracy|exact match|agreement)\b"), re.compile(r"-?\d[\d.]*")
"""What columns of shares are called, and the number that a cell begins with."""


@pytest.mark.parametrize("chapter", [*CHAPTERS, *FURTHER])
def test_no_sentence_tells_what_only_a_program_understands(html: Path, chapter: str) -> None:
    """A run may lack a number; its sentence then has a dash."""
    told = [each.get_text() for each in parsed(html / f"{chapter}.html").select("article .pasted-text")]
    assert [each for each in told if RAW.search(each) or "inf" in each.split()] == []


@pytest.mark.parametrize("chapter", [*CHAPTERS, *FURTHER])
def test_a_brief_number_opens_to_its_interval(html: Path, chapter: str) -> None:
    """The keyboard reaches it, and the title begins with the number that the text shows."""
    page = parsed(html / f"{chapter}.html")
    for brief in page.select("article abbr.brief"):
        assert brief["title"].startswith(brief.get_text()) and "95 % confidence interval" in brief["title"]
        assert brief["tabindex"] == "0" and "[" not in brief.get_text()
    for number in page.select("article abbr.of-this-build"):
        assert "computed by this build (profile" in number["title"] and number["tabindex"] == "0"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_line_below_the_box_says_which_numbers_are_of_this_build(html: Path, chapter: str) -> None:
    page = parsed(html / f"{chapter}.html")
    (line,) = page.select("article .one-minute + p.origins")
    assert line.select_one(".of-this-build") and "this build (profile" in line.get_text()


@pytest.mark.parametrize("second", FURTHER)
def test_further_experiments_have_a_page_that_the_chapter_lists(html: Path, second: str) -> None:
    """Older addresses of a section lead to its entry in the list; both pages offer the whole notebook."""
    first = second.removesuffix("_further")
    chapter, page = (parsed(html / f"{each}.html").find("article") for each in (first, second))
    sections = [each["id"] for each in page.select("section section") if each.find("h2", recursive=False)]
    entries = chapter.select("#further-experiments ul > li, #lens-further ul > li")
    listed = [entry.a["href"] for entry in entries]
    assert listed == [f"{Path(second).name}.html#{section}" for section in sections] and sections
    assert [entry.span["id"] for entry in entries] == sections
    assert "One notebook computes both pages" in page.get_text() and chapter.select_one("#run-it-again")
    sources = [html / f"_sources/{each}.ipynb" for each in (first, second)]
    assert sources[0].read_bytes() == sources[1].read_bytes()
    whole = sources[0].read_text()
    assert '"## Further experiments' in whole and "computes both pages" not in whole


def test_numbers_of_the_run_are_told_from_recorded_ones(html: Path) -> None:
    page = parsed(html / "notebooks/attribution_benchmark.html")
    said = [each.get_text() for each in page.select("article abbr.of-this-build")]
    assert any("11" in each for each in said)  # predictions about this page's run
    assert not page.select(".one-minute .of-this-build")  # the box is of the recorded run


@pytest.mark.parametrize("chapter", [*CHAPTERS, *FURTHER])
def test_no_table_shows_what_only_a_program_understands(html: Path, chapter: str) -> None:
    """And one without rows says so in its caption."""
    article = parsed(html / f"{chapter}.html").find("article")
    for figure in article.select("div.cell_output figure:has(table)"):
        cells = [cell.get_text().strip() for cell in figure.select("td, th")]
        assert [cell for cell in cells if RAW.search(cell) or COUNTED.search(cell)] == [], figure["id"]
        caption = figure.select_one(".caption-text").get_text()
        heads = [cell.get_text().strip() for cell in figure.select("thead th")]
        for row in figure.select("tbody tr") if "ercent" not in caption else ():
            shares = [cell for head, cell in zip(heads, row.select("td"), strict=True) if SHARE.search(head)]
            numbers = [float(found[0]) for cell in shares if (found := NUMBER.match(cell.get_text().strip()))]
            assert all(number <= 1 for number in numbers), figure["id"]
        if not figure.select("tbody tr"):
            assert "no such rows" in figure.select_one(".caption-text").get_text(), figure["id"]


NUMBERED = re.compile(r"(Figure|Table) \d+(\.\d+)?")


def test_figures_and_tables_are_counted_captioned_and_referred_to(html: Path) -> None:
    """By chapter and in the order of the page; a word that stands for a number has been turned into it."""
    for place, document in enumerate(CHAPTERS, 1):
        pages = [document, *({further_page(document)} & {*FURTHER})]
        counted = {"Figure": 0, "Table": 0}
        for article in (parsed(html / f"{page}.html").find("article") for page in pages):
            for figure in article.select("div.cell_output figure"):
                kind, number = figure.select_one(".caption-number").get_text().split()
                counted[kind] += 1
                chapter = place if place <= LAST else place + 1  # the page on speed is counted, too
                assert number == f"{chapter}.{counted[kind]}", figure["id"]
                assert kind == ("Table" if figure.find("table") else "Figure") and figure["id"]
                assert len(figure.select_one(".caption-text").get_text()) > 10
            assert not re.findall(r"(?:Figure|Table) [a-z]+(?:-[a-z0-9]+)+", article.get_text())
    for document in ("index", "book/performance"):
        article = parsed(html / f"{document}.html").find("article")
        numbers = [each.get_text().strip() for each in article.select(".caption-number")]
        assert len(numbers) == len(set(numbers)) == len(article.select("figure, table.table:has(caption)"))
        assert all(NUMBERED.fullmatch(number) for number in numbers)


@pytest.mark.parametrize("document", ["index", *CHAPTERS, *FURTHER, "book/performance"])
def test_alternative_texts_say_what_is_to_be_seen(html: Path, document: str) -> None:
    """More than the form: numbers of what is drawn."""
    article = parsed(html / f"{document}.html").find("article")
    for image in article.select("figure img"):
        assert re.search(r"\d", image["alt"]) and 40 < len(image["alt"]) < 3000, image["alt"]


def test_a_link_to_code_opens_the_fold_that_it_is_in(html: Path, browser: Browser) -> None:
    with watched_page(browser) as (page, _):
        page.goto((html / f"{DYNAMICS}.html").as_uri())
        link = page.locator("figure:not(:has(table)) + p.sources").first.get_by_role("link", name="code")
        lines = page.locator(f"[id='{link.get_attribute('href').removeprefix('#')}']")
        assert not lines.is_visible()
        link.click()
        assert lines.is_visible() and "plots." in lines.inner_text()


def test_one_switch_opens_all_code_of_a_chapter(html: Path, browser: Browser) -> None:
    with watched_page(browser) as (page, problems):
        page.goto((html / f"{DYNAMICS}.html").as_uri())
        folds = page.locator("details.hide.above-input:not(:has(.cell_output))")
        switch = page.get_by_role("button", name="Show all code")
        switch.click()
        assert folds.evaluate_all("all => all.every(fold => fold.open)")
        tables = page.locator("details.hide:has(.cell_output)")
        assert tables.evaluate_all("all => all.length > 0 && all.every(fold => !fold.open)")
        page.get_by_role("button", name="Hide all code").click()
        assert folds.evaluate_all("all => all.every(fold => !fold.open)")
        assert problems == []


PARTS = {"a": "href", "img": "src", "script": "src", "link": "href", "iframe": "src"}


class Links(HTMLParser):
    """What a page can be entered by, and what it points to: hundreds of pages, most of them of code."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors, self.targets = set[str](), list[tuple[str, str]]()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            elif value and name == PARTS.get(tag):
                self.targets.append((tag, value))


@pytest.fixture(scope="module")
def links(html: Path) -> dict[Path, Links]:
    """Those of every page."""
    return {path: Links(path) for path in html.rglob("*.html")}


OLD_ADDRESSES = {
    "where_attention_tells": "attribution_benchmark",
    "judging_measures": "faithfulness_metrics",
    "looking_decides": "attention_intervention",
}


@pytest.mark.parametrize(("old", "new"), OLD_ADDRESSES.items())
def test_an_old_address_leads_to_its_page(html: Path, browser: Browser, old: str, new: str) -> None:
    with watched_page(browser) as (page, _):
        page.goto((html / f"notebooks/{old}.html").as_uri() + "#why-this-matters")
        page.wait_for_url(f"**/notebooks/{new}.html#why-this-matters")
        assert page.locator("#why-this-matters").count() == 1


def test_every_link_inside_the_book_leads_somewhere(html: Path, links: dict[Path, Links]) -> None:
    dead, there = [], functools.cache(Path.exists)
    for path, of in links.items():
        for _, found in of.targets:
            url = urlsplit(found)
            if url.scheme or url.netloc or found == "#":
                continue
            target = Path(os.path.normpath(path.parent / unquote(url.path))) if url.path else path
            known = links[target].anchors if target in links else None
            section = "" if url.fragment.startswith("explorer=") else unquote(url.fragment)
            astray = known is not None and section and section not in known
            if astray or not there(target):
                dead.append(f"{path.relative_to(html)}: {found}")
    assert dead == [] and len(links) > len(DOCUMENTS)


def test_no_page_loads_anything_from_elsewhere(html: Path, links: dict[Path, Links]) -> None:
    """What the browser test sees on the pages it opens, for every page: links may lead out, parts may not."""
    outside = [
        f"{path.relative_to(html)}: {part}"
        for path, of in links.items()
        for tag, part in of.targets
        if tag != "a" and part.startswith(("http", "//"))
    ]
    assert outside == []


def test_references_are_listed_by_author_and_year(html: Path) -> None:
    page = parsed(html / "book/references.html")
    listed = [label.get_text().strip("[]") for label in page.select(".citation .label")]
    assert "Abnar and Zuidema 2020" in listed and "Spiegel et al. 2025" in listed
    first_authors = [re.split(r" and | et al| \d", label)[0].casefold() for label in listed]
    assert first_authors == sorted(first_authors)


@pytest.mark.parametrize("document", [*DOCUMENTS, *FURTHER])
def test_pages_are_small(html: Path, document: str) -> None:
    # The first page and the slider's have models in them that the reader asks: as much as a chapter.
    chapter = document in (*CHAPTERS, *FURTHER, "index", "book/slider")
    allowed = 3 * LIMIT if chapter else 2 * LIMIT if "/api/" in document else LIMIT
    if document == "notebooks/rasp_languages":  # it has the weights of models in it: chapters.trying.ROOM
        allowed += LIMIT
    assert (html / f"{document}.html").stat().st_size < allowed


def test_the_status_page_says_how_long_each_chapter_took(html: Path) -> None:
    text = parsed(html / "book/status.html").get_text()
    for chapter in CHAPTERS:
        assert Path(chapter).name.replace("_", " ") in text
    assert "smoke" in text and "torch 2." in text
    assert "recorded numbers" in text and "sort-" in text  # what became of every record


def test_the_api_reference_has_every_public_name(html: Path) -> None:
    with (html / "objects.inv").open("rb") as file:
        names = {name for kind, entries in InventoryFile.load(file, "", lambda base, path: path).items()
                 if kind.startswith("py:") for name in entries}  # fmt: skip
    packages = [
        attnlib.generators,
        attnlib.generators.algorithmic,
        attnlib.generators.rasp,
        attnlib.models,
        attnlib.stats,
    ]
    tasks = {f"attnlib.generators.{each.__name__}" for each in attnlib.generators.algorithmic.TASKS.values()}
    public = {
        f"{package.__name__}.{name}"
        for package in packages
        for name in package.__all__
        if inspect.isclass(getattr(package, name)) or inspect.isfunction(getattr(package, name))
    } - tasks  # they stand once, with the others of their package
    assert public | {"attnlib.training.fit", "attnlib.widgets.AttentionExplorer"} <= names
    assert not [name for name in names if name.startswith("book.")], "the reference is the package's"
