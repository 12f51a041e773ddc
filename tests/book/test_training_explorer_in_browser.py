"""The explorer of a training in Chromium, with the network off: what is drawn, said, played and asked for."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import tests.book.test_widgets_in_browser as widgets
from attnlib.widgets import TrainingExplorer
from tests import explorers
from tests.browser import agrees, canvas_hash, connect, downloaded

pytestmark = pytest.mark.book

MAP, CHART, MARKER = widgets.MAP, ".attnt-chart", ".attnt-marker"
STEPS = [0, 10, 50, 100, 1000]
EXACT = [0.0, 0.1, 0.35, 0.8, 0.97]
THUMBS = ".attnx-thumb canvas"


def attention(checkpoints=5, layers=2, heads=3, tokens=5) -> torch.Tensor:
    return explorers.attention(checkpoints, layers, heads, tokens)


def problem(**changes):
    answers = ["7", "12", "3", "4", "3"]
    parts = {"tokens": list("1+2=3"), "attentions": attention(), "answers": answers, "expected": "3"}
    return parts | changes


def explorer(problems=None, curves=None, **settings):
    curves = {"exact match": EXACT, "loss": {0: 4.0, 25: 2.0, 1000: 0.1}} if curves is None else curves
    return TrainingExplorer(problems or {"1+2=": problem()}, STEPS, curves, **settings)


def slide(page, checkpoint):
    page.get_by_label("Checkpoint", exact=True).fill(str(checkpoint))


def shown(page):
    """The index of the checkpoint that the slider is at."""
    return int(page.get_by_label("Checkpoint", exact=True).input_value())


def on_chart(page, checkpoint, of=5, y=50):
    """Where a checkpoint stands on the chart."""
    width = page.locator(CHART).bounding_box()["width"]
    return {"x": 46 + checkpoint * (width - 60) / (of - 1), "y": y}


# ---- the pictures


def test_every_checkpoint_layer_and_head_has_its_own_pictures(opened):
    page, maps, thumbs, markers = opened(explorer()), [], [], []
    for checkpoint in range(5):
        slide(page, checkpoint)
        maps.append(canvas_hash(page, MAP))
        thumbs.append(canvas_hash(page, f":nth-match({THUMBS}, 7)"))
        markers.append(canvas_hash(page, MARKER))
    assert len(set(maps)) == len(set(thumbs)) == len(set(markers)) == 5
    slide(page, 0)
    assert canvas_hash(page, MAP) == maps[0] and canvas_hash(page, MARKER) == markers[0]
    page.get_by_label("Layer", exact=True).select_option("1")
    page.get_by_label("Head", exact=True).select_option("2")
    other = canvas_hash(page, MAP)
    assert other not in maps
    page.get_by_role("button", name="layer 0, head 0").click()
    assert canvas_hash(page, MAP) == maps[0]


def test_a_hover_shows_the_true_weight_at_every_checkpoint(opened):
    page, truth = opened(explorer(layer=1, head=2)), attention()
    for checkpoint, (q, k) in zip((4, 0, 2), [(0, 0), (3, 1), (4, 4)], strict=True):
        slide(page, checkpoint)
        assert agrees(widgets.tip(page, q, k, of=5)[1], truth[checkpoint, 1, 2, q, k])
        caption = f"Layer 1, head 2, step {STEPS[checkpoint]:,}"
        assert page.locator(".attnx-wide .attnx-caption").inner_text() == caption


def test_the_pointed_cell_stays_while_the_checkpoints_pass(opened):
    """Its tip must not tell the weight of the checkpoint before."""
    page = opened(explorer())
    widgets.tip(page, 2, 3, of=5)
    page.get_by_label("Checkpoint", exact=True).focus()
    for checkpoint in (3, 2):
        page.keyboard.press("ArrowLeft")
        weight = page.locator(".attnx-panels .attnx-tip").inner_text().rsplit(": ", 1)[1]
        assert agrees(weight, attention()[checkpoint, 0, 0, 2, 3])


def test_a_stretched_scale_ends_at_the_largest_weight_of_the_whole_training(opened):
    page = opened(explorer({"p": problem(attentions=attention() / 4)}))
    page.get_by_label("What the strongest colour stands for").select_option("shown")
    for checkpoint in (0, 3):
        slide(page, checkpoint)
        last = float(page.locator(".attnx-ticks span").last.inner_text())
        assert last == pytest.approx(attention()[:, 0, 0].max().item() / 4, abs=0.006)


# ---- the chart


def test_the_answer_and_the_curves_are_told_at_every_checkpoint(opened):
    page, words = opened(explorer()), page_words
    for checkpoint, answer in enumerate(["7", "12", "3", "4", "3"]):
        slide(page, checkpoint)
        right = "✓ right" if answer == "3" else "✗ wrong, 3 expected"
        assert words(page, ".attnt-text, .attnt-verdict") == [answer, right]
        assert words(page, ".attnt-step") == [
            f"Step {STEPS[checkpoint]:,} · checkpoint {checkpoint + 1} of 5"
        ]
        loss = [4.0, 3.2, 2 - 1.9 * 25 / 975, 2 - 1.9 * 75 / 975, 0.1][checkpoint]
        assert words(page, ".attnt-value") == [f"{EXACT[checkpoint]:.2f}", f"{loss:.2f}"]


def page_words(page, selector):
    return page.locator(selector).all_inner_texts()


def test_a_click_and_a_drag_on_the_chart_choose_the_checkpoint(opened):
    page = opened(explorer())
    before = canvas_hash(page, MAP)
    page.locator(CHART).click(position=on_chart(page, 1))
    assert shown(page) == 1 and canvas_hash(page, MAP) != before
    box, start, end = page.locator(CHART).bounding_box(), on_chart(page, 1), on_chart(page, 3)
    page.mouse.down()
    page.mouse.move(box["x"] + end["x"] + 9, box["y"] + start["y"], steps=5)
    page.mouse.up()
    assert shown(page) == 3
    page.mouse.move(box["x"] + start["x"], box["y"] + start["y"])
    assert shown(page) == 3  # the button is up: pointing tells only
    tip = page.locator(".attnt-frame .attnx-tip")
    assert tip.inner_text() == "step 10, exact match 0.10, loss 3.20"
    page.locator(".attnx-title, .attnx-readout").first.hover()
    assert tip.is_hidden()


def test_the_thumb_of_the_slider_stands_above_the_marker(opened):
    page = opened(explorer())
    column = """(canvas) => { const ratio = devicePixelRatio, pen = canvas.getContext("2d");
      const row = pen.getImageData(0, 1 * ratio, canvas.width, 1).data;
      const dark = [...Array(canvas.width).keys()].filter((x) => row[4 * x + 3] > 100);
      return dark.reduce((a, b) => a + b, 0) / dark.length / ratio + 0.5; }"""
    for checkpoint in range(5):
        slide(page, checkpoint)
        marked = page.locator(MARKER).evaluate(column)
        assert marked == pytest.approx(on_chart(page, checkpoint)["x"], abs=1)
    # A native slider jumps to where it is clicked: above the third checkpoint it must be at the third.
    slider, chart = (
        page.get_by_label("Checkpoint", exact=True).bounding_box(),
        page.locator(CHART).bounding_box(),
    )
    x = chart["x"] + on_chart(page, 2)["x"]
    page.mouse.click(x, slider["y"] + slider["height"] / 2)
    assert shown(page) == 2
    thumb = slider["x"] + 8 + (slider["width"] - 16) * 2 / 4
    assert thumb == pytest.approx(x, abs=1)


def test_gaps_and_values_of_any_size_and_sign_are_drawn(opened):
    curves = [
        {"A": [None, None, 0.5, np.nan, 1]},
        {"A": [-0.4, 0, 0, 0.1, 0.2]},
        {"A": [900, 500, 20, 3, 1.5]},
        {},
    ]
    page = opened(*(explorer(curves=each) for each in curves))
    assert len({canvas_hash(page, f":nth-match({CHART}, {number})") for number in (1, 2, 3, 4)}) == 4
    for number, checkpoint in enumerate("30"):
        page.get_by_label("Checkpoint", exact=True).nth(number).fill(checkpoint)
    assert page_words(page, ".attnt-value")[:2] == ["–", "−0.40"]


def test_right_and_wrong_checkpoints_are_marked(opened):
    other, without = problem(answers=["3"] * 5), problem(expected=None)
    page = opened(explorer(), explorer({"p": other}), explorer({"p": without}))
    assert canvas_hash(page, CHART) != canvas_hash(page, f":nth-match({CHART}, 2)")
    verdicts = page.locator(".attnt-verdicts")
    assert "right" in verdicts.first.inner_text() and verdicts.nth(2).is_hidden()
    assert page.locator(".attnt-verdict").nth(2).inner_text() == ""


# ---- playing and keyboard


def test_playing_runs_from_the_first_to_the_last_and_ends(opened):
    page = opened(explorer())
    seen = page.evaluate("""() => new Promise((done) => { const seen = [];
      const slider = document.querySelector(".attnt-slider"), button = document.querySelector(".attnt-play");
      button.click();
      const watch = setInterval(() => { seen.push(Number(slider.value));
        if (button.title === "Play the training") { clearInterval(watch); done(seen); } }, 20); })""")
    assert sorted(set(seen)) == [0, 1, 2, 3, 4] and seen == sorted(seen)
    assert page.locator("[aria-live]").inner_text().startswith("Step 1,000, exact match 0.97")


def test_playing_stops_where_the_reader_takes_over(opened):
    page = opened(explorer(checkpoint=0))
    play = page.get_by_role("button", name="Play the training")
    play.click()
    page.get_by_role("button", name="Pause").click()
    assert play.is_visible() and shown(page) < 4
    play.click()
    page.locator(CHART).click(position=on_chart(page, 2))
    page.wait_for_timeout(1000)
    assert shown(page) == 2 and play.is_visible()


def test_the_arrow_keys_scrub_and_what_is_there_is_said(opened):
    page = opened(explorer(query=0))
    slider, status = page.get_by_label("Checkpoint", exact=True), page.locator("[aria-live]")
    slider.focus()
    page.keyboard.press("Home")
    answer = "Step 0, exact match 0.00, loss 4.00. Answer '7', wrong, 3 expected."
    assert status.inner_text().startswith(f"{answer} Layer 0, head 0, step 0. Query '1' (0)")
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "step 10, checkpoint 2 of 5"
    page.locator(".attnx-stage").focus()
    page.keyboard.press("PageDown")
    assert "Layer 0, head 1, step 10. " in status.inner_text()


# ---- problems, escaping, the page around


def test_problems_of_other_sizes_are_switched_and_the_checkpoint_stays(opened):
    small = problem(tokens=list("9+"), attentions=attention(5, 1, 2, 2), answers=["a"] * 5, expected=None)
    page = opened(explorer({"large": problem(), "small": small}, layer=1, head=2, checkpoint=1))
    before = canvas_hash(page, MAP)
    page.get_by_label("Problem", exact=True).select_option("small")
    assert page.locator(".attnt-text").inner_text() == "a" and shown(page) == 1
    assert agrees(widgets.tip(page, 1, 0, of=2)[1], attention(5, 1, 2, 2)[1, 0, 1, 1, 0])
    page.get_by_label("Problem", exact=True).select_option("large")
    page.get_by_label("Layer", exact=True).select_option("1")
    page.get_by_label("Head", exact=True).select_option("2")
    assert canvas_hash(page, MAP) == before


def test_one_checkpoint_needs_no_slider(opened):
    single = problem(attentions=attention(1), answers=["3"])
    page = opened(TrainingExplorer({"p": single}, [7], {"exact match": [0.5]}))
    assert page.locator(".attnt-controls").is_hidden() and page.locator(CHART).is_visible()
    assert page.locator(".attnt-step").inner_text() == "Step 7 · checkpoint 1 of 1"


def test_the_saved_picture_names_its_step(opened, tmp_path):
    page = opened(explorer(title="T", checkpoint=2))
    assert downloaded(page, "as SVG", tmp_path / "map.svg") == "T-layer-0-head-0-step-50.svg"
    root = ElementTree.parse(tmp_path / "map.svg").getroot()
    assert "step 50" in root.find("{http://www.w3.org/2000/svg}title").text


# ---- live


def adder(text):
    if not re.fullmatch(r"\d\+\d=\d", text):
        raise ValueError(f"<b>{text}</b> is not a sum such as 1+2=3.")
    return problem(
        tokens=list(text), attentions=attention().flip(0), answers=list("12345"), expected=text[-1]
    )


def test_a_live_view_asks_and_shows_the_answer_or_what_was_wrong(opened):
    widget = explorer(answer=adder, checkpoint=1)
    page = opened("<div class='attnx-map'></div>")
    kernel = connect(page, widget)
    box, go = page.get_by_label("A problem of your own"), page.get_by_role("button", name="Answer")
    before = canvas_hash(page, f"canvas{MAP}")
    box.fill("2+2=4")
    box.press("Enter")
    assert page.evaluate("model.get('asked')") == "2+2=4"
    page.evaluate("model.set('busy', true)")
    assert go.is_disabled() and page.locator(".attnq-progress").inner_text() == "Computing …"
    box.press("Enter")
    assert page.evaluate("sent") == [{"text": "2+2=4"}]
    page.evaluate("model.set('busy', false)")
    kernel()
    problems = page.get_by_label("Problem", exact=True)
    assert problems.locator("option").all_inner_texts() == ["1+2=", "2+2=4 (typed)"]
    assert problems.input_value() == "1" and canvas_hash(page, f"canvas{MAP}") != before
    assert page_words(page, ".attnt-text, .attnt-verdict") == ["2", "✗ wrong, 4 expected"]
    box.fill("12++3=")
    go.click()
    kernel()
    alert = page.locator("[role=alert]")
    assert alert.inner_text() == "<b>12++3=</b> is not a sum such as 1+2=3."
    assert problems.locator("option").count() == 2
    box.fill("3+4=7")
    box.press("Enter")
    kernel()
    assert alert.is_hidden() and problems.locator("option").count() == 3


def test_the_trained_model_alone_pins_the_slider(opened):
    widget = explorer(answer=lambda text: problem(attentions=attention(1), answers=["3"]), checkpoint=1)
    page = opened("<div class='attnx-map'></div>")
    kernel = connect(page, widget)
    page.get_by_label("A problem of your own").fill("1+2=")
    page.get_by_role("button", name="Answer").click()
    kernel()
    slider = page.get_by_label("Checkpoint", exact=True)
    assert slider.is_disabled() and slider.input_value() == "4"
    assert page.locator(".attnt-step").inner_text() == "Step 1,000 · the trained model alone"
    page.locator(CHART).click(position=on_chart(page, 0))
    assert slider.input_value() == "4"
    page.get_by_label("Problem", exact=True).select_option("0")
    assert slider.is_enabled() and slider.input_value() == "1"


def test_playing_ends_with_the_view(opened):
    page = opened("<div class='attnx-map'></div>")
    connect(page, explorer(checkpoint=0))
    page.evaluate("document.querySelector('.attnt-play').click(); letGo();")  # before it moves
    page.wait_for_timeout(900)
    assert page.evaluate("model.get('checkpoint')") == 0
