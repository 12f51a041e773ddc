"""What explorers have in common in Chromium, with the network off: one test, asked of each."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import tests.book.test_alignment_explorer_in_browser as alignment
import tests.book.test_dynamics_explorer_in_browser as dynamics
import tests.book.test_generation_explorer_in_browser as generation
import tests.book.test_measure_explorer_in_browser as measure
import tests.book.test_model_explorer_in_browser as model
import tests.book.test_program_explorer_in_browser as program
import tests.book.test_training_explorer_in_browser as training
import tests.book.test_widgets_in_browser as widgets
from attnlib.widgets import AttentionExplorer, GenerationExplorer, MeasureExplorer
from tests import explorers
from tests.book.test_training_explorer_in_browser import slide
from tests.browser import CONTRAST, Page, becomes, canvas_hash, connect

pytestmark = pytest.mark.book

HOSTILE = [*explorers.HOSTILE, "</script>", "'\"`${1}"]
MAP = "canvas.attnx-map"
LOOKS = """view => [...view.querySelectorAll(
    "canvas, .attnx-readout, .attnm-found, .attno-said, .attnr-rows")]
  .map(each => each.toDataURL?.() ?? each.innerText).join()"""
"""All that a view shows of its numbers, as one text."""
OVERFLOWED = "document.documentElement.scrollWidth > innerWidth"


@pytest.mark.parametrize(
    ("made", "changes"),
    [
        (widgets.explorer, {"layer": 1}),
        (training.explorer, {"checkpoint": 0}),
        (dynamics.explorer, {"checkpoint": 1, "token": 2, "shown": ["beta", "alpha"]}),
        (alignment.explorer, {"checkpoint": 0}),
        (generation.explorer, {"layer": 0}),
        (model.explorer, {"text": "fade", "swaps": {"L0H0": "off"}}),
        (measure.explorer, {"item": 1}),
        (program.explorer, {"text": "bbbbbbbbbbbb", "query": 5}),
    ],
)
def test_what_python_sets_is_shown_as_the_static_page_shows_it(opened: Any, made: Any, changes: Any) -> None:
    """As anywidget calls it: an ES module, bytes as DataView at any offset, changes told by the model."""
    page = opened(made(), made(**changes))
    connect(page, made())
    views = page.locator("section.attnx")
    before, after, live = (views.nth(i).evaluate(LOOKS) for i in range(3))
    assert live == before != after
    page.evaluate("put", changes)
    assert becomes(page, lambda: views.nth(2).evaluate(LOOKS), lambda looks: looks == after) == after
    page.evaluate("letGo()")
    assert page.evaluate("Object.values(heard).flat().length") == 0
    page.emulate_media(color_scheme="dark")  # drawn anew by the views that are not let go
    if views.first.locator("canvas").count():
        assert becomes(page, lambda: views.nth(1).evaluate(LOOKS), lambda looks: looks != after) != after
        assert views.nth(2).evaluate(LOOKS) == after


@pytest.mark.parametrize(
    "made",
    [each.explorer for each in (widgets, training, dynamics, alignment, generation, model, measure, program)],
    ids=lambda made: made.__module__.rpartition("test_")[2],
)
def test_a_page_whose_data_were_changed_draws_nothing_and_says_so(opened: Any, made: Any) -> None:
    """With two characters exchanged it would draw another picture."""
    page = made().to_html()
    packed = max(re.findall('"base64":"([^"]*)"', page), key=len)
    place = next(i for i in range(len(packed) // 2, len(packed)) if packed[i] != packed[i - 1])
    exchanged = packed[: place - 1] + packed[place] + packed[place - 1] + packed[place + 1 :]
    shown = opened(page.replace(packed, exchanged), made())
    assert shown.locator("section.attnx").count() == 1
    assert "was changed after this page was made" in shown.get_by_role("alert").inner_text()


def test_a_static_page_has_no_box_and_says_so_where_there_was_one(opened: Any) -> None:
    page = opened(
        training.explorer(),
        training.explorer(answer=training.adder),
        dynamics.explorer(classify=dynamics.classify),
        alignment.explorer(translate=alignment.translate),
        generation.explorer(),
        GenerationExplorer.live(torch.nn.Identity(), None),
    )
    assert page.locator("textarea:visible, form:visible").count() == 0
    notes = page.locator("section.attnx").all_inner_texts()
    assert ["typed here" in note for note in notes] == [False, True, True, True, False, True]


# ---- tokens are text


def hostile_attention() -> Any:
    example = {"tokens": HOSTILE, "attentions": widgets.attention(1, 2, 6, 6)}
    examples = {HOSTILE[0]: example, HOSTILE[4]: example}
    return AttentionExplorer.from_examples(examples, title=HOSTILE[0], query=0)


def hostile_generation() -> Any:
    whole = generation.parts(prompt_words=HOSTILE, generated_words=HOSTILE[:4])
    return GenerationExplorer.from_examples({HOSTILE[0]: whole, HOSTILE[4]: whole}, title=HOSTILE[0])


def hostile_training() -> Any:
    parts = training.problem(tokens=HOSTILE[:5], answers=HOSTILE[:5], expected=HOSTILE[0])
    problems = {HOSTILE[0]: parts, HOSTILE[4]: parts}
    return training.explorer(problems, {HOSTILE[1]: training.EXACT}, title=HOSTILE[0])


def hostile_dynamics() -> Any:
    parts = dynamics.document(tokens=[*HOSTILE, "x", "y"], predicted=HOSTILE[:5], gold=HOSTILE[0])
    return dynamics.explorer({HOSTILE[0]: parts, HOSTILE[4]: parts}, title=HOSTILE[0])


def hostile_alignment() -> Any:
    parts = alignment.sentence(source=HOSTILE[:5], targets=[HOSTILE[:4]] * 3, written=HOSTILE[:3], truth=None)
    return alignment.explorer({HOSTILE[0]: parts, HOSTILE[4]: parts}, title=HOSTILE[0])


def hostile_measure() -> Any:
    parts = {"tokens": HOSTILE, "scores": {HOSTILE[0]: torch.rand(6)}, "missing": {HOSTILE[3]: HOSTILE[1]}}
    return MeasureExplorer({HOSTILE[2]: measure.question(**parts)}, title=HOSTILE[0])


@pytest.mark.parametrize(
    ("made", "pointed", "where", "texts"),
    [
        (hostile_attention, widgets.OVERLAY, "button.attnx-token", HOSTILE),
        (hostile_generation, ":nth-match(.attnx-overlay, 2)", ".attng-word[data-k]", HOSTILE),
        (hostile_training, widgets.OVERLAY, ".attnt-text, .attnt-name", [HOSTILE[4], HOSTILE[1]]),
        (hostile_dynamics, "[data-token='4']", ".attnd-row:first-child .attnd-token", [*HOSTILE, "x", "y"]),
        (hostile_alignment, widgets.OVERLAY, ".attnt-text", HOSTILE[2:3]),
        (hostile_measure, "[data-token='4']", ".attnm-side:first-child .attnm-token", HOSTILE),
    ],
)
def test_everything_is_shown_as_text(opened: Any, made: Any, pointed: str, where: str, texts: Any) -> None:
    page = opened(made())
    page.locator(pointed).first.hover()
    page.locator("summary").click()
    assert sorted(page.locator(where).all_inner_texts()) == sorted(text.replace(" ", "␣") for text in texts)
    assert page.locator(".attnx-title").inner_text() == HOSTILE[0]
    assert page.locator(".attnx img, .attnx script").count() == 0


# ---- the page around


def long_attention(count: int) -> Any:
    return AttentionExplorer([f" token{i}" for i in range(count)], widgets.attention(4, 8, count, count))


def long_generation(count: int) -> Any:
    words = [f" word{i}" for i in range(count - 1)] + ["x" * 200]
    new = [" new"] * 40 + ["y" * 200]
    return GenerationExplorer(words, new, generation.matrix(41, count, 4))


def long_training(count: int) -> Any:
    tokens, answers = [f"token{i}" for i in range(count)], ["1" * 90] * 5
    long = training.problem(tokens=tokens, attentions=training.attention(5, 3, 8, count), answers=answers)
    return training.explorer({"x" * 90: long}, {"a curve with a long name " * 3: training.EXACT})


def long_dynamics(count: int) -> Any:
    tokens = [f"word{i}" for i in range(count - 1)] + ["x" * 200]
    parts = {"tokens": tokens, "scores": explorers.scores(5, count), "true_relevance": None}
    parts = dynamics.document(predicted=["p" * 80] * 5, **parts)
    return dynamics.explorer({"d" * 90: parts, "e": parts})


def long_alignment(count: int) -> Any:
    tokens = [f"token{i}" for i in range(count)]
    parts = {"source": tokens, "targets": [tokens] * 3, "scores": alignment.scores(3, count, count)}
    return alignment.explorer({"x" * 90: alignment.sentence(written=["w" * 200] * 3, truth=None, **parts)})


def long_measure(count: int) -> Any:
    words = [f" word{i}" for i in range(count - 1)] + ["x" * 200]
    parts = {"tokens": words, "scores": {"rollout": torch.rand(count)}, "truth": None, "candidates": None}
    return MeasureExplorer({"q" * 90: measure.question(**parts)})


@pytest.mark.parametrize(
    ("made", "count", "pointed"),
    [
        (long_attention, 8, widgets.OVERLAY),
        (long_attention, 60, widgets.OVERLAY),
        (long_generation, 6, ":nth-match(.attnx-overlay, 2)"),
        (long_generation, 300, ":nth-match(.attnx-overlay, 2)"),
        (long_training, 30, training.CHART),
        (long_dynamics, 8, "[data-token='3']"),
        (long_dynamics, 300, "[data-token='3']"),
        (long_alignment, 30, widgets.OVERLAY),
        (long_measure, 60, "[data-token='3']"),
        (program.long, 12, "[data-at='3']"),
    ],
)
def test_a_narrow_screen_is_not_overflowed(opened: Any, made: Any, count: int, pointed: str) -> None:
    page = opened(made(count), width=400)
    assert not page.evaluate(OVERFLOWED)
    page.locator(pointed).first.hover(position={"x": 12, "y": 8})
    assert not page.evaluate(OVERFLOWED)


@dataclass(frozen=True)
class Shown:
    """Explorers on a page, texts of theirs that must be legible, and a picture."""

    made: Callable[[], Sequence[Any]]
    texts: tuple[str, ...]
    picture: str


VERDICTS = (".attnt-verdict >> nth=0", ".attnt-verdict >> nth=1")  # wrong, right
IN_THE_DARK = {
    "attention": Shown(
        lambda: [widgets.explorer(query=0)],
        (".attnx-title, .attnx-readout", ".attnx-caption", "summary", ".attnx-ticks span"),
        widgets.MAP,
    ),
    "generation": Shown(
        lambda: [generation.explorer(title="T")],
        (".attnx-title", ".attnx-readout", ".attng-place", ".attng-hidden", "button.attng-word"),
        generation.ALL_MAP,
    ),
    "training": Shown(
        lambda: [training.explorer(checkpoint=3), training.explorer(checkpoint=4)],
        (".attnt-step", ".attnt-name", ".attnt-verdicts", ".attnt-answer p", *VERDICTS),
        training.CHART,
    ),
    "dynamics": Shown(
        lambda: [dynamics.explorer()],
        (".attnd-who", ".attnd-end", ".attnd-name", ".attnd-text"),
        ".attnd-curve",
    ),
    "alignment": Shown(lambda: [alignment.explorer()], (".attna-name", ".attnx-readout"), MAP),
}


@pytest.mark.parametrize("name", IN_THE_DARK)
def test_it_follows_the_page_into_the_dark_and_stays_legible(opened: Any, name: str) -> None:
    shown = IN_THE_DARK[name]
    page = opened(*shown.made())
    pictures = set()
    for mode in ("light", "dark"):
        page.emulate_media(color_scheme=mode)
        page.locator(f".attnx[data-mode={mode}]").first.wait_for()
        for selector in shown.texts:
            assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5, (mode, selector)
        now = becomes(page, lambda: canvas_hash(page, shown.picture), lambda now: now not in pictures)
        pictures.add(now)
    assert len(pictures) == 2


def generation_moves(page: Page) -> Iterator[None]:
    for g in range(4):
        for pointed in (f"[data-g='{g}']", "[data-k='2']"):
            yield page.locator(pointed).first.hover()


def training_moves(page: Page) -> Iterator[None]:
    for checkpoint in range(5):
        yield slide(page, checkpoint)


def dynamics_moves(page: Page) -> Iterator[None]:
    for checkpoint in range(5):
        slide(page, checkpoint)
        yield dynamics.token(page, 0, checkpoint).hover()


def alignment_moves(page: Page) -> Iterator[None]:
    for checkpoint in range(3):
        slide(page, checkpoint)
        yield alignment.point(page, 0, checkpoint, checkpoint)


@pytest.mark.parametrize(
    ("made", "moves"),
    [
        (generation.explorer, generation_moves),
        (lambda: training.explorer(query=1), training_moves),
        (dynamics.explorer, dynamics_moves),
        (alignment.explorer, alignment_moves),
    ],
)
def test_scrubbing_and_hovering_move_nothing(opened: Any, made: Any, moves: Any) -> None:
    page = opened(made())
    assert len({page.locator(".attnx").bounding_box()["height"] for _ in moves(page)}) == 1
