"""Saving what an explorer shows: the picture as it is on the page, and the numbers with all their digits."""

import csv
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from attnlib.widgets import AttentionExplorer
from tests.book.test_explorers_in_browser import SVG, looks
from tests.browser import becomes, connect, downloaded, drawn
from tests.explorers import generation_explorer

pytestmark = pytest.mark.book


def test_a_picture_is_the_same_wherever_the_page_is_scrolled_to(opened, tmp_path: Path) -> None:
    """Labels that stay in view on a page stand at their rows and columns in its picture."""
    page = opened(generation_explorer(title="T"))
    page.set_viewport_size({"width": 1400, "height": 300})
    saved = []
    for map_at in (200, -60):
        page.locator(".attnx-stage").last.evaluate(
            "(node, at) => scrollBy(0, node.getBoundingClientRect().top - at)", map_at
        )
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as SVG").evaluate("button => button.click()")
        download.value.save_as(tmp_path / "picture.svg")
        saved.append((tmp_path / "picture.svg").read_text())
    assert saved[0] == saved[1] and page.locator(".attnx").count() == 1


PAINTED = """() => {
  const card = document.querySelector(".attnx"), probe = document.createElement("div");
  document.body.append(probe);
  window.painted = [];
  // Told of a new size once a frame's other callbacks have run, and before it is painted.
  new ResizeObserver(() => painted.push(card.className)).observe(probe);
  const look = () => { probe.style.width = `${painted.length % 2}px`; requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""
"""Knows as `painted` the classes of the card in every frame."""


def test_the_card_is_not_seen_as_it_is_printed(opened, tmp_path: Path) -> None:
    page = opened(generation_explorer(title="T"))
    page.evaluate(PAINTED)
    downloaded(page, "Save as SVG", tmp_path / "picture.svg")
    drawn(page)
    assert set(page.evaluate("painted")) == {"attnx attng"}


def test_two_files_can_be_asked_for_at_once(opened) -> None:
    page = opened(generation_explorer(title="T"))
    before, names = looks(page), []
    page.on("download", lambda download: names.append(download.suggested_filename))
    page.evaluate("document.querySelectorAll('[aria-label^=\"Save as\"]').forEach(button => button.click())")
    becomes(page, lambda: len(names), lambda count: count == 3)
    assert sorted(name.rpartition(".")[2] for name in names) == ["csv", "png", "svg"]
    drawn(page)
    assert looks(page) == before and not page.locator(".attnx").get_attribute("style")


def test_a_token_that_is_saved_is_no_formula_in_a_spreadsheet(opened, tmp_path: Path) -> None:
    tokens = ['=HYPERLINK("x")', "=1+cmd|'/C_calc'!A0", "-", "=", "f(x)"]
    page = opened(AttentionExplorer(tokens, torch.full((1, 1, 5, 5), 0.2)))
    downloaded(page, "Save as CSV", tmp_path / "numbers.csv")
    with (tmp_path / "numbers.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    assert [row[3] for row in rows[:5]] == [f"'{tokens[0]}", f"'{tokens[1]}", *tokens[2:]]


def test_the_numbers_saved_are_those_shown_with_all_digits_live_and_as_a_png(opened, tmp_path: Path) -> None:
    weights = torch.softmax(torch.randn(1, 2, 3, 3, generator=torch.Generator().manual_seed(0)), -1)
    widget = AttentionExplorer(
        ['say "x"', ",", "\n"], weights, references=torch.eye(3).bool(), layer=0, head=1
    )
    page = opened("<div class='attnx-map'></div>")
    connect(page, widget)
    downloaded(page, "Save as CSV", tmp_path / "numbers.csv")
    with (tmp_path / "numbers.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["query", "query token", "key", "key token", "weight", "reference"]
    assert [row[1] for row in rows[::3]] == ['say␣"x"', ",", "⏎"]
    saved = np.array([[float(row[4]) for row in rows], [float(row[5]) for row in rows]]).reshape(2, 3, 3)
    assert np.abs(saved[0] - weights[0, 1].numpy()).max() < 0.004 and (saved[1] == np.eye(3)).all()
    assert min(len(row[4]) for row in rows) > 8
    assert (
        downloaded(page, "Save as PNG", tmp_path / "picture.png") == "Attention-explorer-layer-0-head-1.png"
    )
    assert (tmp_path / "picture.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


TURNS = """() => {
  const { port1, port2 } = new MessageChannel(), wrapped = (kind, size) => new Proxy(kind, {
    construct: (made, given) => { note(size(...given)); return Reflect.construct(made, given); } });
  Object.assign(window, { most: 0, turn: 0 });
  port1.onmessage = () => { turn = 0; port2.postMessage(0); };
  port2.postMessage(0);
  const note = (size) => { turn += size; most = Math.max(most, turn); };
  window.Blob = wrapped(Blob, (parts) => parts.filter((part) => typeof part === "string").length);
  const make = document.createElementNS;
  document.createElementNS = (...given) => { note(1); return make.apply(document, given); };
}"""
"""Knows as `most` how many lines, or elements of a picture, were made before the page had its turn."""


def saved_whole(matrix: torch.Tensor) -> str:
    """What a map of whole numbers is as CSV."""
    lines = [f"{q},t{q},{k},t{k},{matrix[q, k]:.0f}" for q, k in np.ndindex(*matrix.shape)]
    return "\n".join(["query,query token,key,key token,weight", *lines, ""])


def test_a_long_table_is_saved_in_parts_and_is_what_was_shown_when_it_was_asked_for(
    opened, tmp_path: Path
) -> None:
    n = 300
    weights = torch.stack([torch.eye(n), torch.eye(n).flip(0)])[None]
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], weights, layer=0, head=1))
    page.evaluate(TURNS)
    head = page.get_by_label("Head", exact=True)
    with page.expect_download() as download:
        page.evaluate(  # in one turn of the page, before it is painted again
            """() => {
              document.querySelector("[aria-label='Save as CSV']").click();
              const head = document.querySelector("select[title='Head']");
              head.value = "0";
              head.dispatchEvent(new Event("change", { bubbles: true }));
            }"""
        )
    download.value.save_as(tmp_path / "numbers.csv")
    assert (tmp_path / "numbers.csv").read_text() == saved_whole(weights[0, 1])
    assert head.input_value() == "0" and 0 < page.evaluate("most") <= n * n / 4


def test_cells_of_a_colour_are_saved_as_one_shape(opened, tmp_path: Path) -> None:
    n = 70
    weights = torch.rand(1, 1, n, n, generator=torch.Generator().manual_seed(0)) + 0.5
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], weights / weights.sum(-1, keepdim=True)))
    downloaded(page, "Save as SVG", tmp_path / "picture.svg")
    paths = [
        each.attrib["d"] for each in ElementTree.parse(tmp_path / "picture.svg").getroot().iter(f"{SVG}path")
    ]
    squares = [path.count("M") for path in paths if path.endswith("z")]
    assert sum(squares) == n * n and len(squares) < 256


def test_a_large_picture_is_saved_in_parts(opened, tmp_path: Path) -> None:
    n = 500
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], torch.full((1, 1, n, n), 1 / n)))
    page.evaluate(TURNS)
    downloaded(page, "Save as SVG", tmp_path / "picture.svg")
    elements = [*ElementTree.parse(tmp_path / "picture.svg").getroot().iter()]
    assert len(elements) > 2000 and 0 < page.evaluate("most") <= 1000
