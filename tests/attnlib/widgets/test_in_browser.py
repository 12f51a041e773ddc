"""What a person expects of every explorer: to save what it shows, a step back, and a long text as a whole."""

import csv
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from attnlib.widgets import AttentionExplorer, GenerationExplorer, MeasureExplorer
from tests.attnlib.widgets import test_dynamics_explorer as dynamics
from tests.attnlib.widgets import test_measure_explorer as measure
from tests.attnlib.widgets.test_explorer_pages import EXPLORERS
from tests.browser import becomes, canvas_hash, connect, downloaded, drawn, readout

pytestmark = pytest.mark.book

MAP, SVG = ".attnx-map", "{http://www.w3.org/2000/svg}"
SAVED = {  # how the name begins, some texts of the picture, the first columns
    "alignment": ("T-A-step-", ["source →", "learns"], "target,target token,source,source token"),
    "attention": ("T-long-layer-0-head-0", ["a", "d", "weight"], "query,query token,key,key token,weight"),
    "dynamics": ("T-A-step-", ["beta"], "place,token,alpha"),
    "generation": ("T-large-", ["Generated"], "generated,generated token,layer,prompt,prompt token"),
    "measure": ("T-", ["rollout"], "place,token,needed,rollout"),
    "model": ("T-", ["reads", "writes"], "query,query token,key,key token,weight"),
    "program": ("T-", ["output", "rollout"], "position,symbol,v3,v5,reads,causes,rollout"),
    "training": ("T-layer-0-head-0-step-", ["weight"], "query,query token,key,key token,weight"),
}
"""By explorer."""


def looks(page: object) -> str:
    """All that a view shows of its numbers."""
    return page.locator(".attnx").first.evaluate(  # type: ignore[attr-defined, no-any-return]
        "view => [...view.querySelectorAll('canvas, .attnx-readout, .attnm-found, select')]"
        ".map(each => each.toDataURL?.() ?? (each.value || each.innerText)).join()"
    )


@pytest.mark.parametrize("name", SAVED)
def test_what_is_shown_is_saved_as_a_picture_and_as_numbers(opened, tmp_path: Path, name: str) -> None:
    """In light colours, though the page is dark, with what the page says of it; the page stays as it is."""
    begins, texts, head = SAVED[name]
    page = opened(EXPLORERS[name][0](title="T"), dark=True)
    before = looks(page)
    assert downloaded(page, "Save as SVG", tmp_path / "picture.svg").startswith(begins)
    root = ElementTree.parse(tmp_path / "picture.svg").getroot()
    written = [(node, node.text or "") for node in root.iter(f"{SVG}text")]
    assert written[0][1].startswith("T: ") and root.findtext(f"{SVG}title") == written[0][1]
    assert {text for text in texts if not any(text in each for _, each in written)} == set()
    width = float(root.attrib["width"])
    starts = [float(node.attrib["x"]) for node, _ in written if "transform" not in node.attrib]
    assert max(starts) < width <= 2800 and root.find(f"{SVG}rect").attrib["fill"] == "rgb(255, 255, 255)"
    downloaded(page, "Save as CSV", tmp_path / "numbers.csv")
    rows = [*csv.reader((tmp_path / "numbers.csv").read_text().splitlines())]
    assert ",".join(rows[0]).startswith(head) and {len(row) for row in rows} == {len(rows[0])}
    assert looks(page) == before


def test_a_picture_is_the_same_wherever_the_page_is_scrolled_to(opened, tmp_path: Path) -> None:
    """Labels that stay in view on a page stand at their rows and columns in its picture."""
    page = opened(EXPLORERS["generation"][0](title="T"))
    page.set_viewport_size({"width": 1400, "height": 300})
    saved = []
    for map_at in (200, -60):
        page.locator(".attnx-stage").last.evaluate(
            "(node, at) => scrollBy(0, node.getBoundingClientRect().top - at)", map_at
        )
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as SVG").evaluate("button => button.click()")
        download.value.save_as(tmp_path / "picture.svg")
        saved.append((tmp_path / "picture.svg").read_text())
    assert saved[0] == saved[1] and page.locator(".attnx").count() == 1


PAINTED = """() => {
  const card = document.querySelector(".attnx"), probe = document.createElement("div");
  document.body.append(probe);
  window.painted = [];
  // Told of a new size once a frame's other callbacks have run, and before it is painted.
  new ResizeObserver(() => painted.push(card.className)).observe(probe);
  const look = () => { probe.style.width = `${painted.length % 2}px`; requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""
"""Knows as `painted` the classes of the card in every frame."""


def test_the_card_is_not_seen_as_it_is_printed(opened, tmp_path: Path) -> None:
    page = opened(EXPLORERS["generation"][0](title="T"))
    page.evaluate(PAINTED)
    downloaded(page, "Save as SVG", tmp_path / "picture.svg")
    drawn(page)
    assert set(page.evaluate("painted")) == {"attnx attng"}


def test_a_page_that_is_scrolled_repaints_nothing_and_one_that_turns_dark_does(opened) -> None:
    """Themes mark a page that is scrolled by a class, in the place where they say what is dark."""
    page = opened(EXPLORERS["alignment"][0](title="T"))
    light = looks(page)
    page.evaluate(
        """() => {
             const pen = CanvasRenderingContext2D.prototype, clear = pen.clearRect;
             window.painted = 0;
             pen.clearRect = function (...box) { painted++; return clear.apply(this, box); };
           }"""
    )
    page.evaluate("document.body.classList.add('scrolled')")
    page.wait_for_timeout(600)  # colours that come late are looked for after 400 ms
    assert page.evaluate("painted") == 0 and looks(page) == light
    page.evaluate("document.body.style.background = '#121212'; document.body.classList.add('dark')")
    assert becomes(page, lambda: page.locator(".attnx").get_attribute("data-mode"), "dark".__eq__) == "dark"
    assert page.evaluate("painted") > 0 and looks(page) != light


ARRAYS = """() => {
  const Bytes = Uint8Array;
  window.sizes = [];
  window.Uint8Array = class extends Bytes {
    constructor(...given) { super(...given); if (typeof given[0] === "number") sizes.push(given[0]); }
  };
}"""
"""Knows as `sizes` of what length arrays of bytes are made."""


@pytest.mark.parametrize("name", ["attention", "generation", "measure"])
def test_who_comes_to_the_list_of_items_finds_them_unpacked(opened, name: str) -> None:
    page = opened(EXPLORERS[name][0](title="T"))
    page.evaluate(ARRAYS)
    items = page.locator("select").first
    items.hover()
    becomes(page, lambda: page.evaluate("sizes.length"), bool)
    page.evaluate("new Promise((done) => setTimeout(done, 200))")
    unpacked = max(page.evaluate("sizes.splice(0)"))
    items.select_option(index=1)
    drawn(page)
    assert unpacked not in page.evaluate("sizes")


def test_two_files_can_be_asked_for_at_once(opened) -> None:
    page = opened(EXPLORERS["generation"][0](title="T"))
    before, names = looks(page), []
    page.on("download", lambda download: names.append(download.suggested_filename))
    page.evaluate("document.querySelectorAll('[aria-label^=\"Save as\"]').forEach(button => button.click())")
    becomes(page, lambda: len(names), lambda count: count == 3)
    assert sorted(name.rpartition(".")[2] for name in names) == ["csv", "png", "svg"]
    drawn(page)
    assert looks(page) == before and not page.locator(".attnx").get_attribute("style")


def test_a_token_that_is_saved_is_no_formula_in_a_spreadsheet(opened, tmp_path: Path) -> None:
    tokens = ['=HYPERLINK("x")', "=1+cmd|'/C_calc'!A0", "-", "=", "f(x)"]
    page = opened(AttentionExplorer(tokens, torch.full((1, 1, 5, 5), 0.2)))
    downloaded(page, "Save as CSV", tmp_path / "numbers.csv")
    with (tmp_path / "numbers.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    assert [row[3] for row in rows[:5]] == [f"'{tokens[0]}", f"'{tokens[1]}", *tokens[2:]]


def test_the_numbers_saved_are_those_shown_with_all_digits_live_and_as_a_png(opened, tmp_path: Path) -> None:
    weights = torch.softmax(torch.randn(1, 2, 3, 3, generator=torch.Generator().manual_seed(0)), -1)
    widget = AttentionExplorer(
        ['say "x"', ",", "\n"], weights, references=torch.eye(3).bool(), layer=0, head=1
    )
    page = opened("<div class='attnx-map'></div>")
    connect(page, widget)
    downloaded(page, "Save as CSV", tmp_path / "numbers.csv")
    with (tmp_path / "numbers.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["query", "query token", "key", "key token", "weight", "reference"]
    assert [row[1] for row in rows[::3]] == ['say␣"x"', ",", "⏎"]
    saved = np.array([[float(row[4]) for row in rows], [float(row[5]) for row in rows]]).reshape(2, 3, 3)
    assert np.abs(saved[0] - weights[0, 1].numpy()).max() < 0.004 and (saved[1] == np.eye(3)).all()
    assert min(len(row[4]) for row in rows) > 8
    assert (
        downloaded(page, "Save as PNG", tmp_path / "picture.png") == "Attention-explorer-layer-0-head-1.png"
    )
    assert (tmp_path / "picture.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("name", ["attention", "generation", "measure", "model", "training"])
def test_a_step_back_shows_what_was_before(opened, name: str) -> None:
    page = opened(EXPLORERS[name][0](title="T"))
    choices, undo = (
        page.locator(".attnx-controls select:visible, .attnm-side select"),
        page.get_by_text("undo"),
    )
    assert undo.get_attribute("aria-disabled") == "true"
    states = [looks(page)]
    choices.first.select_option(index=1)
    states.append(looks(page))
    choices.last.select_option(index=1 - choices.last.evaluate("node => node.selectedIndex"))
    assert looks(page) not in states
    undo.click()
    assert looks(page) == states[1] != states[0]
    page.keyboard.press("Control+z")
    assert looks(page) == states[0] and undo.get_attribute("aria-disabled") == "true"
    page.keyboard.press("Control+z")
    assert looks(page) == states[0]


def test_what_is_typed_in_one_go_and_a_row_with_its_key_are_one_step(opened) -> None:
    page = opened(EXPLORERS["model"][0](title="T"))
    box = page.locator("input[type=text]")
    first = box.input_value()
    page.evaluate("Date.now = () => 0")  # in one go, however slow the machine is
    box.fill("")
    box.press_sequentially("badb")
    page.get_by_text("undo").click()
    assert box.input_value() == first
    page.locator(".attnx-overlay").click(position={"x": 40, "y": 40})
    assert "→ key" in page.locator("[aria-live]").last.inner_text()
    page.keyboard.press("Control+z")
    assert "No query selected" in page.locator("[aria-live]").last.inner_text()


@pytest.mark.parametrize("name", EXPLORERS)
def test_keys_pressed_with_alt_ctrl_or_cmd_are_the_browsers(opened, name: str) -> None:
    """Alt and left leads back, Ctrl and end to the page's end."""
    page = opened(EXPLORERS[name][0](title="T"))
    page.evaluate("addEventListener('keydown', (event) => { window.taken = event.defaultPrevented; })")
    shown, places = looks(page), page.locator(".attnx [tabindex='0']:visible")
    for place in places.all():
        for held, key in (("alt", "ArrowLeft"), ("ctrl", "End"), ("meta", "ArrowRight")):
            place.evaluate(PRESSED, [held, key])
            assert page.evaluate("taken") is False and looks(page) == shown, (held, key)
    assert places.count()


PRESSED = """(node, [held, key]) => {
  const how = { key, bubbles: true, cancelable: true, [`${held}Key`]: true };
  node.dispatchEvent(new KeyboardEvent("keydown", how));
}"""
"""Presses a key on a node while another is held; the browser itself then does nothing."""


def test_a_link_holds_lines_colours_and_the_key_too(opened) -> None:
    page = opened(AttentionExplorer(list("abcd"), torch.full((1, 1, 4, 4), 0.25)))
    page.get_by_label("What the strongest colour stands for").select_option("shown")
    page.locator(".attnx-overlay").click(position={"x": 40, "y": 40})
    page.get_by_label("How attention is drawn").select_option("lines")
    page.locator(".attnx-link").click()
    assert page.evaluate("location.hash").endswith("#explorer=0&colours=shown&drawn=lines&key=1&query=1")
    shown = canvas_hash(page, ".attnx-drawn")
    page.reload()
    page.locator(".attnx-drawn").wait_for()
    drawn(page)
    assert canvas_hash(page, ".attnx-drawn") == shown


def test_the_weight_of_the_chosen_cell_is_read_out_and_its_row_of_lines_is_seen(opened) -> None:
    n = 80
    weights = torch.full((1, 1, n, n), 1 / n)
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], weights))
    stage = page.locator(".attnx-stage")
    stage.focus()
    for key in ("Home", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    page.mouse.move(1, 1)
    assert re.search(r" On 't\d+' \(\d+\): 0\.01\d*\.$", readout(page)), readout(page)
    page.get_by_label("How attention is drawn").select_option("lines")
    page.locator(".attnx-strip button").first.focus()
    page.keyboard.press("End")
    drawn(page)
    assert page.locator(".attnx-lines").evaluate("node => node.scrollTop") > 500


def test_tokens_from_right_to_left_keep_their_numbers_behind_them(opened) -> None:
    words = ["שלום", "עולם", "היום", "מחר"]
    page = opened(
        AttentionExplorer(words, torch.eye(4)[None, None]),
        AttentionExplorer(list("abcd"), torch.eye(4)[None, None]),
    )
    for place, apart in ((0, True), (1, False)):
        page.locator(".attnx-overlay").nth(place).click(position={"x": 40, "y": 40})
        said = page.locator(".attnx-readout").nth(place).inner_text()
        assert ("\u2068'" in said and "'\u2069" in said) == apart, said


def test_places_of_scores_that_are_stored_as_one_are_a_range(opened) -> None:
    """In a byte they are alike; which of them is the larger is not known."""
    alike = dynamics.document(tokens=list("abcd"), scores={"alpha": np.tile([0.5, 0.2, 0.2001, 0.1], (3, 1))})
    page = opened(dynamics.explorer({"T": alike}))
    page.locator(".attnd-token").nth(1).hover()
    assert "(2nd to 3rd of 4)" in readout(page)
    page.locator(".attnd-token").nth(0).hover()
    assert "(the largest)" in readout(page)


def test_large_scores_are_told_with_as_many_digits_as_are_stored(opened) -> None:
    scores = {"Delta": np.tile([9900.0, -10000.0, 9850.0, 20.0], (3, 1))}
    page = opened(dynamics.explorer({"T": dynamics.document(tokens=list("abcd"), scores=scores)}))
    page.locator(".attnd-token").nth(0).hover()
    assert "Delta +10000 (" in readout(page), readout(page)


def test_what_is_on_the_prompt_is_no_more_than_all(opened) -> None:
    n = 300
    even = {"matrix": torch.full((1, n, 1), 1 / n), "prompt_words": ["p"] * n, "generated_words": ["g"]}
    page = opened(GenerationExplorer.from_examples({"even": even}))
    assert "1.00 is on the prompt" in readout(page), readout(page)


def test_two_measures_have_one_way_from_numbers_to_colours(opened) -> None:
    signed, share = torch.tensor([1.0, 0.25, -0.1, 0.0, 0.0]), torch.tensor([1.0, 0.25, 0.1, 0.0, 0.0])
    asked = measure.question(scores={"rollout": share, "blank-out": signed})
    page = opened(MeasureExplorer({"one": asked}, first="rollout", second="blank-out"))
    tints = page.locator(".attnm-sides .attnm-text").evaluate_all(
        "all => all.map(row => getComputedStyle(row.children[1]).backgroundColor.match(/\\d+/g).map(Number))"
    )
    assert np.abs(np.subtract(*tints)).max() <= 3, tints  # they are stored in steps of their own


def test_colours_stay_on_paper_and_where_a_reader_forces_others(opened) -> None:
    page = opened(AttentionExplorer(list("abcd"), torch.eye(4)[None, None]))
    page.emulate_media(media="print")
    assert page.locator(".attnx").evaluate("node => getComputedStyle(node).printColorAdjust") == "exact"
    page.emulate_media(media="screen", forced_colors="active")
    page.locator(".attnx-overlay").click(position={"x": 40, "y": 40})
    backs = page.locator(".attnx-strip button").evaluate_all(
        "nodes => nodes.map(node => getComputedStyle(node).backgroundColor)"
    )
    page.emulate_media(forced_colors="none")
    assert len(set(backs)) > 1


def test_what_can_be_pressed_is_large_enough_for_a_finger(opened) -> None:
    page = opened(*(make(title="T") for make, _ in EXPLORERS.values()), width=400)
    sizes = page.locator(".attnx :is(button, select, input, summary, label.attnx-check)").evaluate_all(
        """nodes => nodes.filter(node => node.offsetParent && !node.matches("label input[type=checkbox]"))
             .map(node => [node.className, node.getBoundingClientRect()])
             .filter(([, { width, height }]) => width < 24 || height < 24).map(([name]) => name)"""
    )
    assert sizes == []


def test_on_paper_there_is_nothing_to_press(opened) -> None:
    """But what is chosen stays, as text."""
    n = 80
    page = opened(
        *(make(title="T") for make, _ in EXPLORERS.values()),
        AttentionExplorer([f"t{i}" for i in range(n)], torch.eye(n)[None, None]),
        width=500,
    )
    pressed = ".attnx :is(.attnx-save, .attnx-zoom, .attnt-play, input[type=checkbox], textarea, summary)"
    seen = "nodes => nodes.filter(node => node.checkVisibility()).length"
    assert page.locator(pressed).evaluate_all(seen) > 20
    page.emulate_media(media="print")
    assert page.locator(pressed).evaluate_all(seen) == 0
    assert page.locator(".attnx select").evaluate_all(seen) > 5
    page.emulate_media(media="screen")


@pytest.mark.parametrize("width", [400, 1100])
def test_the_numbers_of_a_colour_scale_never_stand_on_each_other(opened, width: int) -> None:
    page = opened(AttentionExplorer(list("abc"), torch.rand(1, 2, 3, 3) / 3), width=width)
    edges = page.locator(".attnx-legend span").evaluate_all(
        "spans => spans.map(span => span.getBoundingClientRect()).map(({ left, right }) => [left, right])"
    )
    assert len(edges) == 6, "its name and five numbers"
    assert all(right < left for (_, right), (left, _) in pairwise(edges))


# ---- what is long


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


@pytest.mark.parametrize("tokens", [12, 10_000])
def test_a_text_of_ten_thousand_tokens_says_what_it_leaves_out(opened, tmp_path: Path, tokens: int) -> None:
    scores = {"rollout": torch.rand(tokens), "blank-out": torch.randn(tokens)}
    question = {"tokens": [f"w{i}" for i in range(tokens)], "scores": scores, "query": tokens - 1}
    page = opened(MeasureExplorer({"q": question}))
    written = page.locator(".attnm-side").first.locator("button.attnm-token").count()
    told = page.locator(".attnx-long")
    assert (written == tokens) == told.is_hidden()
    if tokens > 12:
        assert told.inner_text().startswith(f"Text and table show the first {written} of 10,000 tokens; ")
    downloaded(page, "Save as CSV", tmp_path / "numbers.csv")
    assert len((tmp_path / "numbers.csv").read_text().splitlines()) == tokens + 1


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


# ---- no more is done than is seen

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


TURNS = """() => {
  const { port1, port2 } = new MessageChannel(), wrapped = (kind, size) => new Proxy(kind, {
    construct: (made, given) => { note(size(...given)); return Reflect.construct(made, given); } });
  Object.assign(window, { most: 0, turn: 0 });
  port1.onmessage = () => { turn = 0; port2.postMessage(0); };
  port2.postMessage(0);
  const note = (size) => { turn += size; most = Math.max(most, turn); };
  window.Blob = wrapped(Blob, (parts) => parts.filter((part) => typeof part === "string").length);
  const make = document.createElementNS;
  document.createElementNS = (...given) => { note(1); return make.apply(document, given); };
}"""
"""Knows as `most` how many lines, or elements of a picture, were made before the page had its turn."""


def saved_whole(matrix: torch.Tensor) -> str:
    """What a map of whole numbers is as CSV."""
    lines = [f"{q},t{q},{k},t{k},{matrix[q, k]:.0f}" for q, k in np.ndindex(*matrix.shape)]
    return "\n".join(["query,query token,key,key token,weight", *lines, ""])


def test_a_long_table_is_saved_in_parts_and_is_what_was_shown_when_it_was_asked_for(
    opened, tmp_path: Path
) -> None:
    n = 300
    weights = torch.stack([torch.eye(n), torch.eye(n).flip(0)])[None]
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], weights, layer=0, head=1))
    page.evaluate(TURNS)
    head = page.get_by_label("Head", exact=True)
    with page.expect_download() as download:
        page.evaluate(  # in one turn of the page, before it is painted again
            """() => {
              document.querySelector("[aria-label='Save as CSV']").click();
              const head = document.querySelector("select[title='Head']");
              head.value = "0";
              head.dispatchEvent(new Event("change", { bubbles: true }));
            }"""
        )
    download.value.save_as(tmp_path / "numbers.csv")
    assert (tmp_path / "numbers.csv").read_text() == saved_whole(weights[0, 1])
    assert head.input_value() == "0" and 0 < page.evaluate("most") <= n * n / 4


def test_cells_of_a_colour_are_saved_as_one_shape(opened, tmp_path: Path) -> None:
    n = 70
    weights = torch.rand(1, 1, n, n, generator=torch.Generator().manual_seed(0)) + 0.5
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], weights / weights.sum(-1, keepdim=True)))
    downloaded(page, "Save as SVG", tmp_path / "picture.svg")
    paths = [
        each.attrib["d"] for each in ElementTree.parse(tmp_path / "picture.svg").getroot().iter(f"{SVG}path")
    ]
    squares = [path.count("M") for path in paths if path.endswith("z")]
    assert sum(squares) == n * n and len(squares) < 256


def test_a_large_picture_is_saved_in_parts(opened, tmp_path: Path) -> None:
    n = 500
    page = opened(AttentionExplorer([f"t{i}" for i in range(n)], torch.full((1, 1, n, n), 1 / n)))
    page.evaluate(TURNS)
    downloaded(page, "Save as SVG", tmp_path / "picture.svg")
    elements = [*ElementTree.parse(tmp_path / "picture.svg").getroot().iter()]
    assert len(elements) > 2000 and 0 < page.evaluate("most") <= 1000


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


def test_another_measure_and_a_step_back_write_no_word_anew(opened) -> None:
    torch.manual_seed(0)
    scores = {name: torch.randn(900) for name in ("rollout", "blank-out", "gradient norm")}
    page = opened(MeasureExplorer({"q": {"tokens": ["w"] * 900, "scores": scores, "query": 899}}))
    shown = looks(page)
    tinted = page.locator(".attnm-token").first.evaluate("node => node.style.backgroundColor")
    page.evaluate(COUNTED)
    page.get_by_label("Method on the left").select_option("gradient norm")
    other = page.locator(".attnm-token").first.evaluate("node => node.style.backgroundColor")
    assert other != tinted
    page.get_by_text("undo").click()
    assert looks(page) == shown
    assert page.locator(".attnm-token").first.evaluate("node => node.style.backgroundColor") == tinted
    assert page.evaluate("words") == 0


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
