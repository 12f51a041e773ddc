"""The explorer of a translator's training in Chromium: maps of scores and of runs, the translation."""

import pytest
import torch

from attnlib.widgets import AlignmentExplorer
from tests.book.test_training_explorer_in_browser import CHART
from tests.browser import canvas_hash, point, readout, slide
from tests.explorers import STEPS, alignment_explorer, scores, sentence, translate

pytestmark = pytest.mark.book


def stage(page, at):
    return page.locator(".attna-map").nth(at).locator(".attnx-stage")


def cells(page, at):
    return f".attna-map:nth-child({at + 1}) canvas.attnx-map"


def test_more_cells_and_steps_than_a_call_has_arguments(opened):
    words = [f"w{n}" for n in range(400)]
    large = sentence(
        source=words, targets=[words] * 3, scores=scores(3, 400, 400), truth=None, written=["w"] * 3
    )
    losses = {"loss": dict.fromkeys(range(200_000), 0.5) | {200_000: 3.0}}
    page = opened(AlignmentExplorer({"A": large}, [0, 10, 200_000], losses))
    assert page.locator(".attna-map").count() == 3 and page.locator(CHART).is_visible()


PIXEL = """([row, column]) => {
  const map = document.querySelector("canvas.attnx-map"), at = (i, size) => (i + 0.5) * size / 2;
  const pen = map.getContext("2d");
  return [...pen.getImageData(at(column, map.width), at(row, map.height), 1, 1).data]; }"""
"""The colour of a cell of two by two."""


def test_nearly_equal_scores_are_no_map_of_one_colour(opened):
    """Until another scale is chosen, each row goes from its least to its largest."""
    values = torch.tensor([[[0.50, 0.51], [0.021, 0.020]]])
    one = {"source": ["a", "b"], "targets": [["c", "d"]], "scores": {"beta": values}, "written": ["c"]}
    page = opened(alignment_explorer({"A": one}))
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
    page = opened(alignment_explorer({"A": one}))
    colours = {place: page.evaluate(PIXEL, list(place)) for place in [(0, 0), (0, 1), (1, 1)]}
    assert colours[0, 0][0] > colours[0, 0][2] and colours[1, 1][0] > colours[1, 1][2]  # orange
    assert colours[0, 1][2] > colours[0, 1][0]  # blue


def test_a_row_is_called_by_the_word_that_was_written_at_the_checkpoint(opened):
    page = opened(alignment_explorer({"A": translate("das rote Haus")}))
    for checkpoint, row, word in [(4, 2, "house"), (1, 1, "house"), (0, 0, "a")]:
        slide(page, checkpoint)
        point(page, ".attnx-overlay", 0.3, (row + 0.5) / 4)
        assert readout(page).startswith(f"'{word}' ({row}) with 'das' (1)")


def test_the_translation_is_told_and_judged(opened):
    page = opened(alignment_explorer())
    assert page.locator(".attnt-text").inner_text() == "the red house"
    assert page.locator(".attnt-verdict").inner_text() == "✓ right"


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
        {"A": parts | changes}, STEPS[:3], curves, one_scale=True, nouns=("sequence", "copy")
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


def test_without_an_expected_text_the_runs_are_not_judged_and_may_have_none(opened):
    page = opened(two_runs(expected=None))
    assert page.locator(".attna-written").all_inner_texts()[1].strip() == "<b>"
    assert page.locator(".attnt-answer").is_hidden()
    assert opened(two_runs(expected=None, written={})).locator(".attna-written").count() == 0


def test_a_text_without_end_keeps_no_more_room_than_is_said_of_it(opened) -> None:
    values = torch.rand(2, 4, 3)
    endless = narrow(3, targets=[list("wxyz")] * 2, scores={"m": values}, written={"m": ["la " * 1500, "la"]})
    page = opened(AlignmentExplorer({"A": endless}, [0, 10]))
    assert page.locator(".attna-written").evaluate("node => node.offsetHeight") < 120


def narrow(columns: int, **changes) -> dict:
    values = torch.rand(1, 4, columns, generator=torch.Generator().manual_seed(columns))
    parts = {"source": [f"s{i}" for i in range(columns)], "targets": [[f"t{i}" for i in range(4)]]}
    return parts | {"scores": {"alpha": values}, "written": ["w"]} | changes


def test_a_pair_of_tokens_stays_chosen_in_another_sentence_that_has_it(opened) -> None:
    sentences = {"five": narrow(5), "seven": narrow(7), "two": narrow(2)}
    page = opened(AlignmentExplorer(sentences, [10]))
    page.evaluate("let now = 0; Date.now = () => (now += 1000)")  # every choice is a step
    page.locator(".attnx-stage").focus()
    for key in ("Home", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    items = page.get_by_label("Sentence")
    for item in "010":
        items.select_option(item)
        assert readout(page).startswith("'t1' (1) with 's3' (3)"), item
    items.select_option("2")
    assert readout(page).startswith("Point at a cell")
    items.press("Control+z")
    assert readout(page).startswith("'t1' (1) with 's3' (3)")


def test_keys_move_from_what_is_chosen_wherever_the_pointer_rests(opened) -> None:
    page = opened(AlignmentExplorer({"A": narrow(7)}, [10]))
    page.locator(".attnx-stage").focus()
    page.keyboard.press("Home")
    page.locator(".attnx-overlay").hover(position={"x": 100, "y": 100})
    assert "'t0'" not in readout(page)
    page.keyboard.press("ArrowRight")
    assert readout(page).startswith("'t0' (0) with 's1' (1)")
