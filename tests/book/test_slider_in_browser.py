"""The slider that moves attention: tiles, score and curve are torch's numbers, by pointer and by keyboard."""

from pathlib import Path

import axe_playwright_python
import pytest
import torch

from attnlib.models.attention import reinforced
from attnlib.models.stored import stored_model
from attnlib.widgets import ModelExplorer
from book.chapters.reasoning.figures import TEXTS, redirecting
from tests.book.test_model_explorer_in_browser import REVERSES
from tests.browser import canvas_hash

pytestmark = pytest.mark.book

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
CURVE = ".attnp-curve canvas"


def score(page):
    return int(page.locator(".attnp-score").inner_text().partition(" of ")[0])


def tiles(page):
    return page.locator(".attnp-tile").all_inner_texts()


@torch.no_grad()
def written(text, strength):
    """The letters that the model writes, by torch, with so much of all heads on the reference; "end" ends."""
    kept = stored_model("algorithmic_reasoning", REVERSES)
    sample = kept.task.annotate(f"{text}={text[::-1]}")
    heads = [(layer, head) for layer in range(2) for head in range(4)]
    with reinforced(kept.model, heads, sample.reference[None], strength):
        logits = kept.model(sample.input_ids[None]).logits[0]
    found = kept.task.tokenizer.convert_ids_to_tokens(logits[len(text) + 1 : -1].argmax(-1).tolist())
    return ["end" if each == "<eos>" else each for each in found]


def right(text, strength):
    return sum(map(str.__eq__, written(text, strength), text[::-1]))


def test_a_slide_moves_tiles_score_and_point_as_torch_has_them(opened):
    text, (page, slider) = TEXTS[0], at_slider(opened)
    assert len(text) == 21 and right(text, 0.0) <= 2 and right(text, 1.0) == 21
    drawn = set()
    for percent in (0, 45, 100):
        slider.fill(str(percent))
        assert tiles(page) == written(text, percent / 100)
        assert score(page) == right(text, percent / 100)
        assert slider.get_attribute("aria-valuetext") == f"{percent} %: {score(page)} of 21 letters right"
        drawn.add(canvas_hash(page, CURVE))
    assert len(drawn) == 3
    places = (0, 0.25, 0.5, 0.75, 1)
    shares = [f"{100 * right(text, at) / 21:.0f} % right at {100 * at:.0f} %" for at in places]
    assert page.locator(".attnp-curve").get_attribute("aria-label").endswith(f"moved: {', '.join(shares)}.")


def test_a_tile_is_the_redder_the_less_sure_the_model_is_of_the_right_letter(opened):
    page, slider = at_slider(opened)
    slider.fill("45")
    titles = page.locator(".attnp-tiles li").evaluate_all("all => all.map((each) => each.title)")
    sure = [float(title.rpartition(" ")[2]) for title in titles]
    colours = page.locator(".attnp-tile").evaluate_all("all => all.map((each) => each.style.backgroundColor)")
    red = [int(colour[4:].partition(",")[0]) for colour in colours]
    assert max(sure) - min(sure) > 0.8
    ordered = sorted(zip(sure, red, strict=True))
    assert ordered[0][1] == max(red) and ordered[-1][1] == min(red)


def test_the_keyboard_moves_it_and_the_address_keeps_where_it_is(opened):
    page, slider = at_slider(opened)
    before, drawn = score(page), canvas_hash(page, CURVE)
    slider.focus()
    page.keyboard.press("End")
    assert score(page) == 21 > before and canvas_hash(page, CURVE) != drawn
    page.keyboard.press("ArrowLeft")
    assert slider.input_value() == "95" and score(page) == right(TEXTS[0], 0.95)
    page.keyboard.press("Home")
    assert score(page) == before and canvas_hash(page, CURVE) == drawn
    slider.fill("60")
    page.wait_for_function("location.hash.includes('strength=0.6')")
    page.reload()
    assert slider.input_value() == "60" and score(page) == right(TEXTS[0], 0.6)


def test_all_else_is_folded_and_what_is_typed_there_is_what_the_tiles_write(opened):
    page, slider = at_slider(opened)
    assert page.get_by_role("slider").count() == 1 and not page.get_by_role("textbox").count()
    assert not page.locator(".attnx-map").is_visible()
    page.locator(".attnp-more > summary").click()
    box = page.get_by_role("textbox")
    page.locator(".attnx-map").wait_for()  # the fold opens after the click
    assert page.get_by_role("slider").count() == 1
    slider.fill("50")
    box.fill("abcdefghijklmnop")
    assert tiles(page) == written("abcdefghijklmnop", 0.5)
    page.get_by_role("button", name="as trained").click()
    assert tiles(page) == written("abcdefghijklmnop", 0.0) and slider.input_value() == "0"
    slider.fill("100")
    assert tiles(page) == written("abcdefghijklmnop", 1.0)


@pytest.mark.parametrize(("dark", "width"), [(False, 1400), (True, 400)])
def test_every_tile_is_in_sight_and_axe_finds_nothing(opened, dark, width):
    page, slider = at_slider(opened, dark=dark, width=width)
    slider.fill("45")
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    edge = "all => all.map((each) => each.getBoundingClientRect().right)"
    edges = page.locator(".attnp-tile").evaluate_all(edge)
    assert len(edges) == 21 and max(edges) < width
    page.evaluate(AXE)
    found = page.evaluate(
        """() => axe.run(".attnx").then(({ violations }) =>
             violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]))"""
    )
    assert found == []


def at_slider(opened, **settings):
    page = opened(ModelExplorer(**redirecting()), **settings)
    return page, page.locator(".attnp-slider")
