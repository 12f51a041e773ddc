"""The explorer of generation in Chromium, with the network off: what is drawn, said, saved and asked for."""

import base64
import itertools
import re
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import tests.book.test_widgets_in_browser as widgets
from attnlib.widgets import GenerationExplorer
from attnlib.widgets.generation_explorer import deflate, stored
from tests.browser import agrees, becomes, canvas_hash, connect, downloaded, readout, tints

pytestmark = pytest.mark.book

PROMPT = ["<s>", " The", " sky", " over", " Rome", ","]
NEW = [" is", " blue", ".", "\n"]
HIDDEN = [0, 1, 5]
TOKEN_MAP, ALL_MAP = ":nth-match(.attnx-map, 1)", ":nth-match(.attnx-map, 2)"
OVERLAYS = [":nth-match(.attnx-overlay, 1)", ":nth-match(.attnx-overlay, 2)"]
STATUS = ".attng > [aria-live]"


def matrix(generated=4, prompt=6, layers=3, total=0.9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return total * torch.softmax(2 * torch.randn(generated, prompt, layers, generator=generator), 1)


def parts(**changes):
    ignored = [k in HIDDEN for k in range(len(PROMPT))]
    return {"prompt_words": PROMPT, "generated_words": NEW, "matrix": matrix(), "ignored": ignored} | changes


def base64_of(data):
    return base64.b64encode(data).decode()


def explorer(**settings):
    return GenerationExplorer(**parts(), **settings)


def over(page, overlay, row, k, rows, columns=6):
    """Points at a cell of a map."""
    box = page.locator(overlay).bounding_box()
    place = {"x": (k + 0.5) * box["width"] / columns, "y": (row + 0.5) * box["height"] / rows}
    page.locator(overlay).hover(position=place)


def listed(page):
    """Places and values of the list."""
    places = page.locator(".attng-place").all_inner_texts()
    return [int(place) for place in places], page.locator(".attng-value").all_inner_texts()


def tinted(page):
    """Which prompt tokens have a colour, and the sum of its parts: the strongest is the darkest."""
    found = tints(page.locator(".attng-word[data-k]"))
    return {k: sum(tint) for k, tint in enumerate(found) if tint}


# ---- unpacking


def test_whatever_deflate_writes_is_read_back(opened):
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, 70_000, dtype=np.uint8).tobytes()
    far = noise[:300] + bytes(32_000) + noise[:300]  # the longest matches and distances
    rows = (random.normal(size=(40, 900)) ** 4).clip(0, 255).astype(np.uint8).tobytes()
    strategies = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE]
    packed, truth = [], []
    for data in (b"", b"\x07", bytes(1000), noise, far, rows, b"ab" * 500):
        for strategy, level in itertools.product(strategies, (0, 1, 9)):
            packer = zlib.compressobj(level=level, wbits=-15, strategy=strategy)
            packed.append([base64_of(packer.compress(data) + packer.flush()), len(data)])
            truth.append(data)
    read = opened(explorer()).evaluate(
        """([source, all]) => {
          const inflate = new Function(source.replace(/^export default .*$/m, "") + "; return inflate;")();
          return all.map(([packed, size]) => {
            const bytes = inflate(Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0)), size);
            return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")); }); }""",
        [str(GenerationExplorer._esm), packed],
    )
    assert [base64.b64decode(back) for back in read] == truth


# ---- the text and the list


def test_the_text_is_tinted_and_the_largest_are_listed_for_the_token_pointed_at(opened):
    page = opened(explorer(filtered=False))
    mean = matrix().mean(-1)
    for g in (0, 2, 1):
        page.locator(f"[data-g='{g}']").hover()
        places, values = listed(page)
        assert len(places) == 6 and (mean[g, places].diff() < 0.01).all()  # storing may swap near ties
        assert all(agrees(value, mean[g, k]) for k, value in zip(places, values, strict=True))
        colours = tinted(page)
        shades = [colours[k] for k in places]
        assert len(colours) == 6 and shades == sorted(shades) and shades[0] < shades[-1]
        caption = page.locator(".attng-list .attnx-caption").inner_text()
        assert caption.startswith(f"'{NEW[g].replace(' ', '␣')}' ({g})")
        rest = "; the rest is on tokens generated before" if g else ""  # before the first there is none
        assert f"mean over layers: 0.90 is on the prompt{rest}." in readout(page)
    page.locator(".attnx-title, .attnx-caption").first.hover()
    assert listed(page)[0][0] == mean[0].argmax()  # the chosen one again


def test_the_prompt_reads_as_text_with_blanks_between_words(opened):
    words = ["Play", "ing", " with", "  two", " ", "\n", "\n\n", "", "\u200b", "x\n", " y"]
    page = opened(GenerationExplorer(words, [" a", "b"], torch.full((2, 11, 1), 0.05)))
    text = page.locator(".attng-text").first
    shown = text.inner_text().split("\n")
    assert [line.strip() for line in shown] == ["Playing with ␣two␣⏎", "⏎⏎", "∅U+200Bx⏎", "y"]
    assert page.locator(".attng-word[data-g]").all_inner_texts() == ["a", "b"]


def test_a_prompt_token_pointed_at_is_found_in_both_maps_and_its_value_said(opened):
    page = opened(explorer(filtered=False, generated=1))
    before = [canvas_hash(page, overlay) for overlay in OVERLAYS]
    page.locator("[data-k='4']").first.hover()
    assert all(canvas_hash(page, o) != b for o, b in zip(OVERLAYS, before, strict=True))
    said = re.search(r"On '␣Rome' \(4\): ([\d.]+)\.$", readout(page))
    assert agrees(said[1], matrix().mean(-1)[1, 4])
    page.locator(".attng-top li").nth(2).click()
    third = matrix().mean(-1)[1].argsort(descending=True)[2].item()
    assert page.locator(".attng-word.attnx-chosen[data-k]").get_attribute("data-k") == str(third)
    assert f"({third}): " in page.locator(STATUS).inner_text()


# ---- the maps


def test_every_token_and_layer_has_its_own_picture(opened):
    page = opened(explorer())
    tokens, layers = [], []
    for g in range(4):
        page.locator(f"[data-g='{g}']").click()
        tokens.append(canvas_hash(page, TOKEN_MAP))
        caption = page.locator(".attng-maps .attnx-caption").first.inner_text()
        assert caption.endswith(f"({g}) in every layer")
    for layer in (-1, 0, 1, 2):
        page.get_by_label("Layer", exact=True).fill(str(layer))
        layers.append(canvas_hash(page, ALL_MAP))
        name = "mean over layers" if layer < 0 else f"after layer {layer + 1}"
        assert page.locator(".attng-layer").inner_text() == name
        assert canvas_hash(page, TOKEN_MAP) == tokens[3]
    assert len(set(tokens)) == len(set(layers)) == 4
    page.get_by_label("Layer", exact=True).fill("-1")
    assert canvas_hash(page, ALL_MAP) == layers[0]


def test_a_hover_shows_the_true_value_of_every_cell_it_is_over(opened):
    page, truth = opened(explorer(filtered=False, generated=2, layer=1)), matrix()
    for layer, k in [(0, 0), (2, 5), (1, 3)]:
        over(page, OVERLAYS[0], layer, k, rows=3)
        text = page.locator(".attnx-tip").first.inner_text()
        assert text.startswith(f"'.' (2), after layer {layer + 1} → '{PROMPT[k].replace(' ', '␣')}' ({k}): ")
        assert agrees(text.split(": ")[1], truth[2, k, layer])
        assert page.locator(".attnx-tip").nth(1).is_hidden()
        assert listed(page)[0][0] == truth[2, :, layer].argmax()  # the text follows the layer pointed at
    for g, k in [(0, 0), (3, 5), (1, 2)]:
        over(page, OVERLAYS[1], g, k, rows=4)
        text = page.locator(".attnx-tip").nth(1).inner_text()
        assert text.startswith(f"'{NEW[g].replace(' ', '␣').replace(chr(10), '⏎')}' ({g}), after layer 2 → ")
        assert agrees(text.split(": ")[1], truth[g, k, 1])


def test_a_click_chooses_a_token_or_a_layer_and_a_second_lets_it_go(opened):
    page = opened(explorer())
    over(page, OVERLAYS[1], 2, 3, rows=4)
    page.mouse.down()
    page.mouse.up()
    assert page.locator("[data-g='2']").get_attribute("aria-pressed") == "true"
    assert page.locator(STATUS).inner_text().startswith("'.' (2), mean over layers, is attributed most to ")
    over(page, OVERLAYS[0], 1, 3, rows=3)
    for layer in ("1", "-1"):
        page.mouse.down()
        page.mouse.up()
        assert page.get_by_label("Layer", exact=True).input_value() == layer


def test_ratios_end_at_their_largest_and_show_only_digits_that_are_right(opened):
    ratios = torch.logspace(-2.5, 2.4, 72).reshape(4, 6, 3)
    page = opened(GenerationExplorer(**parts(matrix=ratios), filtered=False, layer=0))
    assert page.locator(".attnx-ticks span").last.inner_text() == "180"
    assert page.locator(".attnx-legend > span").all_inner_texts() == ["ratio", "ratio"]
    assert "on the prompt" not in readout(page)
    for g in range(4):
        page.locator(f"[data-g='{g}']").hover()
        places, values = listed(page)
        assert places == [5, 4, 3, 2, 1, 0]
        for k, value in zip(places, values, strict=True):
            if value.startswith("<"):
                assert ratios[g, k, 0] < float(value[1:])
            elif "." in value:
                assert agrees(value, ratios[g, k, 0])
            else:
                assert abs(float(value) / ratios[g, k, 0] - 1) < 0.2
    page.get_by_label("What the strongest colour stands for").select_option("whole")
    last = page.locator(".attnx-ticks span").last
    assert float(last.inner_text()) == pytest.approx(10**2.4, rel=0.05)


def test_the_scale_of_shares_can_end_at_one(opened):
    page = opened(explorer())
    before = canvas_hash(page, ALL_MAP)
    assert page.locator(".attnx-legend > span").all_inner_texts() == ["share", "share"]
    assert page.get_by_role("img", name="Colour scale of the shares, square root").count() == 2
    page.get_by_label("What the strongest colour stands for").select_option("whole")
    assert page.locator(".attnx-ticks span").last.inner_text() == "1"
    assert canvas_hash(page, ALL_MAP) != before
    assert page.locator(".attnx-caption").first.inner_text().endswith("strongest colour is 1.00")


def test_the_filter_hides_tokens_everywhere_and_says_how_much_they_hold(opened):
    page, mean = opened(explorer(generated=1)), matrix().mean(-1)
    blank = """(canvas) => [...Array(6).keys()].filter((k) => { const step = canvas.width / 6;
      const [r, g, b] = canvas.getContext("2d").getImageData((k + 0.5) * step, 9, 1, 1).data;
      return r + g + b === 3 * 255; })"""
    assert page.locator(TOKEN_MAP).evaluate(blank) == page.locator(ALL_MAP).evaluate(blank) == HIDDEN
    assert set(tinted(page)) == set(listed(page)[0]) == {2, 3, 4}
    said = readout(page)
    assert agrees(re.search(r"([\d.]+) of it on hidden", said)[1], mean[1, HIDDEN].sum())
    page.get_by_label("hide 3 uninformative tokens").uncheck()
    assert page.locator(TOKEN_MAP).evaluate(blank) == page.locator(ALL_MAP).evaluate(blank) == []
    assert set(tinted(page)) == set(listed(page)[0]) == set(range(6))
    assert "hidden" not in readout(page)
    unfiltered = opened(GenerationExplorer(**parts(ignored=None)))
    assert unfiltered.locator(".attnx-check").is_hidden()


def test_hovering_draws_one_of_the_maps_again_and_they_scroll_together(opened):
    page = opened(GenerationExplorer([" word"] * 300, [" new"] * 9, matrix(9, 300, 4)))
    tokens = page.locator("[data-g]")
    # The first was shown; each other draws what is seen of one map, and its overview.
    assert tokens.evaluate_all(widgets.DRAWN, "pointerover") == 2 * (tokens.count() - 1) == 16
    box = page.locator(".attnx-stage").first
    box.evaluate("stage => { stage.scrollLeft = 300; }")
    other = page.locator(".attnx-stage").nth(1)
    assert becomes(page, lambda: other.evaluate("stage => stage.scrollLeft"), lambda left: left == 300) == 300


def test_maps_open_where_the_first_token_draws_most(opened):
    late = torch.full((2, 300, 3), 1e-4)
    late[:, 250] = 0.5
    page = opened(GenerationExplorer([" word"] * 300, [" a", " b"], late))
    seen = """stage => {
        const cell = stage.querySelector('.attnx-cells').offsetWidth / 300, left = stage.scrollLeft / cell;
        return [left, left + (stage.clientWidth - stage.querySelector('.attnx-rows').offsetWidth) / cell];
    }"""
    for stage in page.locator(".attnx-stage").all():
        first, last = becomes(page, lambda stage=stage: stage.evaluate(seen), lambda part: part[0] > 0)
        assert first <= 250 and last + 0.1 >= 251


# ---- keyboard


def test_generated_tokens_are_walked_through_by_the_arrow_keys(opened):
    page = opened(explorer())
    page.locator("[data-g='0']").focus()
    pressed = "document.activeElement.dataset.g"
    for key, at in [
        ("ArrowRight", 1),
        ("ArrowDown", 2),
        ("End", 3),
        ("ArrowRight", 3),
        ("ArrowLeft", 2),
        ("Home", 0),
    ]:
        page.keyboard.press(key)
        assert page.evaluate(pressed) == str(at)
        assert page.locator("[data-g][tabindex='0']").get_attribute("data-g") == str(at)
        assert f"({at}), mean over layers, is attributed most to '" in page.locator(STATUS).inner_text()
    page.keyboard.press("PageDown")
    assert "(0), after layer 1, is attributed most to" in page.locator(STATUS).inner_text()


def test_the_maps_are_walked_through_by_the_arrow_keys(opened):
    page = opened(explorer())
    status = page.locator(STATUS)
    page.locator(".attnx-stage").first.focus()
    for key, said in [
        ("ArrowDown", "(0), after layer 1, "), ("End", "(0), after layer 3, "),
        ("ArrowUp", "(0), after layer 2, "), ("PageDown", "(1), after layer 2, "),
        ("ArrowRight", "On '<s>' (0): "), ("ArrowRight", "On '␣The' (1): "),
        ("Home", "(1), mean over layers, "),
    ]:  # fmt: skip
        page.keyboard.press(key)
        assert said in status.inner_text()
    page.keyboard.press("Escape")
    assert "On '" not in status.inner_text()
    page.locator(".attnx-stage").nth(1).focus()
    told = [("ArrowDown", "(2), mean"), ("PageDown", "(2), after layer 1"), ("Home", "(0), after layer 1")]
    for key, said in told:
        page.keyboard.press(key)
        assert said in status.inner_text()


def test_the_table_lists_every_generated_token_of_the_layer_shown(opened):
    page = opened(explorer(filtered=False))
    page.locator("summary").click()
    rows = page.locator(".attnx tbody tr")
    rows.first.wait_for()
    for layer in (0, 2):
        page.get_by_label("Layer", exact=True).fill(str(layer))
        for g in range(4):
            best = matrix()[g, :, layer].argmax().item()
            assert f"({best})" in rows.nth(g).locator("td").first.inner_text()


# ---- examples, escaping, the page around


def test_examples_of_other_sizes_and_scales_are_switched(opened):
    small = {"prompt_words": ["v", "w"], "generated_words": ["x"], "matrix": torch.tensor([[[3.0], [9.0]]])}
    page = opened(GenerationExplorer.from_examples({"A": parts(), "B": small}, generated=3, layer=2))
    before = canvas_hash(page, ALL_MAP)
    page.get_by_label("Example", exact=True).select_option("B")
    assert listed(page) == ([1, 0], ["9", "3.0"])
    assert page.locator(".attnx-legend > span").all_inner_texts() == ["ratio", "ratio"]
    assert page.locator(".attnx-check").is_hidden() and page.get_by_label("Layer", exact=True).is_hidden()
    page.get_by_label("Example", exact=True).select_option("A")
    assert canvas_hash(page, ALL_MAP) == before


def test_both_maps_are_saved_as_one_picture(opened, tmp_path):
    page = opened(explorer(title='<T> & "x"', generated=1))
    assert downloaded(page, "Save as SVG", tmp_path / "map.svg") == "T-x-blue-1-mean-over-layers.svg"
    svg = ElementTree.parse(tmp_path / "map.svg").getroot()
    texts = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "<T> & \"x\": '␣blue' (1), mean over layers"
    for labels in (list("123"), ["␣is", "␣blue", ".", "⏎"], ["'␣blue' (1) in every layer"]):
        assert set(labels) <= set(texts)


# ---- live


@pytest.fixture
def live(opened):
    """A page with a live explorer, below a recorded one; its kernel is the test."""
    page = opened(explorer())
    widget = GenerationExplorer.live(torch.nn.Identity(), None, title="Live", prompt="Once")
    connect(page, widget)
    return page


def shown(page, examples):
    """Puts examples into the live view, as `_show` does."""
    fresh = GenerationExplorer.from_examples(examples)
    state = {"item": 0, "weights": base64_of(fresh.weights), "items": fresh.items}
    page.evaluate("changes => put(changes)", state)


def row(page, index, word):
    """Sends the row of a generated token, as the kernel does while the model writes."""
    packed = base64_of(deflate(stored(matrix()[index : index + 1].numpy())))
    page.evaluate("([message, row]) => window.row(message, row)", [{"index": index, "word": word}, packed])


def test_a_live_view_asks_shows_rows_as_they_come_and_the_whole_at_the_end(live):
    box = live.locator(".attng").nth(1)
    words, status = box.locator("[data-g]"), box.locator(".attnq-progress")
    assert words.count() == 0 and box.locator(".attng-body").is_hidden()
    assert box.locator("textarea").input_value() == "Once"
    box.locator("textarea").fill("The sky\nover <b>Rome")
    live.keyboard.press("Control+Enter")
    assert live.evaluate("sent") == [{"text": "The sky\nover <b>Rome"}]
    assert live.evaluate("model.get('asked')") == "The sky\nover <b>Rome"
    live.evaluate("put({busy: true})")
    assert box.get_by_role("button", name="Generate").is_disabled() and status.inner_text() == "Writing …"
    live.locator(".attng textarea").press("Control+Enter")
    assert len(live.evaluate("sent")) == 1
    shown(live, {"rollout": parts(generated_words=NEW[:1], matrix=matrix()[:1])})
    assert words.all_inner_texts() == ["is"] and status.inner_text() == "Writing: 1 token …"
    for index in (1, 2):
        row(live, index, NEW[index])
    row(live, 1, "again")
    assert words.all_inner_texts() == ["is", "blue", "."] and status.inner_text() == "Writing: 3 tokens …"
    assert box.locator("[data-g].attnx-chosen").inner_text() == "."  # the newest is followed
    best = 2 + matrix()[2, 2:5].mean(-1).argmax().item()
    assert box.locator(".attng-place").first.inner_text() == str(best)
    shown(live, {"rollout": parts(), "over the null model": parts(matrix=9 * matrix())})
    live.evaluate("put({busy: false})")
    assert words.count() == 4 and status.inner_text() == ""
    assert box.get_by_label("Example", exact=True).locator("option").count() == 2
    assert live.evaluate("model.get('generated')") == 2


def test_a_token_chosen_while_the_model_writes_stays_chosen(live):
    box = live.locator(".attng").nth(1)
    live.evaluate("put({busy: true})")
    shown(live, {"rollout": parts(generated_words=NEW[:1], matrix=matrix()[:1])})
    for index in (1, 2, 3):
        row(live, index, NEW[index])
        if index == 2:
            box.locator("[data-g='1']").click()
    shown(live, {"rollout": parts()})
    live.evaluate("put({busy: false})")
    assert box.locator("[data-g][aria-pressed='true']").get_attribute("data-g") == "1"
