"""What every explorer does in Chromium, with the network off: a test for each behaviour, asked of each."""

import csv
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from attnlib.widgets import AttentionExplorer
from tests.browser import CONTRAST, Page, agrees, becomes, connect, downloaded, drawn, point
from tests.explorer_table import EXPLORERS, MANY, Row
from tests.explorers import LETTERS, alignment_explorer, generation_explorer, scores, sentence, weights

pytestmark = pytest.mark.book

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = """all => all.map((each) =>
  each.toDataURL?.() ?? [...each.children].map((part) => part.style.backgroundColor).join())"""
"""What is drawn, or how tokens are tinted."""
LOOKS = """view => JSON.stringify([...view.querySelectorAll(
    "canvas, select, input, [data-token], [data-k], .attnx-readout, .attnm-found, .attno-said, .attnr-rows")]
  .filter((each) => each.checkVisibility())
  .map((each) =>
    [each.toDataURL?.() ?? each.value ?? each.innerText, each.checked, each.style.backgroundColor]))"""
"""All that a view shows of its numbers and choices, as one text."""
DRAWS = LOOKS.replace("select, input, ", "")
"""The same without what the controls say."""
OVERFLOWED = "document.documentElement.scrollWidth > innerWidth"
NUMBER = r"([−+]?<?[\d.]*\d)"


def asked_of(having: Callable[[Row], Any] = bool) -> pytest.MarkDecorator:
    """Of every explorer whose row has what is needed."""
    return pytest.mark.parametrize("name", [name for name, row in EXPLORERS.items() if having(row)])


def looks(page: Page, what: str = LOOKS) -> str:
    found: str = page.locator("section.attnx").first.evaluate(what)
    return found


def live(opened: Any, name: str, **settings: Any) -> Page:
    """A page with a live view of an explorer, which Python sets by `put`."""
    page: Page = opened("<div class='attnx-map'></div>")
    connect(page, EXPLORERS[name].make(title="T", **settings))
    return page


def put(page: Page, settings: dict[str, Any]) -> None:
    page.evaluate("put", settings)
    drawn(page)


def pattern(words: str) -> str:
    return re.escape(words).replace(r"\#", NUMBER).replace("…", ".*?")


# ---- what is shown


@asked_of()
def test_what_is_pointed_at_is_told_in_words_and_true_numbers_and_nothing_moves(
    opened: Any, name: str
) -> None:
    """Wherever Python has led; nothing moves meanwhile, and when the pointer leaves, all is as before."""
    page, heights = live(opened, name), set()
    for cell in EXPLORERS[name].cells():
        put(page, cell.settings)
        page.locator(".attnx-title").hover()
        before = looks(page)
        point(page, cell.selector, *cell.at)
        told = page.locator(cell.said).inner_text()
        found = re.search(pattern(cell.words), told)
        assert found, (cell.words, told)
        assert all(agrees(*pair) for pair in zip(found.groups(), cell.numbers, strict=True)), told
        assert looks(page) != before
        heights.add(page.locator(".attnx").bounding_box()["height"])
        page.locator(".attnx-title").hover()
        assert looks(page) == before
    assert len(heights) == 1, "something below moves while the pointer does"


@asked_of(lambda row: row.pictures)
def test_every_choice_has_its_own_picture(opened: Any, name: str) -> None:
    page = opened(EXPLORERS[name].make())
    for label, selector in EXPLORERS[name].pictures.items():
        control, pictures = page.get_by_label(label, exact=True), page.locator(selector)
        values = control.evaluate(
            """({ options, min, max }) => options ? [...options].map(({ value }) => value)
                 : Array.from({ length: max - min + 1 }, (_, i) => String(Number(min) + i))"""
        )
        begun = control.input_value()
        choose = control.fill if control.get_attribute("type") == "range" else control.select_option
        seen = {}
        for value in [*values, begun]:
            choose(value)
            now = pictures.evaluate_all(PICTURES)
            assert seen.setdefault(value, now) == now, f"{label} {value}, chosen again"
        assert len(seen) > 1
        for column in zip(*seen.values(), strict=True):
            assert len(set(column)) == len(seen), label


@asked_of(lambda row: row.scale)
def test_the_strongest_colour_stands_for_what_the_reader_chooses(opened: Any, name: str) -> None:
    page, row, pictures = opened(EXPLORERS[name].make()), EXPLORERS[name], set()
    for choice in ("whole", "shown"):
        page.get_by_label("What the strongest colour stands for").select_option(choice)
        pictures.add(looks(page, DRAWS))
        last = float(page.locator(row.ends).inner_text())
        assert last == pytest.approx(row.scale.get(choice, last), rel=0.05, abs=0.006)
    assert len(pictures) == 2


@asked_of(lambda row: row.table)
def test_the_table_lists_the_numbers_of_what_is_shown(opened: Any, name: str) -> None:
    page = live(opened, name)
    page.locator("summary").click()
    rows = page.locator(".attnx-details tbody tr")
    rows.first.wait_for()
    for settings, row, column, text, number in EXPLORERS[name].table:
        put(page, settings)
        told = rows.nth(row).locator("td").nth(column).inner_text()
        assert agrees(told, number) if text == "#" else (text in told and (text or not told)), (text, told)


@asked_of()
def test_another_item_is_shown_and_the_first_is_as_it_was(opened: Any, name: str) -> None:
    """Of another size: what was chosen in the first stays chosen there."""
    changed = {} if name == "program" else EXPLORERS[name].changed  # whose text is of one item
    page = opened(EXPLORERS[name].make(**changed | {"item": 0}))
    items, before, drawn_before = page.locator("select").first, looks(page), looks(page, DRAWS)
    items.select_option(index=1)
    assert looks(page, DRAWS) != drawn_before and items.input_value() == "1"
    items.select_option(index=0)
    assert looks(page) == before


@asked_of(lambda row: row.hostile)
def test_everything_is_shown_as_text(opened: Any, name: str) -> None:
    made, pointed, where, texts = EXPLORERS[name].hostile
    page = opened(made())
    page.locator(pointed).first.hover()
    page.locator("summary").click()
    assert sorted(page.locator(where).all_inner_texts()) == sorted(text.replace(" ", "␣") for text in texts)
    assert page.locator(".attnx-title").inner_text() == MANY[0]
    assert page.locator(".attnx img, .attnx script").count() == 0


# ---- a live view and a page from disk


@asked_of()
def test_what_python_sets_is_shown_as_the_static_page_shows_it(opened: Any, name: str) -> None:
    """As anywidget calls it: an ES module, bytes as DataView at any offset, changes told by the model."""
    made, changes = EXPLORERS[name].make, EXPLORERS[name].changed
    page = opened(made(), made(**changes))
    connect(page, made())
    views = page.locator("section.attnx")
    before, after, now = (views.nth(i).evaluate(LOOKS) for i in range(3))
    assert now == before != after
    page.evaluate("put", changes)
    assert becomes(page, lambda: views.nth(2).evaluate(LOOKS), lambda looks: looks == after) == after
    page.evaluate("letGo()")
    assert page.evaluate("Object.values(heard).flat().length") == 0
    page.emulate_media(color_scheme="dark")  # drawn anew by the views that are not let go
    if views.first.locator("canvas").count():
        assert becomes(page, lambda: views.nth(1).evaluate(LOOKS), lambda looks: looks != after) != after
        assert views.nth(2).evaluate(LOOKS) == after


@asked_of(lambda row: row.live)
def test_a_live_view_asks_and_shows_what_it_is_told(opened: Any, name: str) -> None:
    settings, label, typed, listed = EXPLORERS[name].live
    page = opened("<div class='attnx-map'></div>")
    kernel = connect(page, EXPLORERS[name].make(**settings))
    before, box, items = looks(page), page.get_by_label(label), page.locator("select").first
    count = items.locator("option").count()
    box.fill(typed)
    box.press("Control+Enter")
    assert page.evaluate("sent") == [{"text": typed}] and page.evaluate("model.get('asked')") == typed
    kernel()
    assert looks(page) != before
    assert items.locator("option").all_inner_texts()[count:] == [listed]
    assert items.evaluate("node => node.selectedIndex") == count


@asked_of(lambda row: row.live)
def test_a_static_page_has_no_box_and_says_so_where_there_was_one(opened: Any, name: str) -> None:
    row = EXPLORERS[name]
    page = opened(row.make(), row.make(**row.live[0]))
    assert page.locator("textarea:visible, form:visible").count() == 0
    notes = page.locator("section.attnx").all_inner_texts()
    assert ["typed here" in note for note in notes] == [False, True]


@asked_of()
def test_a_page_whose_data_were_changed_draws_nothing_and_says_so(opened: Any, name: str) -> None:
    """With two characters exchanged it would draw another picture."""
    made = EXPLORERS[name].make
    page = made().to_html()
    packed = max(re.findall('"base64":"([^"]*)"', page), key=len)
    place = next(i for i in range(len(packed) // 2, len(packed)) if packed[i] != packed[i - 1])
    exchanged = packed[: place - 1] + packed[place] + packed[place - 1] + packed[place + 1 :]
    shown = opened(page.replace(packed, exchanged), made())
    assert shown.locator("section.attnx").count() == 1
    assert "was changed after this page was made" in shown.get_by_role("alert").inner_text()


# ---- by keys


WALKS = [(name, walk) for name, row in EXPLORERS.items() for walk in row.walks]


@pytest.mark.parametrize(("name", "walk"), WALKS, ids=[f"{name}: {walk.focus}" for name, walk in WALKS])
def test_arrow_keys_move_the_choice_and_it_is_read_out(opened: Any, name: str, walk: Any) -> None:
    page = opened(EXPLORERS[name].make(**walk.settings))
    status, before = page.locator(".attnx [aria-live], .attnx [role=status]"), looks(page)
    page.locator(walk.focus).focus()
    for place, (key, words, *focused) in enumerate(walk.keys):
        page.keyboard.press(key)
        assert place or looks(page) != before, key
        told = " ".join(status.all_inner_texts())
        assert words[1:] not in told if words.startswith("!") else words in told, (key, words, told)
        for selector in focused:
            assert page.locator(selector).evaluate("node => node === document.activeElement"), (key, selector)


PRESSED = """(node, [held, key]) => {
  const how = { key, bubbles: true, cancelable: true, [`${held}Key`]: true };
  node.dispatchEvent(new KeyboardEvent("keydown", how));
}"""
"""Presses a key on a node while another is held; the browser itself then does nothing."""


@asked_of()
def test_keys_pressed_with_alt_ctrl_or_cmd_are_the_browsers(opened: Any, name: str) -> None:
    """Alt and left leads back, Ctrl and end to the page's end."""
    page = opened(EXPLORERS[name].make())
    page.evaluate("addEventListener('keydown', (event) => { window.taken = event.defaultPrevented; })")
    shown, places = looks(page), page.locator(".attnx [tabindex='0']:visible")
    for place in places.all():
        for held, key in (("alt", "ArrowLeft"), ("ctrl", "End"), ("meta", "ArrowRight")):
            place.evaluate(PRESSED, [held, key])
            assert page.evaluate("taken") is False, (held, key)
    assert looks(page) == shown and places.count()


@asked_of(lambda row: row.pictures)
def test_a_step_back_shows_what_was_before(opened: Any, name: str) -> None:
    page = opened(EXPLORERS[name].make())
    choices = page.locator(".attnx :is(select, input[type=range]):visible")
    undo = page.get_by_text("undo", exact=True)
    assert undo.get_attribute("aria-disabled") == "true"
    states = [looks(page)]
    for choice in (choices.first, choices.last):
        choice.evaluate(OTHER)
        assert looks(page) not in states
        states.append(looks(page))
    undo.click()
    assert looks(page) == states[1]
    for _ in range(2):  # the second has nothing to take back
        page.keyboard.press("Control+z")
        assert looks(page) == states[0] and undo.get_attribute("aria-disabled") == "true"


OTHER = """node => {
  const slider = node.type === "range";
  if (slider) node.value = Number(node.value) === Number(node.max) ? node.min : node.max;
  else node.selectedIndex = node.selectedIndex ? 0 : 1;
  node.dispatchEvent(new Event(slider ? "input" : "change", { bubbles: true }));
}"""
"""Chooses something else in a control."""


# ---- what can be sent and saved

CHANGED = """view => {
  const every = (kind, event, change) => {
    for (let i = 0; i < view.querySelectorAll(kind).length; i++) { // a choice may bring others
      const control = view.querySelectorAll(kind)[i];
      change(control);
      control.dispatchEvent(new Event(event, { bubbles: true }));
    }
  };
  every("select", "change", (each) => { each.selectedIndex = (each.selectedIndex + 1) % each.length; });
  every("input[type=range]", "input", (each) => { each.stepDown(); });
  every("label:not([hidden]) > input[type=checkbox]", "change", (each) => { each.checked = !each.checked; });
  view.querySelectorAll("[data-query], [data-token], .attng-word, [data-at]")[1]?.click();
}"""
"""Makes another choice wherever there is one."""


@asked_of()
def test_all_that_can_be_chosen_can_be_sent(opened: Any, name: str) -> None:
    """By the address of the page."""
    page = opened(EXPLORERS[name].make())
    card = page.locator("section.attnx")
    before = looks(page)
    card.evaluate(CHANGED)
    page.mouse.move(0, 0)
    drawn(page)
    after, address = looks(page), sent(page)
    assert after != before
    page.goto("about:blank")
    page.goto(address)
    card.wait_for()
    assert becomes(page, lambda: looks(page), lambda now: now == after) == after


def sent(page: Page) -> str:
    """The address, once it has been told."""
    page.wait_for_function("location.hash.startsWith('#explorer=')")
    page.evaluate("new Promise((told) => setTimeout(told, 350))")  # the page's own clock: it tells after 300
    address: str = page.evaluate("location.href")
    return address


@asked_of()
def test_what_is_shown_is_saved_as_a_picture_and_as_numbers(opened: Any, tmp_path: Path, name: str) -> None:
    """In light colours, though the page is dark, with what the page says of it; the page stays as it is."""
    begins, texts, head = EXPLORERS[name].saved
    page = opened(EXPLORERS[name].make(title='<T> & "x"'), dark=True)
    before = looks(page)
    assert downloaded(page, "Save as SVG", tmp_path / "picture.svg").startswith(begins)
    root = ElementTree.parse(tmp_path / "picture.svg").getroot()
    written = [(node, node.text or "") for node in root.iter(f"{SVG}text")]
    assert written[0][1].startswith('<T> & "x": ') and root.findtext(f"{SVG}title") == written[0][1]
    assert {text for text in texts if not any(text in each for _, each in written)} == set()
    width = float(root.attrib["width"])
    starts = [float(node.attrib["x"]) for node, _ in written if "transform" not in node.attrib]
    assert max(starts) < width <= 2800 and root.find(f"{SVG}rect").attrib["fill"] == "rgb(255, 255, 255)"
    downloaded(page, "Save as CSV", tmp_path / "numbers.csv")
    rows = [*csv.reader((tmp_path / "numbers.csv").read_text().splitlines())]
    assert ",".join(rows[0]).startswith(head) and {len(row) for row in rows} == {len(rows[0])}
    assert looks(page) == before


# ---- the page around


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, i) for name, row in EXPLORERS.items() if row.long for i in range(len(row.long[0]))],
)
def test_a_narrow_screen_is_not_overflowed(opened: Any, name: str, place: int) -> None:
    makers, pointed = EXPLORERS[name].long
    page = opened(makers[place](), width=400)
    assert not page.evaluate(OVERFLOWED)
    page.locator(pointed).first.hover(position={"x": 12, "y": 8})
    assert not page.evaluate(OVERFLOWED)


@asked_of()
def test_it_follows_the_page_into_the_dark_and_stays_legible(opened: Any, name: str) -> None:
    page = opened(EXPLORERS[name].make(title="T"))
    light = looks(page)
    for mode in ("light", "dark"):
        page.emulate_media(color_scheme=mode)
        page.locator(f".attnx[data-mode={mode}]").first.wait_for()
        for selector in EXPLORERS[name].legible:
            assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5, (mode, selector)
    if page.locator(".attnx canvas").count():
        assert becomes(page, lambda: looks(page), lambda now: now != light) != light


@pytest.fixture
def all_of_them(opened: Any) -> Callable[..., Page]:
    """Opens every explorer on one page."""

    def page(**settings: Any) -> Page:
        long = AttentionExplorer([f"t{i}" for i in range(80)], torch.eye(80)[None, None])
        opened_page: Page = opened(*(row.make(title="T") for row in EXPLORERS.values()), long, **settings)
        return opened_page

    return page


def test_what_can_be_pressed_is_large_enough_for_a_finger(all_of_them: Any) -> None:
    sizes = all_of_them(width=400).locator(".attnx :is(button, select, input, summary, label.attnx-check)")
    small = sizes.evaluate_all(
        """nodes => nodes.filter(node => node.offsetParent && !node.matches("label input[type=checkbox]"))
             .map(node => [node.className, node.getBoundingClientRect()])
             .filter(([, { width, height }]) => width < 24 || height < 24).map(([name]) => name)"""
    )
    assert small == []


def test_a_control_is_called_what_is_written_before_it(all_of_them: Any) -> None:
    """Speech control uses the visible label (WCAG 2.5.3)."""
    names = (
        all_of_them()
        .locator(".attnx-field")
        .evaluate_all(
            """all => all.map((field) => [field, ...field.querySelectorAll("[aria-label]")].map((each, i) =>
             (i ? each.ariaLabel : each.firstChild.textContent).toLowerCase()))"""
        )
    )
    assert len(names) > 10 and [each for each in names if not each[1].startswith(each[0])] == []


def test_on_paper_there_is_nothing_to_press(all_of_them: Any) -> None:
    """But what is chosen stays, as text, and colours are printed."""
    page = all_of_them(width=500)
    pressed = ".attnx :is(.attnx-save, .attnx-zoom, .attnt-play, input[type=checkbox], textarea, summary)"
    seen = "nodes => nodes.filter(node => node.checkVisibility()).length"
    assert page.locator(pressed).evaluate_all(seen) > 20
    page.emulate_media(media="print")
    assert page.locator(pressed).evaluate_all(seen) == 0
    assert page.locator(".attnx select").evaluate_all(seen) > 5
    printed = page.locator(".attnx").evaluate_all(
        "all => all.map(each => getComputedStyle(each).printColorAdjust)"
    )
    assert set(printed) == {"exact"}
    page.emulate_media(media="screen")


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


def test_a_printed_page_is_laid_out_for_paper_and_then_for_the_screen_again(opened: Any) -> None:
    """Drawn anew: a canvas is as wide as it was on the screen, whatever the paper is."""
    long = AttentionExplorer([f"t{i}" for i in range(40)], weights(1, 4, 40, 40))
    cards = [long, *(EXPLORERS[name].make() for name in ("training", "alignment", "generation"))]
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


def test_the_choice_is_seen_in_forced_colours(opened: Any) -> None:
    two = AttentionExplorer(LETTERS[:4], weights(1, 2, 4, 4), query=1)
    page = opened(two, generation_explorer(), EXPLORERS["training"].make(checkpoint=0))
    page.emulate_media(forced_colors="active")
    style = "all => all.map((each) => getComputedStyle(each).outlineStyle)"
    chosen, others = (page.locator(f"[aria-pressed={it}]").evaluate_all(style) for it in ("true", "false"))
    swatch = page.locator(".attnx-swatch").first.evaluate("node => getComputedStyle(node).forcedColorAdjust")
    backs = (
        page.locator(".attnx-strip")
        .first.locator("button")
        .evaluate_all("nodes => nodes.map(node => getComputedStyle(node).backgroundColor)")
    )
    page.emulate_media(forced_colors="none")
    assert len(chosen) == 4 and {*chosen} == {"solid"} and {*others} == {"none"} and swatch == "none"
    assert len(set(backs)) > 1


@pytest.mark.parametrize("width", [400, 1100])
def test_the_numbers_of_a_colour_scale_never_stand_on_each_other(opened: Any, width: int) -> None:
    small = {name: each * 0.0076 for name, each in scores(5, 4, 5).items()}
    page = opened(
        AttentionExplorer(list("abc"), torch.rand(1, 2, 3, 3) / 3),
        alignment_explorer({"A": sentence(scores=small)}),
        width=width,
    )
    legends = page.locator(".attnx-legend").evaluate_all(
        """all => all.map((each) => [...each.querySelectorAll(".attnx-ticks span")]
             .map((tick) => tick.getBoundingClientRect()).map(({ left, right }) => [left, right]))"""
    )
    assert len(legends) == 5 and min(map(len, legends)) >= 3
    for edges in legends:
        assert all(right < left for (_, right), (left, _) in pairwise(edges))


# ---- no more is done than is seen

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
"""How many heat maps are drawn while the pointer visits nodes: what a hover costs, on any machine."""


def test_hovering_draws_no_more_than_what_it_changes(opened: Any) -> None:
    page = opened(AttentionExplorer(["token"] * 20, weights(2, 3, 20, 20)))
    assert page.locator(".attnx-overlay").evaluate_all(DRAWN, "pointermove") == 0
    made = EXPLORERS["generation"].long[0][1]()
    tokens = opened(made).locator("[data-g]")
    # The first was shown; each other draws what is seen of one map, and its overview.
    assert tokens.evaluate_all(DRAWN, "pointerover") == 2 * (tokens.count() - 1) == 80


ARRAYS = """() => {
  const Bytes = Uint8Array;
  window.sizes = [];
  window.Uint8Array = class extends Bytes {
    constructor(...given) { super(...given); if (typeof given[0] === "number") sizes.push(given[0]); }
  };
}"""
"""Records the length of each new Uint8Array in `window.sizes`."""


@pytest.mark.parametrize("name", ["attention", "generation", "measure"])
def test_hovering_the_list_of_items_unpacks_them_ahead(opened: Any, name: str) -> None:
    page = opened(EXPLORERS[name].make(title="T"))
    page.evaluate(ARRAYS)
    items = page.locator("select").first
    items.hover()
    becomes(page, lambda: page.evaluate("sizes.length"), bool)
    page.evaluate("new Promise((done) => setTimeout(done, 200))")
    unpacked = max(page.evaluate("sizes.splice(0)"))
    items.select_option(index=1)
    drawn(page)
    assert unpacked not in page.evaluate("sizes")
