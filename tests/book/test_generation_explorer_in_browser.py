"""The explorer of generation in Chromium: text, list and maps; what is hidden; a model that writes."""

import base64
import re

import numpy as np
import pytest
import torch

from attnlib.widgets import GenerationExplorer
from attnlib.widgets.generation_explorer import deflate, stored
from tests.browser import agrees, becomes, canvas_hash, connect, point, readout, tints
from tests.explorers import HIDDEN, NEW, generation_explorer, matrix, passage

pytestmark = pytest.mark.book

TOKEN_MAP, ALL_MAP = ":nth-match(.attnx-map, 1)", ":nth-match(.attnx-map, 2)"
OVERLAYS = [":nth-match(.attnx-overlay, 1)", ":nth-match(.attnx-overlay, 2)"]


STATUS = ".attng > [aria-live]"


def base64_of(data):
    return base64.b64encode(data).decode()


def listed(page):
    """Places and values of the list."""
    places = page.locator(".attng-place").all_inner_texts()
    return [int(place) for place in places], page.locator(".attng-value").all_inner_texts()


def tinted(page):
    """Which prompt tokens have a colour, and the sum of its parts: the strongest is the darkest."""
    found = tints(page.locator(".attng-word[data-k]"))
    return {k: sum(tint) for k, tint in enumerate(found) if tint}


def test_what_is_packed_is_read_back(opened):
    """Whole blocks as they are, codes that are fixed, and codes of their own."""
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, 70_000, dtype=np.uint8)
    far = np.concatenate([noise[:300], np.zeros(32_000, np.uint8), noise[:300]])  # the longest matches
    rows = (random.normal(size=36_000) ** 4).clip(0, 255).astype(np.uint8)
    short = [np.array(each, np.uint8) for each in ([], [7], [0] * 1000, [97, 98] * 500)]
    data = [each.tobytes() for each in (*short, noise, far, rows)]
    packed = [[base64_of(deflate(np.frombuffer(each, np.uint8))), len(each)] for each in data]
    read = opened(generation_explorer()).evaluate(
        """([source, all]) => {
          const inflate = new Function(source.replace(/^export default .*$/m, "") + "; return inflate;")();
          return all.map(([packed, size]) => {
            const bytes = inflate(Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0)), size);
            return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")); }); }""",
        [str(GenerationExplorer._esm), packed],
    )
    assert [base64.b64decode(back) for back in read] == data


def test_the_text_is_tinted_and_the_largest_are_listed_for_the_token_pointed_at(opened):
    page = opened(generation_explorer(filtered=False))
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
    page = opened(generation_explorer(filtered=False, generated=1))
    before = [canvas_hash(page, overlay) for overlay in OVERLAYS]
    page.locator("[data-k='4']").first.hover()
    assert all(canvas_hash(page, o) != b for o, b in zip(OVERLAYS, before, strict=True))
    said = re.search(r"On '␣Rome' \(4\): ([\d.]+)\.$", readout(page))
    assert agrees(said[1], matrix().mean(-1)[1, 4])
    page.locator(".attng-top li").nth(2).click()
    third = matrix().mean(-1)[1].argsort(descending=True)[2].item()
    assert page.locator(".attng-word.attnx-chosen[data-k]").get_attribute("data-k") == str(third)
    assert f"({third}): " in page.locator(STATUS).inner_text()


def test_a_click_chooses_a_token_or_a_layer_and_a_second_lets_it_go(opened):
    page = opened(generation_explorer())
    point(page, OVERLAYS[1], (3 + 0.5) / 6, (2 + 0.5) / 4)
    page.mouse.down()
    page.mouse.up()
    assert page.locator("[data-g='2']").get_attribute("aria-pressed") == "true"
    assert page.locator(STATUS).inner_text().startswith("'.' (2), mean over layers, is attributed most to ")
    point(page, OVERLAYS[0], (3 + 0.5) / 6, (1 + 0.5) / 3)
    for layer in ("1", "-1"):
        page.mouse.down()
        page.mouse.up()
        assert page.get_by_label("Layer", exact=True).input_value() == layer


def test_ratios_end_at_their_largest_and_show_only_digits_that_are_right(opened):
    ratios = torch.logspace(-2.5, 2.4, 72).reshape(4, 6, 3)
    page = opened(GenerationExplorer(**passage(matrix=ratios), filtered=False, layer=0))
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


def test_the_filter_hides_tokens_everywhere_and_says_how_much_they_hold(opened):
    page, mean = opened(generation_explorer(generated=1)), matrix().mean(-1)
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
    unfiltered = opened(GenerationExplorer(**passage(ignored=None)))
    assert unfiltered.locator(".attnx-check").is_hidden()


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
    one, other = page.locator(".attnx-stage").all()
    one.evaluate("stage => { stage.scrollLeft = 300; }")
    left = becomes(page, lambda: other.evaluate("stage => stage.scrollLeft"), lambda left: left == 300)
    assert left == 300, "they scroll together"


def test_a_static_page_of_a_live_view_says_that_there_was_a_box(opened):
    page = opened(GenerationExplorer.live(torch.nn.Identity(), None))
    assert page.locator("textarea:visible, form:visible").count() == 0
    assert "typed here" in page.locator("section.attnx").inner_text()


@pytest.fixture
def live(opened):
    """A page with a live explorer, below a recorded one; its kernel is the test."""
    page = opened(generation_explorer())
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
    shown(live, {"rollout": passage(generated_words=NEW[:1], matrix=matrix()[:1])})
    assert words.all_inner_texts() == ["is"] and status.inner_text() == "Writing: 1 token …"
    for index in (1, 2):
        row(live, index, NEW[index])
    row(live, 1, "again")
    assert words.all_inner_texts() == ["is", "blue", "."] and status.inner_text() == "Writing: 3 tokens …"
    assert box.locator("[data-g].attnx-chosen").inner_text() == "."  # the newest is followed
    best = 2 + matrix()[2, 2:5].mean(-1).argmax().item()
    assert box.locator(".attng-place").first.inner_text() == str(best)
    shown(live, {"rollout": passage(), "over the null model": passage(matrix=9 * matrix())})
    live.evaluate("put({busy: false})")
    assert words.count() == 4 and status.inner_text() == ""
    assert box.get_by_label("Example", exact=True).locator("option").count() == 2
    assert live.evaluate("model.get('generated')") == 2


def test_a_token_chosen_while_the_model_writes_stays_chosen(live):
    box = live.locator(".attng").nth(1)
    live.evaluate("put({busy: true})")
    shown(live, {"rollout": passage(generated_words=NEW[:1], matrix=matrix()[:1])})
    for index in (1, 2, 3):
        row(live, index, NEW[index])
        if index == 2:
            box.locator("[data-g='1']").click()
    shown(live, {"rollout": passage()})
    live.evaluate("put({busy: false})")
    assert box.locator("[data-g][aria-pressed='true']").get_attribute("data-g") == "1"


def test_what_is_on_the_prompt_is_no_more_than_all(opened) -> None:
    n = 300
    even = {"matrix": torch.full((1, n, 1), 1 / n), "prompt_words": ["p"] * n, "generated_words": ["g"]}
    page = opened(GenerationExplorer.from_examples({"even": even}))
    assert "1.00 is on the prompt" in readout(page), readout(page)


HEBREW = ["שלום", "עולם", "היום", "מחר"]


def test_numbers_stand_behind_tokens_from_right_to_left_in_tables_and_captions_too(opened) -> None:
    shares = torch.full((2, 4, 3), 0.2)
    page = opened(GenerationExplorer(HEBREW, HEBREW[:2], shares), width=1400)
    page.locator("summary").first.click()
    page.locator(".attng tbody td").first.wait_for()
    texts = page.locator(".attng tbody :is(th, td), .attng .attnx-caption").all_inner_texts()
    named = [text for text in texts if any(word in text for word in HEBREW)]
    assert len(named) == 2 * 4 + 2 and [text for text in named if "\u2068'" not in text] == []
