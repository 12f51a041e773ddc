"""What a person reads of every explorer, on a page, on paper and by keys alone: all of it, and as it is."""

import io
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from attnlib.widgets import AlignmentExplorer, AttentionExplorer, GenerationExplorer, MeasureExplorer
from tests.attnlib.widgets import test_dynamics_explorer as dynamics
from tests.attnlib.widgets import test_measure_explorer as measure
from tests.attnlib.widgets import test_model_explorer as model
from tests.attnlib.widgets import test_training_explorer as training
from tests.attnlib.widgets.test_explorer_pages import EXPLORERS
from tests.attnlib.widgets.test_in_browser import SVG
from tests.browser import Page, canvas_hash, connect, downloaded, drawn, readout

pytestmark = pytest.mark.book

HEBREW = ["שלום", "עולם", "היום", "מחר"]
NAME = "gradient_times_input_of_the_last_hidden_layer_summed_over_embedding_dimensions"


def attention(n: int, heads: int = 1, **settings) -> AttentionExplorer:
    draw = torch.randn(1, heads, n, n, generator=torch.Generator().manual_seed(0))
    return AttentionExplorer([f"t{i}" for i in range(n)], torch.softmax(2 * draw, -1), **settings)


def sentence(columns: int, **changes) -> dict:
    values = torch.rand(1, 4, columns, generator=torch.Generator().manual_seed(columns))
    parts = {"source": [f"s{i}" for i in range(columns)], "targets": [[f"t{i}" for i in range(4)]]}
    return parts | {"scores": {"alpha": values}, "written": ["w"]} | changes


def focused(page: Page) -> str:
    """What the keys go to, by what it is called."""
    return page.evaluate(
        """() => {
             const { ariaLabel, tagName, textContent } = document.activeElement;
             return ariaLabel ?? (tagName === "BODY" ? "nothing" : textContent);
           }"""
    )


# ---- on paper

BESIDE = """() => [...document.querySelectorAll(".attnx")].flatMap((card) => {
  const box = (each) => each.getBoundingClientRect(), all = (what) => [...card.querySelectorAll(what)];
  const [chart, text] = all(".attnt-frame, .attnt-side").map(box), end = box(card).right;
  return [
    ...all("canvas").filter((each) => box(each).right > end).map(({ className }) => className),
    ...all(".attnx-stage").filter((each) => each.scrollWidth > each.clientWidth).map(() => "columns"),
    ...(chart?.right > text?.left && chart.bottom > text.top ? ["chart over text"] : []),
  ];
})"""
"""What is drawn beyond its card, or over another part, or not at all."""

PICTURES = "all => all.map(each => each.toDataURL())"


def test_a_printed_page_is_laid_out_for_paper_and_then_for_the_screen_again(opened) -> None:
    """Drawn anew: a canvas is as wide as it was on the screen, whatever the paper is."""
    cards = [attention(40, 4), *(EXPLORERS[name][0]() for name in ("training", "alignment", "generation"))]
    page = opened(*cards, width=1400, dark=True)
    canvases, shown = page.locator("canvas"), page.locator(".attnx")
    before = canvases.evaluate_all(PICTURES)
    cleared = page.evaluate(
        """() => {
             const pen = CanvasRenderingContext2D.prototype, clear = pen.clearRect;
             let cleared = 0;
             pen.clearRect = function (...box) { cleared++; return clear.apply(this, box); };
             dispatchEvent(new Event("beforeprint"));
             return cleared;
           }"""
    )
    assert cleared == 0, "strokes are printed: what is cleared is white, over what is below"
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 900})
    assert page.evaluate(BESIDE) == []
    assert {each.get_attribute("data-mode") for each in shown.all()} == {"light"}
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1400, "height": 900})
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    drawn(page)
    assert canvases.evaluate_all(PICTURES) == before
    assert {each.get_attribute("style") or "" for each in shown.all()} == {""}


# ---- on a narrow page

TOUCHING = """() => [...document.querySelectorAll(".attnx-ticks")].filter((ticks) => {
  const edges = [...ticks.children].map((tick) => tick.getBoundingClientRect());
  return edges.some(({ left, height }, i) => height > 20 || (i && left < edges[i - 1].right));
}).length"""


def test_long_names_are_parted_where_the_page_is_narrow(opened) -> None:
    scores = {NAME: torch.randn(3, 4, generator=torch.Generator().manual_seed(0))}
    asked = measure.question(predicted=NAME, expected=NAME[::-1])
    page = opened(
        dynamics.explorer({"A": dynamics.document(scores=scores)}, title=NAME),
        AlignmentExplorer({"A": sentence(9, scores={NAME: torch.randn(1, 4, 9)})}, [0]),
        MeasureExplorer({"one": asked}),
        width=360,
    )
    over = "all => all.map((each) => each.scrollWidth - each.clientWidth)"
    assert page.locator(".attnx").evaluate_all(over) == [0, 0, 0]
    assert page.evaluate(TOUCHING) == 0


def test_room_for_a_scroll_bar_is_kept_before_there_is_one(opened) -> None:
    """Else a card that is lower on a narrower page would make it come and go for ever."""
    assert opened(attention(4)).evaluate("innerWidth - document.documentElement.offsetWidth") > 0


def test_a_text_without_end_keeps_no_more_room_than_is_said_of_it(opened) -> None:
    values = torch.rand(2, 4, 3)
    endless = sentence(
        3, targets=[list("wxyz")] * 2, scores={"m": values}, written={"m": ["la " * 1500, "la"]}
    )
    page = opened(AlignmentExplorer({"A": endless}, [0, 10]))
    assert page.locator(".attna-written").evaluate("node => node.offsetHeight") < 120


# ---- numbers


def test_small_numbers_keep_their_sign_and_are_as_small_as_they_are(opened) -> None:
    scores = {
        "Delta": np.tile([3.0, -10000.0, 9000.0, -0.7], (3, 1)),
        "grad": np.tile([2.0, 40000.0, 30000.0, 0.5], (3, 1)),
        "tiny": np.tile([3e-7, -8e-7, 1e-7, 5e-9], (3, 1)),
    }
    page = opened(dynamics.explorer({"T": dynamics.document(tokens=list("abcd"), scores=scores)}))
    said = []
    for token in range(4):
        page.locator(".attnd-token").nth(token).hover()
        said.append([readout(page).split(f"{name} ")[1].split()[0] for name in scores])
    assert said == [
        ["+<10", "<10", "+3.0e-7"],
        ["−10000", "40000", "−8e-7"],
        ["+9000", "30000", "+1.0e-7"],
        ["−<10", "<10", "+<1e-8"],
    ]


def test_what_is_small_or_large_or_alone_in_a_training_is_shown(opened, tmp_path: Path) -> None:
    def explorer(curves: dict[str, list]) -> training.TrainingExplorer:
        problem = training.problem(attentions=training.attention(5), answers=list("12345"))
        return training.TrainingExplorer({"1+2=": problem}, [0.0001, 1, 2, 3, 4000], curves, checkpoint=0)

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


def test_numbers_stand_behind_tokens_from_right_to_left_in_tables_and_captions_too(opened) -> None:
    shares = torch.full((2, 4, 3), 0.2)
    page = opened(GenerationExplorer(HEBREW, HEBREW[:2], shares), attention(4), width=1400)
    page.locator("summary").first.click()
    page.locator(".attng tbody td").first.wait_for()
    texts = page.locator(".attng tbody :is(th, td), .attng .attnx-caption").all_inner_texts()
    named = [text for text in texts if any(word in text for word in HEBREW)]
    assert len(named) == 2 * 4 + 2 and [text for text in named if "\u2068'" not in text] == []


# ---- what is chosen


def test_a_pair_of_tokens_stays_chosen_in_another_sentence_that_has_it(opened) -> None:
    sentences = {"five": sentence(5), "seven": sentence(7), "two": sentence(2)}
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
    page = opened(AlignmentExplorer({"A": sentence(7)}, [10]))
    page.locator(".attnx-stage").focus()
    page.keyboard.press("Home")
    page.locator(".attnx-overlay").hover(position={"x": 100, "y": 100})
    assert "'t0'" not in readout(page)
    page.keyboard.press("ArrowRight")
    assert readout(page).startswith("'t0' (0) with 's1' (1)")


def test_what_is_chosen_is_seen_and_reached_however_attention_is_drawn(opened) -> None:
    page = opened(attention(187, query=160), width=500)
    reachable = page.locator(".attnx-strip button[tabindex='0']")
    for form, frame, last in (("lines", ".attnx-lines", "t159"), ("map", ".attnx-stage", "t158")):
        page.get_by_label("Drawn as").select_option(form)
        assert page.locator(frame).evaluate("node => node.scrollTop") > 1000, form
        reachable.focus()
        page.keyboard.press("ArrowLeft")
        assert reachable.all_inner_texts() == [last]


def test_a_playing_is_one_step_back(opened) -> None:
    """However long its checkpoints are seen; what was chosen before is another step."""
    page = opened(training.explorer(checkpoint=1))
    page.evaluate(
        """() => {
             let now = 0;
             Date.now = () => (now += 800);
             setInterval = (step) => { window.step = step; return 1e9; };
           }"""
    )
    slider, undo = page.locator(".attnt-slider"), page.get_by_text("undo")
    slider.fill("2")
    page.locator(".attnt-play").click()
    assert slider.input_value() == "0", "from the last it begins anew"
    page.evaluate("step(), step()")
    assert slider.input_value() == "2"
    undo.click()
    assert slider.input_value() == "2"
    undo.click()
    assert slider.input_value() == "1" and undo.get_attribute("aria-disabled") == "true"


def test_a_head_is_called_by_what_it_is_now(opened) -> None:
    page = opened(model.explorer(swaps={"L0H1": "even"}))
    head = page.get_by_role("button", name="layer 0, head 1")
    page.locator("input[type=text]").press_sequentially("b")
    assert head.get_attribute("title") == "layer 0, head 1: even"
    page.get_by_text("as trained").first.click()
    assert head.get_attribute("title") == "layer 0, head 1"


# ---- by keys, by ear, in colours of one's own


def test_keys_go_on_where_what_had_them_is_gone(opened) -> None:
    page = opened(EXPLORERS["attention"][0]())
    page.get_by_label("Example").select_option("1")
    page.locator(".attnx-strip button").first.focus()
    page.keyboard.press("Control+z")
    assert focused(page) == "undo"
    page.locator(".attnx-stage").focus()
    page.keyboard.press("-")
    page.get_by_role("button", name="Larger cells").focus()
    page.keyboard.press("Enter")
    drawn(page)
    assert focused(page).startswith("Attention explorer: long")
    page = opened(model.explorer(swaps={"L0H1": "even"}))
    page.get_by_role("button", name="as trained").focus()
    page.keyboard.press("Enter")
    drawn(page)
    assert focused(page).startswith("Its attention")


def test_who_asks_keeps_the_button_while_it_is_answered(opened) -> None:
    page = opened("<div class='attnx-map'></div>")
    connect(page, dynamics.explorer(classify=dynamics.classify))
    page.get_by_role("button", name="Classify").focus()
    for busy in (True, False):
        page.evaluate("busy => put({ busy })", busy)
        drawn(page)
        assert focused(page) == "Classify"
        assert page.get_by_role("button", name="Classify").get_attribute("aria-disabled") == str(busy).lower()


def test_a_control_is_called_what_is_written_before_it(opened) -> None:
    """Who speaks to a page says what stands there (WCAG 2.5.3)."""
    page = opened(*(make() for make, _ in EXPLORERS.values()))
    names = page.locator(".attnx-field").evaluate_all(
        """all => all.map((field) => [field, ...field.querySelectorAll("[aria-label]")].map((each, i) =>
             (i ? each.ariaLabel : each.firstChild.textContent).toLowerCase()))"""
    )
    assert len(names) > 10 and [each for each in names if not each[1].startswith(each[0])] == []


def test_the_choice_is_seen_in_forced_colours(opened) -> None:
    page = opened(attention(4, 2, query=1), EXPLORERS["generation"][0](), training.explorer(checkpoint=0))
    page.emulate_media(forced_colors="active")
    style = "all => all.map((each) => getComputedStyle(each).outlineStyle)"
    chosen, others = (page.locator(f"[aria-pressed={it}]").evaluate_all(style) for it in ("true", "false"))
    swatch = page.locator(".attnx-swatch").first.evaluate("node => getComputedStyle(node).forcedColorAdjust")
    track = imread(io.BytesIO(page.locator(".attnt-slider").screenshot()))
    page.emulate_media(forced_colors="none")
    assert len(chosen) == 4 and {*chosen} == {"solid"} and {*others} == {"none"} and swatch == "none"
    assert len(np.unique(track[:, track.shape[1] // 2], axis=0)) > 1
