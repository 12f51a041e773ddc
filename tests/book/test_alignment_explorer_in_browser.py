"""The explorer of a translator's training in Chromium, with the network off."""

import re
from itertools import pairwise

import pytest
import torch

from attnlib.widgets import AlignmentExplorer
from tests.book.test_training_explorer_in_browser import CHART, on_chart, slide
from tests.browser import agrees, canvas_hash, connect, readout

pytestmark = pytest.mark.book

STEPS = [0, 10, 100]
SOURCE, TARGET = ["<bos>", "das", "rote", "Haus", "<eos>"], ["the", "red", "house", "<eos>"]
NAMES = ["alpha", "beta", "Delta", "truth"]


def scores(checkpoints=3, rows=4, columns=5):
    draw = torch.randn(3, checkpoints, rows, columns, generator=torch.Generator().manual_seed(rows))
    return {"alpha": torch.softmax(2 * draw[0], -1), "beta": torch.sigmoid(draw[1]), "Delta": 0.1 * draw[2]}


TRUTH = torch.zeros(4, 5, dtype=torch.bool)
TRUTH[[0, 1, 2], [1, 2, 3]] = True


def sentence(**changes):
    parts = {"source": SOURCE, "targets": [TARGET] * 3, "scores": scores(), "truth": TRUTH}
    return parts | {"written": ["a", "the house", "the red house"], "expected": "the red house"} | changes


def explorer(sentences=None, **settings):
    return AlignmentExplorer(sentences or {"A": sentence()}, STEPS, {"accuracy": [0.1, 0.5, 0.9]}, **settings)


def stage(page, at):
    return page.locator(".attna-map").nth(at).locator(".attnx-stage")


def cells(page, at):
    return f".attna-map:nth-child({at + 1}) canvas.attnx-map"


def point(page, at, row, column, click=False):
    """Puts the pointer on a cell of a map."""
    canvas = page.locator(cells(page, at))
    box = canvas.bounding_box()
    place = {"x": (column + 0.5) * box["width"] / 5, "y": (row + 0.5) * box["height"] / 4}
    overlay = page.locator(".attna-map").nth(at).locator(".attnx-overlay")
    overlay.click(position=place) if click else overlay.hover(position=place)


def test_more_cells_and_steps_than_a_call_has_arguments(opened):
    words = [f"w{n}" for n in range(400)]
    large = sentence(source=words, targets=[words] * 3, scores=scores(3, 400, 400), truth=None)
    losses = {"loss": dict.fromkeys(range(200_000), 0.5) | {200_000: 3.0}}
    page = opened(AlignmentExplorer({"A": large}, [0, 10, 200_000], losses))
    assert page.locator(".attna-map").count() == 3 and page.locator(CHART).is_visible()


def test_every_score_has_a_map_that_changes_with_the_checkpoint_but_for_the_truth(opened):
    page = opened(explorer())
    assert page.locator(".attna-name").all_inner_texts() == NAMES
    pictures = []
    for checkpoint in range(3):
        slide(page, checkpoint)
        pictures.append([canvas_hash(page, cells(page, at)) for at in range(4)])
    assert all(len(set(column)) == 3 for column in list(zip(*pictures, strict=True))[:3])
    assert len({row[3] for row in pictures}) == 1
    page.locator(CHART).click(position=on_chart(page, 0))
    assert canvas_hash(page, cells(page, 0)) == pictures[0][0]


def test_a_cell_tells_its_numbers_by_every_score(opened):
    page = opened(explorer())
    for checkpoint, at, row, column in [(2, 0, 2, 3), (0, 2, 3, 0), (1, 1, 0, 4)]:
        slide(page, checkpoint)
        point(page, at, row, column)
        said = readout(page)
        assert said.startswith(f"'{TARGET[row]}' ({row}) with '{SOURCE[column]}' ({column}): ")
        for name, values in scores().items():
            number = re.search(rf"{name} (\S+?)[,.]( |$)", said)[1]
            assert agrees(number, values[checkpoint, row, column].item())
        assert f"truth {int(TRUTH[row, column])}." in said
    page.locator(".attnx-readout").hover()
    assert readout(page).startswith("Point at a cell")


def test_cells_are_chosen_by_click_and_walked_through_by_the_arrow_keys(opened):
    page = opened(explorer())
    status = page.locator("[aria-live]")
    point(page, 0, 1, 2, click=True)
    assert "'red' (1) with 'rote' (2)" in status.inner_text()
    stage(page, 1).focus()
    for key, expected in [("ArrowDown", (2, 2)), ("ArrowRight", (2, 3)), ("Home", (0, 3)), ("End", (3, 3))]:
        page.keyboard.press(key)
        assert f"'{TARGET[expected[0]]}' ({expected[0]}) with '{SOURCE[expected[1]]}'" in status.inner_text()
    page.keyboard.press("PageUp")
    assert status.inner_text().startswith("Step 10, accuracy 0.50. Translation 'the house', wrong")
    page.keyboard.press("Escape")
    assert " with " not in status.inner_text()


PIXEL = """([row, column]) => {
  const map = document.querySelector("canvas.attnx-map"), at = (i, size) => (i + 0.5) * size / 2;
  const pen = map.getContext("2d");
  return [...pen.getImageData(at(column, map.width), at(row, map.height), 1, 1).data]; }"""
"""The colour of a cell of two by two."""


def test_nearly_equal_scores_are_no_map_of_one_colour(opened):
    """Until another scale is chosen, each row goes from its least to its largest."""
    values = torch.tensor([[[0.50, 0.51], [0.021, 0.020]]])
    one = {"source": ["a", "b"], "targets": [["c", "d"]], "scores": {"beta": values}, "written": ["c"]}
    page = opened(explorer({"A": one}))
    seen = [page.evaluate(PIXEL, [row, column]) for row in range(2) for column in range(2)]
    assert seen[0] == seen[3] and seen[1] == seen[2] and sum(seen[0][:3]) - sum(seen[1][:3]) > 300
    scale = page.locator(".attnx-legend").first
    assert scale.inner_text().startswith("beta, from least to largest of its row")
    page.get_by_label("What the strongest colour stands for").select_option("whole")
    seen = [page.evaluate(PIXEL, [0, column]) for column in range(2)]
    assert abs(sum(seen[0][:3]) - sum(seen[1][:3])) < 20 and scale.inner_text().startswith("beta\n")


def test_negative_scores_are_of_the_other_colour(opened):
    values = torch.tensor([[[-1.0, 1.0], [0.0, -0.5]]])
    one = {"source": ["a", "b"], "targets": [["c", "d"]], "scores": {"Delta": values}, "written": ["c"]}
    page = opened(explorer({"A": one}))
    colours = {place: page.evaluate(PIXEL, list(place)) for place in [(0, 0), (0, 1), (1, 1)]}
    assert colours[0, 0][0] > colours[0, 0][2] and colours[1, 1][0] > colours[1, 1][2]  # orange
    assert colours[0, 1][2] > colours[0, 1][0]  # blue


def test_the_translation_is_told_and_the_table_says_where_scores_are_largest(opened):
    page = opened(explorer())
    assert page.locator(".attnt-text").inner_text() == "the red house"
    assert page.locator(".attnt-verdict").inner_text() == "✓ right"
    page.locator("summary").click()
    rows = page.locator(".attnx tbody tr")
    rows.first.wait_for()
    at = int(scores()["alpha"][2, 1].argmax())
    assert rows.nth(1).locator("td").first.inner_text() == f"'{SOURCE[at]}' ({at})"
    assert rows.nth(3).locator("td").nth(3).inner_text() == "none"


RUNS = ["a run that learns", "one-that-does-not-" + "x" * 60]
SYMBOLS = [chr(97 + 7 * i % 26) for i in range(41)]


def two_runs(**changes):
    """Attention of two runs to 41 symbols: one ends on the diagonal, one stays even."""
    away = (torch.arange(41)[:, None] - torch.arange(41)).abs()
    learns = torch.stack([torch.softmax(-sharpness * away, -1) for sharpness in (0.0, 0.1, 8.0)])
    copy = " ".join(SYMBOLS)
    parts = {"source": SYMBOLS, "targets": [SYMBOLS] * 3, "expected": copy}
    parts["scores"] = dict(zip(RUNS, (learns, torch.full((3, 41, 41), 1 / 41)), strict=True))
    parts["written"] = {RUNS[0]: ["", "a h", copy], RUNS[1]: ["<b>"] * 3}
    curves = {f"accuracy, {name}": [0.0, 0.1, at] for name, at in zip(RUNS, (1.0, 0.1), strict=True)}
    return AlignmentExplorer(
        {"A": parts | changes}, STEPS, curves, one_scale=True, nouns=("sequence", "copy")
    )


@pytest.mark.parametrize("width", [1200, 400])
def test_two_runs_stand_side_by_side_each_with_what_it_wrote_on_one_scale(opened, width):
    page, heights = opened(two_runs(), width=width + 15), set()  # which a page keeps for a scroll bar
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = [stage(page, at).bounding_box() for at in range(2)]
    assert (boxes[0]["y"] == boxes[1]["y"]) == (width == 1200)
    for at in range(2):
        canvas = page.locator(cells(page, at)).bounding_box()
        assert canvas["width"] == canvas["height"] >= 41 * (12 if width == 1200 else 5)
        assert stage(page, at).evaluate("stage => stage.scrollWidth <= stage.clientWidth")
        assert page.locator(".attna-map").nth(at).locator(".attnx-ticks span").last.inner_text() == "1"
        label = stage(page, at).locator("xpath=../..").locator(".attnx-legend").get_attribute("aria-label")
        assert label == f"Colour scale of {RUNS[at]}, square root"
    assert page.locator(".attnt-value").all_inner_texts() == ["1.00", "0.10"]
    assert page.locator(".attnt-answer").inner_text() == f"Expected copy\n\n{' '.join(SYMBOLS)}"
    pictures, written = [], page.locator(".attna-written")
    for checkpoint, text in enumerate(["✗ wrong ∅", "✗ wrong a h", f"✓ right {' '.join(SYMBOLS)}"]):
        slide(page, checkpoint)
        assert written.all_inner_texts() == [text, "✗ wrong <b>"]
        heights.add(page.locator(".attnx").bounding_box()["height"])
        pictures.append([canvas_hash(page, cells(page, at)) for at in range(2)])
    assert len(heights) == 1 and len({first for first, _ in pictures}) == 3
    assert len({second for _, second in pictures}) == 1 and pictures[0][0] == pictures[0][1]  # both even
    assert page.locator("[aria-live]").inner_text().endswith(f"Copy: {RUNS[0]} right, {RUNS[1]} wrong.")
    page.get_by_label("What the strongest colour stands for").select_option("shown")
    ticks = page.locator(".attna-map .attnx-ticks span:last-child")
    slide(page, 0)
    assert [float(text) for text in ticks.all_inner_texts()] == pytest.approx([1 / 41] * 2, abs=0.001)
    slide(page, 2)
    assert ticks.all_inner_texts() == ["1", "1"]


def test_numbers_of_a_colour_scale_do_not_touch(opened):
    small = {name: each * 0.0076 for name, each in scores().items()}
    page = opened(explorer({"A": sentence(scores=small)}))
    for at in range(4):
        boxes = [
            each.bounding_box()
            for each in page.locator(".attna-map").nth(at).locator(".attnx-ticks span").all()
        ]
        assert len(boxes) >= 3
        for before, after in pairwise(boxes):
            assert before["x"] + before["width"] + 3 < after["x"]


def test_without_an_expected_text_the_runs_are_not_judged_and_may_have_none(opened):
    page = opened(two_runs(expected=None))
    assert page.locator(".attna-written").all_inner_texts()[1].strip() == "<b>"
    assert page.locator(".attnt-answer").is_hidden()
    assert opened(two_runs(expected=None, written={})).locator(".attna-written").count() == 0


def translate(text):
    targets = [["a", "<eos>", "", ""], ["the", "house", "<eos>", ""], TARGET]
    return sentence(targets=targets, truth=None, expected=None)


def test_a_live_view_translates_at_every_checkpoint(opened):
    widget = explorer(translate=translate)
    page = opened("<p class='attnx-map'></p>")
    kernel = connect(page, widget)
    box = page.get_by_label("A sentence of your own")
    box.fill("das rote Haus")
    box.press("Enter")
    kernel()
    sentences = page.get_by_label("Sentence", exact=True)
    assert sentences.locator("option").all_inner_texts() == ["A", "das rote Haus (typed)"]
    point(page, 0, 2, 1)
    assert readout(page).startswith("'house' (2)")
    slide(page, 1)
    point(page, 0, 1, 1)
    assert readout(page).startswith("'house' (1)")
    assert page.locator(".attnt-text").inner_text() == "the house"
