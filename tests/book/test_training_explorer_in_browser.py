"""The explorer of a training in Chromium: its chart, its slider, what is played and answered."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from attnlib.widgets import TrainingExplorer
from tests.book.test_explorers_in_browser import SVG
from tests.browser import agrees, canvas_hash, connect, downloaded, point, slide
from tests.explorers import EXACT, STEPS, adder, attention, problem, training_explorer

pytestmark = pytest.mark.book

MAP, CHART, MARKER = ".attnx-map", ".attnt-chart", ".attnt-marker"


def shown(page):
    """The index of the checkpoint that the slider is at."""
    return int(page.get_by_label("Checkpoint", exact=True).input_value())


def on_chart(page, checkpoint, of=5, y=50):
    """Where a checkpoint stands on the chart."""
    width = page.locator(CHART).bounding_box()["width"]
    return {"x": 46 + checkpoint * (width - 60) / (of - 1), "y": y}


def test_the_pointed_cell_stays_while_the_checkpoints_pass(opened):
    """Its tip must not tell the weight of the checkpoint before."""
    page = opened(training_explorer())
    point(page, ".attnx-overlay", 0.7, 0.5)
    page.get_by_label("Checkpoint", exact=True).focus()
    for checkpoint in (3, 2):
        page.keyboard.press("ArrowLeft")
        weight = page.locator(".attnx-panels .attnx-tip").inner_text().rsplit(": ", 1)[1]
        assert agrees(weight, attention(5, tokens=5)[checkpoint, 0, 0, 2, 3])


def test_the_answer_and_the_curves_are_told_at_every_checkpoint(opened):
    page = opened(training_explorer())
    for checkpoint, answer in enumerate(["7", "12", "3", "4", "3"]):
        slide(page, checkpoint)
        right = "✓ right" if answer == "3" else "✗ wrong, 3 expected"
        assert page.locator(".attnt-text, .attnt-verdict").all_inner_texts() == [answer, right]
        assert page.locator(".attnt-step").all_inner_texts() == [
            f"Step {STEPS[checkpoint]:,} · checkpoint {checkpoint + 1} of 5"
        ]
        loss = [4.0, 3.2, 2 - 1.9 * 25 / 975, 2 - 1.9 * 75 / 975, 0.1][checkpoint]
        assert page.locator(".attnt-value").all_inner_texts() == [f"{EXACT[checkpoint]:.2f}", f"{loss:.2f}"]


def test_a_click_and_a_drag_on_the_chart_choose_the_checkpoint(opened):
    page = opened(training_explorer())
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


def test_the_thumb_of_the_slider_stands_above_its_place_on_the_chart(opened):
    """A native slider jumps to where it is clicked: above the third checkpoint it must be at the third."""
    page = opened(training_explorer())
    slider = page.get_by_label("Checkpoint", exact=True).bounding_box()
    x = page.locator(CHART).bounding_box()["x"] + on_chart(page, 2)["x"]
    page.mouse.click(x, slider["y"] + slider["height"] / 2)
    assert shown(page) == 2
    assert slider["x"] + 8 + (slider["width"] - 16) * 2 / 4 == pytest.approx(x, abs=1)


def test_gaps_and_values_of_any_size_and_sign_are_drawn(opened):
    curves = [
        {"A": [None, None, 0.5, np.nan, 1]},
        {"A": [-0.4, 0, 0, 0.1, 0.2]},
        {"A": [900, 500, 20, 3, 1.5]},
        {},
    ]
    page = opened(*(training_explorer(curves=each) for each in curves))
    assert len({canvas_hash(page, f":nth-match({CHART}, {number})") for number in (1, 2, 3, 4)}) == 4
    for number, checkpoint in enumerate("30"):
        page.get_by_label("Checkpoint", exact=True).nth(number).fill(checkpoint)
    assert page.locator(".attnt-value").all_inner_texts()[:2] == ["–", "−0.40"]


def test_right_and_wrong_checkpoints_are_marked(opened):
    other, without = problem(answers=["3"] * 5), problem(expected=None)
    page = opened(training_explorer(), training_explorer({"p": other}), training_explorer({"p": without}))
    assert canvas_hash(page, CHART) != canvas_hash(page, f":nth-match({CHART}, 2)")
    verdicts = page.locator(".attnt-verdicts")
    assert "right" in verdicts.first.inner_text() and verdicts.nth(2).is_hidden()
    assert page.locator(".attnt-verdict").nth(2).inner_text() == ""


def test_playing_runs_from_the_first_to_the_last_and_ends(opened):
    page = opened(training_explorer())
    seen = page.evaluate("""() => new Promise((done) => { const seen = [];
      const own = setInterval;
      setInterval = (step, pause) => own(step, pause / 8);
      const slider = document.querySelector(".attnt-slider"), button = document.querySelector(".attnt-play");
      button.click();
      const watch = own(() => { seen.push(Number(slider.value));
        if (button.title === "Play the training") { clearInterval(watch); done(seen); } }, 10); })""")
    assert sorted(set(seen)) == [0, 1, 2, 3, 4] and seen == sorted(seen)
    assert page.locator("[aria-live]").inner_text().startswith("Step 1,000, exact match 0.97")


def test_playing_stops_where_the_reader_takes_over(opened):
    page = opened(training_explorer(checkpoint=0))
    play = page.get_by_role("button", name="Play the training")
    play.click()
    page.get_by_role("button", name="Pause").click()
    assert play.is_visible() and shown(page) < 4
    play.click()
    page.locator(CHART).click(position=on_chart(page, 2))
    page.wait_for_timeout(1000)
    assert shown(page) == 2 and play.is_visible()


def test_one_checkpoint_needs_no_slider(opened):
    single = problem(attentions=attention(1, tokens=5), answers=["3"])
    page = opened(TrainingExplorer({"p": single}, [7], {"exact match": [0.5]}))
    assert page.locator(".attnt-controls").is_hidden() and page.locator(CHART).is_visible()
    assert page.locator(".attnt-step").inner_text() == "Step 7 · checkpoint 1 of 1"


def test_a_live_view_is_busy_while_it_is_answered_and_says_what_was_wrong(opened):
    page = opened("<div class='attnx-map'></div>")
    kernel = connect(page, training_explorer(answer=adder, checkpoint=1))
    box, go = page.get_by_label("A problem of your own"), page.get_by_role("button", name="Answer")
    box.fill("12++3=")
    go.click()
    page.evaluate("model.set('busy', true)")
    assert go.is_disabled() and page.locator(".attnq-progress").inner_text() == "Computing …"
    box.press("Enter")
    assert page.evaluate("sent") == [{"text": "12++3="}]
    page.evaluate("model.set('busy', false)")
    kernel()
    alert, problems = page.locator("[role=alert]"), page.get_by_label("Problem", exact=True)
    assert alert.inner_text() == "<b>12++3=</b> is not a sum such as 1+2=3."
    assert problems.locator("option").count() == 1
    box.fill("3+4=7")
    box.press("Enter")
    kernel()
    assert alert.is_hidden() and problems.locator("option").count() == 2
    assert page.locator(".attnt-text, .attnt-verdict").all_inner_texts() == ["2", "✗ wrong, 7 expected"]


def test_the_trained_model_alone_pins_the_slider(opened):
    widget = training_explorer(
        answer=lambda text: problem(attentions=attention(1, tokens=5), answers=["3"]), checkpoint=1
    )
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
    connect(page, training_explorer(checkpoint=0))
    page.evaluate("document.querySelector('.attnt-play').click(); letGo();")  # before it moves
    page.wait_for_timeout(900)
    assert page.evaluate("model.get('checkpoint')") == 0


def test_what_is_small_or_large_or_alone_in_a_training_is_shown(opened, tmp_path: Path) -> None:
    def explorer(curves: dict[str, list]) -> TrainingExplorer:
        return TrainingExplorer(
            {"1+2=": problem(answers=list("12345"))}, [0.0001, 1, 2, 3, 4000], curves, checkpoint=0
        )

    alone = {"loss": [0.004, 0.3, 0.2, 0.1, 0.001], "held out": [0.1, None, 0.5, None, 0.9]}
    page = opened(explorer({**alone, "held out": [None] * 5}))
    without = canvas_hash(page, ".attnt-chart")
    page = opened(explorer(alone))
    assert canvas_hash(page, ".attnt-chart") != without
    values, step = page.locator(".attnt-value"), page.locator(".attnt-step strong")
    assert (values.first.inner_text(), step.inner_text()) == ("0.0040", "Step 0.0001")
    page.locator(".attnt-slider").fill("4")
    assert (values.first.inner_text(), step.inner_text()) == ("0.0010", "Step 4,000")
    page = opened(explorer({"perplexity": [2e6, 1e6, 5e5, 100, 10]}))
    downloaded(page, "Save as SVG", tmp_path / "picture.svg")
    texts = [node.text for node in ElementTree.parse(tmp_path / "picture.svg").getroot().iter(f"{SVG}text")]
    assert {"0", "1M", "2M"} <= {*texts}


def test_a_playing_is_one_step_back(opened) -> None:
    """However long its checkpoints are seen; what was chosen before is another step."""
    page = opened(training_explorer(checkpoint=1))
    page.evaluate(
        """() => {
             let now = 0;
             Date.now = () => (now += 800);
             setInterval = (step) => { window.step = step; return 1e9; };
           }"""
    )
    slider, undo = page.locator(".attnt-slider"), page.get_by_text("undo")
    slider.fill("4")
    page.locator(".attnt-play").click()
    assert slider.input_value() == "0", "from the last it begins anew"
    page.evaluate("step(), step(), step(), step()")
    assert slider.input_value() == "4"
    undo.click()
    assert slider.input_value() == "4"
    undo.click()
    assert slider.input_value() == "1" and undo.get_attribute("aria-disabled") == "true"
