"""Maps of many tokens and of many heads: seen as a whole, in part, and without work that nobody sees."""

import re

import pytest
import torch

from attnlib.widgets import AttentionExplorer
from tests.browser import becomes, canvas_hash, drawn, readout

pytestmark = pytest.mark.book

MAP = ".attnx-map"


def test_a_long_map_is_a_window_below_a_picture_of_the_whole(opened) -> None:
    """Moved by the pointer, by scrolling and by keys; its cells grow and shrink."""
    n, generator = 187, torch.Generator().manual_seed(0)
    weights = torch.softmax(3 * torch.randn(1, 1, n, n, generator=generator), -1)
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], weights), width=500)
    whole, stage = page.locator(".attnx-overview"), page.locator(".attnx-stage")

    def pointed() -> tuple[int, int, float]:
        """The cell in the frame's middle, and the weight that is said of it."""
        box = stage.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        said = page.locator(".attnx-panels .attnx-tip").inner_text()
        query, key, weight = re.fullmatch(r"query 't(\d+)' .* key 't(\d+)' .*: ([\d.<]+)", said).groups()
        return int(query), int(key), float(weight.strip("<"))

    top = pointed()
    box = whole.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    drawn(page)  # how far it is scrolled is told with the next frame
    query, key, weight = pointed()
    assert abs(key - n / 2) < 12 and abs(query - n / 2) < 12 and (query, key) != top[:2]
    assert abs(weight - weights[0, 0, query, key]) < 0.01
    before = canvas_hash(page, MAP)
    stage.focus()
    page.keyboard.press("+")
    assert canvas_hash(page, MAP) != before
    closer = pointed()
    assert abs(closer[0] - query) < 4 and abs(closer[1] - key) < 4, "the middle stays"
    page.keyboard.press("-")
    page.get_by_role("button", name="Smaller cells").click()
    window = page.locator(".attnx-window")
    width = window.bounding_box()["width"]
    page.get_by_role("button", name="Larger cells").click()
    assert window.bounding_box()["width"] < width
    page.keyboard.press("End")  # of the button, not of the map
    stage.focus()
    page.keyboard.press("End")
    assert "'t186' (186)" in readout(page) and stage.evaluate("node => node.scrollTop") > 1000


def test_of_five_hundred_heads_those_with_pictures_are_named(opened) -> None:
    weights = torch.rand(20, 25, 3, 3) / 3
    page = opened(AttentionExplorer(list("abc"), weights, layer=19, head=24))
    caption, pictures = page.locator(".attnx-caption").first, page.locator(".attnx-thumb")
    assert caption.inner_text() == "Heads of layers 16 to 19, of 20" and pictures.count() == 4 * 26
    before = canvas_hash(page, MAP)
    page.get_by_label("Layer", exact=True).select_option("2")
    assert caption.inner_text() == "Heads of layers 0 to 3, of 20" and canvas_hash(page, MAP) != before
    pressed, wanted = page.locator(".attnx-thumb[aria-pressed=true]"), "layer 2, head 24"
    assert becomes(page, lambda: pressed.get_attribute("title"), wanted.__eq__) == wanted


COUNTED = """() => {
  const make = CanvasRenderingContext2D.prototype.createImageData;
  Object.assign(window, { coloured: 0, words: 0, bytes: 0 });
  CanvasRenderingContext2D.prototype.createImageData = function (wide, high) {
    coloured += wide * high;
    return make.call(this, wide, high);
  };
  new MutationObserver((changes) => {
    const added = changes.flatMap(({ addedNodes }) => [...addedNodes]);
    words += added.filter((node) => node.dataset?.token).length;
  }).observe(document.body, { childList: true, subtree: true });
  window.Uint8Array = new Proxy(Uint8Array, { construct: (kind, given) => {
    const made = Reflect.construct(kind, given);
    bytes += typeof given[0] === "number" ? made.length : 0;
    return made;
  } });
}"""
"""Counts cells that are coloured, tokens that are written, and bytes that are made, from now on."""


def test_of_a_large_map_only_what_is_seen_is_coloured(opened) -> None:
    n, generator = 600, torch.Generator().manual_seed(0)
    weights = torch.softmax(3 * torch.randn(2, 2, n, n, generator=generator), -1)
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], weights, layer=0), width=500)
    before = canvas_hash(page, MAP)
    page.evaluate(COUNTED)
    page.get_by_label("Layer", exact=True).select_option("1")
    assert canvas_hash(page, MAP) != before and 0 < page.evaluate("coloured") < n * n / 3
    page.get_by_label("How attention is drawn").select_option("lines")
    drawing, lines = page.locator(".attnx-drawn"), page.locator(".attnx-lines")
    assert drawing.evaluate("canvas => canvas.height") <= lines.evaluate("node => node.clientHeight")
    before = canvas_hash(page, ".attnx-drawn")
    lines.evaluate("node => { node.scrollTop = node.scrollHeight; }")
    drawn(page)
    assert canvas_hash(page, ".attnx-drawn") != before
    drawing.hover(position={"x": 30, "y": drawing.bounding_box()["height"] - 5})
    assert f"'t{n - 1}' ({n - 1})" in readout(page), "what is pointed at is the row that is seen there"


def test_small_pictures_of_large_maps_come_behind_the_map_and_are_the_same(opened) -> None:
    n = 700
    weights = torch.softmax(3 * torch.randn(1, 2, n, n, generator=torch.Generator().manual_seed(0)), -1)
    tokens, some = [f"t{i}" for i in range(n)], torch.zeros(n, n).bool()
    some[::7, 0] = True
    picture = ".attnx-thumb:last-child canvas"
    seen = []
    for rows in (False, True):
        page = opened(AttentionExplorer(tokens, weights, references=some, head=1, reference_rows=rows))
        page.wait_for_function(f"document.querySelector('{picture}').width > 0")
        seen.append(canvas_hash(page, picture))
    wanted, first = seen
    at_once = page.evaluate(
        """([map, picture]) => {
             const seen = () => [map, picture].map((each) => document.querySelector(each).toDataURL());
             const before = seen();
             document.querySelector("[title^='Show only the queries'] input").click();
             return seen().map((each, i) => each === before[i]);
           }""",
        [MAP, picture],
    )
    assert at_once == [False, True]
    assert becomes(page, lambda: canvas_hash(page, picture), lambda now: now != first) == wanted


def test_a_head_among_many_tokens_is_seen_in_its_small_picture(opened) -> None:
    """Of the cells that share a pixel, the strongest is shown: a mean would hide a diagonal."""
    n = 600
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], torch.eye(n)[None, None]))
    darkest = page.locator(".attnx-thumb canvas").last.evaluate(
        """canvas => Math.min(...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
             .filter((_, i) => i % 4 === 0))"""
    )
    assert darkest < 150


def test_what_was_unpacked_once_is_there_when_the_reader_comes_back(opened) -> None:
    examples = {
        name: {"tokens": list("abcd"), "attentions": torch.rand(2, 8, 4, 4) / 4} for name in ("one", "other")
    }
    page = opened(AttentionExplorer.from_examples(examples))
    first, choice = canvas_hash(page, MAP), page.get_by_label("Example", exact=True)
    page.evaluate(COUNTED)
    choice.select_option("1")
    assert canvas_hash(page, MAP) != first and page.evaluate("bytes") >= 2 * 8 * 4 * 4
    page.evaluate("() => { bytes = 0; }")
    choice.select_option("0")
    assert canvas_hash(page, MAP) == first and page.evaluate("bytes") == 0
