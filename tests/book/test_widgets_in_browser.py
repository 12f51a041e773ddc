"""The explorers in Chromium, with the network off: what is drawn, said and saved."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from attnlib.widgets import AttentionExplorer
from tests.browser import agrees, becomes, canvas_hash, downloaded, readout

pytestmark = pytest.mark.book

LETTERS = list("abcdefgh")
MAP, OVERLAY = ".attnx-map", ".attnx-overlay"


def attention(layers=2, heads=3, queries=8, keys=8):
    generator = torch.Generator().manual_seed(1)
    return torch.softmax(2 * torch.randn(layers, heads, queries, keys, generator=generator), dim=-1)


def explorer(**settings):
    settings = {"references": {(0, 1): torch.eye(8).flip(0).bool()}, "head": 1} | settings
    return AttentionExplorer(LETTERS, attention(), **settings)


def tip(page, q, k, of=8):
    """What is said of the cell that is pointed at, and the weight in it."""
    cell = page.locator(OVERLAY).bounding_box()["width"] / of
    page.locator(OVERLAY).hover(position={"x": (k + 0.5) * cell, "y": (q + 0.5) * cell})
    return page.locator(".attnx-panels .attnx-tip").inner_text().rsplit(": ", 1)


# ---- the picture


def test_every_layer_head_and_mean_has_its_own_picture(opened):
    page = opened(explorer())
    pictures = []
    for layer in ("0", "1"):
        page.get_by_label("Layer", exact=True).select_option(layer)
        for head in ("-1", "0", "1", "2"):
            page.get_by_label("Head", exact=True).select_option(head)
            pictures.append(canvas_hash(page, MAP))
    assert len(set(pictures)) == len(pictures)
    page.get_by_label("Layer", exact=True).select_option("0")
    page.get_by_label("Head", exact=True).select_option("1")
    assert canvas_hash(page, MAP) == pictures[2]


def test_colours_grow_with_the_weight(opened):
    weights = torch.linspace(0, 1, 8)[None, None, None].expand(1, 1, 8, 8)
    page = opened(AttentionExplorer(LETTERS, weights))
    lightness = page.locator(MAP).evaluate(
        """(canvas) => { const step = canvas.width / 8, pen = canvas.getContext("2d");
           return [...Array(8).keys()].map((k) => pen.getImageData((k + 0.5) * step, step / 2, 1, 1).data)
             .map(([red, green, blue]) => red + green + blue); }"""
    )
    assert lightness[0] == 3 * 255  # an exact zero is blank
    assert lightness == sorted(set(lightness), reverse=True)


def test_the_reference_can_be_hidden_and_is_absent_where_there_is_none(opened):
    page = opened(explorer())
    outlined = canvas_hash(page, MAP)
    page.get_by_label("reference", exact=True).click()
    plain = canvas_hash(page, MAP)
    assert plain != outlined
    page.get_by_label("reference", exact=True).click()
    assert canvas_hash(page, MAP) == outlined
    page.get_by_label("Head", exact=True).select_option("0")
    without = canvas_hash(page, MAP)
    page.get_by_label("reference", exact=True).click()
    assert canvas_hash(page, MAP) == without


def test_the_reference_is_drawn_around_its_cells(opened):
    page = opened(AttentionExplorer(LETTERS, torch.zeros(1, 1, 8, 8), references=torch.eye(8).bool()))
    orange = page.locator(MAP).evaluate(
        """(canvas) => { const step = canvas.width / 8, pen = canvas.getContext("2d");
           return [...Array(64).keys()].map((i) => { const [q, k] = [Math.floor(i / 8), i % 8];
             const edge = pen.getImageData(k * step + step / 4, Math.max(q * step - 1, 0), step / 2, 3).data;
             return edge[0] > 200 && edge[2] < 90; }); }"""
    )
    top_edges = np.eye(8, dtype=bool)
    top_edges[1:] |= np.eye(8, dtype=bool)[:-1]  # the lower edge of one cell is the upper of the next
    assert (np.array(orange).reshape(8, 8) == top_edges).all()


def test_every_head_has_its_own_reference(opened):
    """Five keys: a reference does not end with a byte."""
    weights = torch.stack([torch.eye(5).roll(shift, dims=1) for shift in range(3)])[None]
    references = {(0, head): weights[0, head] > 0 for head in range(3)}
    page = opened(AttentionExplorer(list("abcde"), weights, references=references, query=4))
    for head in range(3):
        page.get_by_label("Head", exact=True).select_option(str(head))
        said = readout(page)
        assert f"({(4 + head) % 5}) 1.00; 100 % of the row on its reference" in said


def test_rows_without_a_reference_can_be_left_out(opened):
    """The last three of eight queries have one, each in another head."""
    weights, references = attention(1, 3), {}
    for head in range(3):
        mask = torch.zeros(8, 8, dtype=torch.bool)
        mask[5 + head, head] = True
        references[0, head] = mask
    page = opened(AttentionExplorer(LETTERS, weights, references=references, head=1, query=6))
    readout, rows = page.locator(".attnx-readout"), page.get_by_label("its rows only")
    said = readout.inner_text()
    assert said.startswith("Query 'g' (6)") and "% of the row on its reference" in said
    rows.check()
    assert readout.inner_text() == said
    assert "3 queries by 8 keys" in page.locator(".attnx-stage").get_attribute("aria-label")
    tokens = page.locator(".attnx-strip").first.locator(".attnx-token")
    assert tokens.all_inner_texts() == LETTERS[5:]
    tokens.last.click()
    assert readout.inner_text().startswith("Query 'h' (7)")
    page.get_by_label("Head", exact=True).select_option("2")
    said = readout.inner_text()
    assert "% of the row on its reference" in said
    rows.uncheck()
    assert readout.inner_text() == said and tokens.count() == 8
    tokens.first.click()
    rows.check()  # a row that is no longer there
    assert readout.inner_text().startswith("Point at")
    rows.uncheck()
    assert readout.inner_text().startswith("Query 'a' (0)")


def test_lines_between_tokens_can_stand_in_the_place_of_the_map(opened):
    page = opened(explorer(query=-1))
    form, drawn = page.get_by_label("How attention is drawn"), page.locator(".attnx-drawn")
    assert drawn.is_hidden()
    form.select_option("lines")
    assert page.locator(".attnx-stage").is_hidden() and drawn.is_visible()
    pictures = [canvas_hash(page, ".attnx-drawn")]  # of all rows
    box = drawn.bounding_box()
    for query in (2, 5):
        page.mouse.move(box["x"] + 20, box["y"] + box["height"] * (query + 0.5) / 8)
        assert readout(page).startswith(f"Query '{LETTERS[query]}' ({query})")
        pictures.append(canvas_hash(page, ".attnx-drawn"))
    page.mouse.click(box["x"] + 20, box["y"] + box["height"] * 5.5 / 8)
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 5)  # keys are not asked; the chosen row stays
    assert canvas_hash(page, ".attnx-drawn") == pictures[-1]
    page.get_by_label("reference", exact=True).click()  # the outline of its reference goes
    pictures.append(canvas_hash(page, ".attnx-drawn"))
    page.get_by_label("Head", exact=True).select_option("2")
    pictures.append(canvas_hash(page, ".attnx-drawn"))
    assert len(set(pictures)) == len(pictures)
    form.select_option("map")
    assert drawn.is_hidden() and page.locator(".attnx-stage").is_visible()


def test_the_scale_can_end_at_the_largest_weight(opened):
    page = opened(AttentionExplorer(LETTERS, attention() / 4))
    before = canvas_hash(page, MAP)
    assert page.locator(".attnx-ticks span").last.inner_text() == "1"
    page.get_by_label("What the strongest colour stands for").select_option("shown")
    assert canvas_hash(page, MAP) != before
    assert float(page.locator(".attnx-ticks span").last.inner_text()) == pytest.approx(
        attention()[0, 0].max().item() / 4, abs=0.006
    )


# ---- hover and keyboard


def test_a_hover_shows_the_true_weight_of_every_cell_it_is_over(opened):
    page = opened(explorer(title="T"))
    before, truth = canvas_hash(page, OVERLAY), attention()[0, 1]
    for q, k in [(0, 0), (3, 1), (7, 7), (2, 5), (6, 4)]:
        cell, weight = tip(page, q, k)
        assert cell == f"query '{LETTERS[q]}' ({q}) → key '{LETTERS[k]}' ({k})"
        assert agrees(weight, truth[q, k])
        assert canvas_hash(page, OVERLAY) != before
    page.locator(".attnx-title").hover()
    assert page.locator(".attnx-tip").is_hidden()
    assert canvas_hash(page, OVERLAY) == before
    page.get_by_label("Head", exact=True).select_option("-1")
    assert agrees(tip(page, 4, 2)[1], attention()[0].mean(0)[4, 2])


def test_a_hover_names_the_largest_keys_and_the_share_on_the_reference(opened):
    page = opened(explorer())
    tip(page, 2, 2)
    row = attention()[0, 1, 2]
    said = readout(page)
    largest = row.argsort(descending=True)[:3].tolist()
    assert [int(k) for k in re.findall(r"\((\d)\)", said)] == [2, *largest, 2]  # and the key pointed at
    assert abs(int(re.search(r"(\d+) % of the row", said)[1]) - 100 * row[5].item()) <= 2


# How many heat maps are drawn while the pointer visits nodes: what a hover costs, on any machine.
DRAWN = """(nodes, type) => {
  let drawn = 0;
  const own = CanvasRenderingContext2D.prototype, { putImageData } = own;
  own.putImageData = function (...all) { drawn += 1; putImageData.apply(this, all); };
  for (const node of nodes) {
    const { x, y, width, height } = node.getBoundingClientRect();
    const middle = { clientX: x + width / 2, clientY: y + height / 2 };
    node.dispatchEvent(new PointerEvent(type, { bubbles: true, ...middle }));
  }
  own.putImageData = putImageData;
  return drawn;
}"""


def test_hovering_draws_no_heat_map_again(opened):
    page = opened(AttentionExplorer(["token"] * 20, attention(2, 3, 20, 20)))
    before = canvas_hash(page, OVERLAY)
    assert page.locator(OVERLAY).evaluate_all(DRAWN, "pointermove") == 0
    assert canvas_hash(page, OVERLAY) != before


def test_the_arrow_keys_choose_a_row_and_a_key_and_say_so(opened):
    page = opened(explorer())
    live, before = page.locator("[aria-live]"), canvas_hash(page, OVERLAY)
    page.locator(".attnx-stage").focus()
    page.keyboard.press("ArrowDown")
    first = canvas_hash(page, OVERLAY)
    assert first != before
    assert live.inner_text().startswith("Layer 0, head 1. Query 'a' (0) looks most at ")
    page.keyboard.press("ArrowDown")
    assert canvas_hash(page, OVERLAY) != first
    assert "Query 'b' (1)" in live.inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "Query 'b' (1) → key 'b' (1): " in live.inner_text()
    page.keyboard.press("PageDown")
    assert live.inner_text().startswith("Layer 0, head 2. ")
    page.keyboard.press("End")
    assert "Query 'h' (7)" in live.inner_text()
    page.keyboard.press("Escape")
    assert "No query selected" in live.inner_text()
    assert canvas_hash(page, OVERLAY) == before


def test_tokens_can_be_pointed_at_chosen_and_walked_through(opened):
    page = opened(explorer())
    tokens = page.locator("button.attnx-token")
    assert tokens.nth(3).get_attribute("style") in (None, "")
    tokens.nth(2).hover()
    assert "background-color" in tokens.nth(3).get_attribute("style")
    assert readout(page).startswith("Query 'c' (2)")
    tokens.nth(2).click()
    page.keyboard.press("ArrowRight")
    assert page.locator("[aria-live]").inner_text().startswith("Layer 0, head 1. Query 'd' (3)")
    assert tokens.nth(3).get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.dataset.query") == "3"


def test_the_small_pictures_choose_a_head_by_mouse_and_by_keys(opened):
    page = opened(explorer())
    before = canvas_hash(page, MAP)
    page.get_by_role("button", name="layer 1, head 2").click()
    assert canvas_hash(page, MAP) != before
    assert page.get_by_label("Layer", exact=True).input_value() == "1"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert canvas_hash(page, MAP) == before
    assert page.evaluate("document.activeElement.title") == "layer 0, head 1"


def test_the_table_lists_every_query_of_the_head_shown(opened):
    page = opened(explorer())
    page.locator("summary").click()
    rows = page.locator(".attnx tbody tr")
    rows.first.wait_for()
    assert rows.count() == 8
    for head in (1, 2):
        page.get_by_label("Head", exact=True).select_option(str(head))
        assert f"({attention()[0, head, 0].argmax().item()})" in rows.first.locator("td").first.inner_text()


# ---- tokens are text


def test_tokens_that_cannot_be_seen_are_made_visible(opened):
    page = opened(AttentionExplorer([" the", "\n", "\t", "", "\u200b"], attention(1, 1, 5, 5)))
    assert page.locator("button.attnx-token").all_inner_texts() == ["␣the", "⏎", "⇥", "∅", "U+200B"]


# ---- several widgets, several examples


def test_equal_widgets_on_a_page_are_drawn_and_turned_independently(opened):
    page = opened(explorer(), explorer(), explorer(layer=1))
    count = "places => places.map((place) => place.childElementCount)"
    places = page.locator("[data-attnlib]").evaluate_all(count)
    assert places == [1, 1, 1]
    hashes = [canvas_hash(page, f":nth-match({MAP}, {i})") for i in (1, 2, 3)]
    assert hashes[0] == hashes[1] != hashes[2]
    page.get_by_label("Head", exact=True).nth(1).select_option("0")
    after = [canvas_hash(page, f":nth-match({MAP}, {i})") for i in (1, 2, 3)]
    assert after[0] == hashes[0] and after[2] == hashes[2] and after[1] != hashes[1]


def test_examples_are_switched_and_a_smaller_one_stays_inside(opened):
    small = attention(1, 2, 3, 5)
    examples = {
        "large": {"tokens": LETTERS, "attentions": attention(), "references": torch.eye(8).bool()},
        "small": {"tokens": list("vwxyz"), "attentions": small, "query_tokens": list("123")},
    }
    page = opened(AttentionExplorer.from_examples(examples, layer=1, head=2, query=7))
    before = canvas_hash(page, MAP)
    page.get_by_label("Example", exact=True).select_option("small")
    assert canvas_hash(page, MAP) != before
    assert page.get_by_label("Head", exact=True).input_value() == "1"
    assert all(each.is_hidden() for each in page.locator(".attnx-check").all())
    cell, weight = tip(page, 2, 4, of=5)
    assert cell == "query '3' (2) → key 'z' (4)" and agrees(weight, small[0, 1, 2, 4])
    page.get_by_label("Example", exact=True).select_option("large")
    assert canvas_hash(page, MAP) == before


# ---- the page around it


def test_two_hundred_tokens_scroll_within_their_frame(opened):
    page = opened(AttentionExplorer(["t"] * 200, attention(1, 1, 200, 200)), width=700)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".attnx-stage").focus()
    page.keyboard.press("End")
    box, stage = page.locator(MAP).bounding_box(), page.locator(".attnx-stage").bounding_box()
    assert abs(box["y"] + box["height"] - stage["y"] - stage["height"]) < 20  # the last row is in view


def test_the_books_light_panel_on_a_dark_page_makes_it_light(opened):
    panel = f'<div style="background: #ced6dd; padding: 1em">{explorer().to_html()}</div>'
    assert opened(panel, dark=True).locator(".attnx").get_attribute("data-mode") == "light"


def test_what_is_hidden_at_first_is_drawn_when_shown(opened):
    page = opened(f"<details><summary>more</summary>{explorer().to_html()}</details>", explorer())
    page.get_by_text("more").click()
    shown = canvas_hash(page, f":nth-match({MAP}, 2)")
    assert becomes(page, lambda: canvas_hash(page, MAP), lambda now: now == shown) == shown


def test_the_heat_map_is_saved_as_svg_and_png(opened, tmp_path):
    page = opened(explorer(title='<T> & "x"'))
    assert downloaded(page, "as SVG", tmp_path / "map.svg") == "T-x-layer-0-head-1.svg"
    svg = ElementTree.parse(tmp_path / "map.svg").getroot()
    texts = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == '<T> & "x": layer 0, head 1' and [t for t in texts if t in LETTERS] == LETTERS * 3
    paths = [node.attrib["d"] for node in svg.iter("{http://www.w3.org/2000/svg}path")]
    assert sum(path.count("M") for path in paths if path.endswith("z")) >= 64
    downloaded(page, "as PNG", tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_page_hears_of_its_own_keys_and_of_no_others(opened):
    page = opened(explorer())
    page.evaluate(
        "() => { window.heard = []; addEventListener('keydown', (event) => heard.push(event.key)); }"
    )
    page.locator(".attnx-stage").first.focus()
    for keys in ("ArrowDown", "j", "Enter", "Control+Enter", "Control+k", "Meta+k", "Alt+j"):
        page.keyboard.press(keys)
    heard = [key for key in page.evaluate("heard") if key not in ("Control", "Meta", "Alt")]
    assert heard == ["k", "k", "j"]
