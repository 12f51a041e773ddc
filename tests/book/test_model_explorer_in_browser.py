"""A model in the page, typed at: what it writes, what its heads look at, and what a swapped head changes."""

import random
import re

import pytest
import torch

from attnlib.generators import rasp
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import heads_ablated, reinforced
from attnlib.models.stored import stored_model
from attnlib.widgets import ModelExplorer
from book.chapters.reasoning.figures import TEXTS, redirecting
from tests.browser import canvas_hash, drawn, focused, readout, violations
from tests.explorer_table import EXPLORERS
from tests.explorers import HOSTILE, REVERSES, model_explorer, shown

pytestmark = pytest.mark.book

MAP = ".attnx-map"


MARKUP = "script, style, img, iframe, b"


def typed(page, text):
    page.locator("input[type=text]").fill(text)


def swapped(page, swap):
    page.get_by_label("Attention of the chosen head").select_option(swap)


def said(page):
    return page.locator(".attno-said").inner_text()


def line(page, name):
    """The texts of one line of the output's table, without what is only heard."""
    rows = page.locator(".attno-result tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    return [text.partition("\n")[0] for text in rows.locator("td").all_inner_texts()]


@torch.no_grad()
def written(kept, text):
    """What the model writes, by torch."""
    read = kept.model(kept.task.annotate(text).input_ids[None])
    return [str(kept.task.classes[i]) for i in read.logits[0, kept.task.bos :].argmax(-1).tolist()]


def test_typing_changes_the_output_and_the_maps(opened):
    page, kept = opened(model_explorer()), stored_model("rasp_languages", "sort")
    before, texts = canvas_hash(page, MAP), []
    for text in ("hidefgabcjij", "bad", "j"):
        typed(page, text)
        assert line(page, "reads") == list(text)
        assert line(page, "writes") == written(kept, text)
        assert line(page, "right") == sorted(text)
        texts.append(canvas_hash(page, MAP))
    assert len({before, *texts}) == 4
    assert page.locator("button.attnx-token").all_inner_texts() == ["<bos>", "j"]
    assert said(page) == "1 of 1 outputs right"
    page.get_by_role("button", name="cabbage").click()
    assert page.locator("input[type=text]").input_value() == "cabbage"
    assert canvas_hash(page, MAP) == before


def test_blanks_in_a_sum_are_nothing_and_the_chosen_row_stays_at_the_equals_sign(opened):
    page = opened(model_explorer("addition, seed 0", "arithmetic_lens", query=6))
    row = page.locator("button.attnx-token[aria-pressed=true]")
    assert row.inner_text() == "="
    for text, says in {
        "12 + 3": "12+3=15, right",
        "5 +3": "5+3=9, wrong",
        " 58+67 ": "58+67=125, right",
    }.items():
        typed(page, text)
        assert said(page) == says and row.inner_text() == "="


def test_a_click_on_the_chosen_head_switches_it_off_and_on(opened):
    page = opened(model_explorer("addition, seed 0", "arithmetic_lens"))
    head = page.get_by_role("button", name="layer 1, head 1", exact=True)
    head.click()
    assert said(page) == "58+67=125, right"
    head.click()
    assert said(page).startswith("With L1H1 off: 58+67=")
    head.click()
    assert said(page) == "58+67=125, right"


def test_a_head_tells_what_is_known_of_it(opened):
    """On hover, and as its description; also while it is switched off. A click writes it below the map."""
    kept = stored_model("arithmetic_lens", "addition, seed 0")
    heads = {"L1H1": "41 % of its attention on the <units>"}
    adds = {"model": kept.model, "task": kept.task, "texts": ["58+67"], "heads": heads}
    page = opened(ModelExplorer({"adds": adds}))
    head = page.get_by_role("button", name="layer 1, head 1", exact=True)
    assert head.get_attribute("title") == f"layer 1, head 1: {heads['L1H1']}"
    head.click()
    head.click()
    assert head.get_attribute("title") == f"layer 1, head 1: off; {heads['L1H1']}"
    other = page.get_by_role("button", name="layer 1, head 0", exact=True)
    assert other.get_attribute("title") == "layer 1, head 0"
    known = page.locator(".attno-known")
    assert known.inner_text() == f"layer 1, head 1: {heads['L1H1']}"
    other.click()
    assert known.is_hidden()


def test_what_cannot_be_asked_is_said_and_what_was_asked_before_stays(opened):
    message = "'x', '<', '>' are not in this model's alphabet. Type up to 30 of the symbols abcdefghij."
    page = opened(model_explorer())
    before = canvas_hash(page, MAP)
    assert page.locator("[role=alert]").is_hidden()
    typed(page, "x<b>")
    assert page.locator("[role=alert]").inner_text() == message
    assert page.locator("input[type=text]").get_attribute("aria-invalid") == "true"
    assert line(page, "reads") == list("cabbage") and canvas_hash(page, MAP) == before
    typed(page, "bad")
    assert page.locator("[role=alert]").is_hidden()
    assert line(page, "writes") == list("abd")


def bad_texts(good, n=50):
    """Texts that one might type or paste: markup, numbers that overflow, characters that cannot be seen."""
    rng = random.Random(0)
    odd = [*HOSTILE, "\u202e" + good, "\ufeff" + good, "\0", "\t", " " * 40, "a" * 100_000, "9" * 400 + "+1"]
    odd += ["1e308+1", "0x1+1", "-1+-1", "1+1=3", "+", "=", "==", "1+", "NaN+NaN", "Infinity+1", "${1+1}"]
    odd += ["٣+٤", "１+１", "𝟙+𝟙", "e\u0301", "\u200b", "[object Object]", "null"]
    odd += ["__proto__", "constructor", "toString"]
    symbols = good + "<>&\"'`$\\{}()=+- \u202e\u0000é漢𝒳😀"
    while len(odd) < n:
        odd.append("".join(rng.choices(symbols, k=rng.randrange(1, 40))))
    return odd


TYPED = """([texts, markup]) => texts.map((text) => {
  const box = document.querySelector("input[type=text]"), alert = document.querySelector("[role=alert]");
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  const told = document.querySelector(".attno-said").innerText, refused = alert.checkVisibility();
  const tags = document.querySelectorAll(markup).length;
  return [box.ariaInvalid === "true", refused ? alert.innerText : "", told, tags];
})"""
"""What is said of texts, typed one after the other."""


@pytest.mark.parametrize(
    ("name", "chapter", "good"),
    [
        ("sort", "rasp_languages", "cabbage"),
        ("addition, seed 0", "arithmetic_lens", "12+34="),
        (REVERSES, "algorithmic_reasoning", "dh13h"),
    ],
)
def test_bad_texts_are_refused_or_read_and_break_nothing(opened, name, chapter, good):
    page = opened(model_explorer(name, chapter))
    typed(page, good)
    expected, picture, markup = said(page), canvas_hash(page, MAP), page.locator(MARKUP).count()
    texts = bad_texts(good)
    for text, (wrong, alert, told, tags) in zip(texts, page.evaluate(TYPED, [texts, MARKUP]), strict=True):
        assert bool(alert) == wrong and tags == markup, ascii(text)
        message = alert if wrong else told
        assert message.strip() and len(message) < 1000 and "undefined" not in message, (ascii(text), message)
    typed(page, good)
    assert (said(page), canvas_hash(page, MAP)) == (expected, picture)


@pytest.mark.parametrize(("swap", "instead"), [("even", "uniform"), ("off", "zero")])
def test_a_swapped_head_changes_the_output_as_in_torch(opened, swap, instead):
    page, kept = opened(model_explorer()), stored_model("rasp_languages", "sort")
    page.get_by_label("Layer", exact=True).select_option("1")
    trained, own = canvas_hash(page, MAP), line(page, "writes")
    swapped(page, swap)
    with heads_ablated(kept.model, [(1, 0)], instead):
        assert line(page, "writes now") == written(kept, "cabbage")
    assert line(page, "writes now") != own == line(page, "as trained")
    assert re.fullmatch(
        rf"With L1H0 {swap}: \d of 7 outputs right \(as trained: 7 of 7 outputs right\)", said(page)
    )
    assert canvas_hash(page, MAP) != trained
    assert page.locator("td.attno-wrong").count() == sum(
        a != b for a, b in zip(own, line(page, "writes now"), strict=True)
    )
    assert "attno-swapped" in page.get_by_role("button", name="layer 1, head 0").get_attribute("class")
    page.get_by_role("button", name="as trained").click()
    assert canvas_hash(page, MAP) == trained
    assert line(page, "writes") == own


def test_a_head_can_be_pushed_part_of_the_way_as_in_torch(opened):
    """The slider is the strength of `reinforced`: the page writes and looks as torch does."""
    page, kept = (
        opened(model_explorer("hist, supervised")),
        stored_model("rasp_languages", "hist, supervised"),
    )
    slider = page.get_by_label("How much of it, in per cent")
    assert slider.is_hidden()
    swapped(page, "program")
    slider.fill("45")
    assert said(page).startswith("With L0H0 the program's at 45 %: ")
    reference = torch.as_tensor(kept.task.target_attention("cabbage")[0, 0])[None]
    with torch.no_grad(), reinforced(kept.model, [(0, 0)], reference, 0.45):
        assert line(page, "writes now") == written(kept, "cabbage")
        read = kept.model(kept.task.annotate("cabbage").input_ids[None], output_attentions=True)
    page.locator("button.attnx-token").nth(3).hover()
    most = float(read.attentions[0, 0, 0, 3].max())
    found = float(re.search(r"looks most at '.+?' \(\d+\) ([\d.]+)", readout(page))[1])
    assert found == pytest.approx(most, abs=0.006)
    assert "100 % of the row on its reference" not in readout(page)
    weight = canvas_hash(page, MAP)
    slider.fill("100")
    page.locator("button.attnx-token").nth(3).hover()
    assert "100 % of the row on its reference" in readout(page)
    slider.fill("0")
    assert said(page).endswith("(as trained: 7 of 7 outputs right)") and canvas_hash(page, MAP) != weight
    assert line(page, "writes now") == line(page, "as trained")


def test_only_heads_with_a_program_offer_it_and_the_mean_stands_for_all_heads(opened):
    page = opened(model_explorer("addition, seed 0", "arithmetic_lens"))
    offered = page.get_by_label("Attention of the chosen head").locator("option")
    assert offered.all_inner_texts() == ["its own", "even", "off"]
    page.get_by_label("Head", exact=True).select_option("-1")
    swapped(page, "off")
    assert said(page).startswith("With L0H0 off, L0H1 off, L0H2 off, L0H3 off: 58+67=")
    assert said(page).endswith("(as trained: 125, right)")
    page.get_by_label("Head", exact=True).select_option("2")
    swapped(page, "own")
    assert said(page).startswith("With L0H0 off, L0H1 off, L0H3 off: ")
    page.get_by_label("Head", exact=True).select_option("-1")
    assert page.get_by_label("Attention of the chosen head").input_value() == "mixed"


def test_another_model_reads_the_same_text_or_begins_with_its_own(opened):
    dyck = rasp.language("dyck1_ptf", bos=True)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(len(dyck.tokenizer), 3, 3, width=8, max_length=20)).eval()
    models = shown("rasp_languages", "sort", "reverse") | {
        "dyck": {"model": model, "task": dyck, "texts": ["(a)"]}
    }
    page = opened(ModelExplorer(models, item=1))
    typed(page, "fade")
    page.get_by_label("Model", exact=True).select_option("reverse")
    assert line(page, "reads") == list("fade") and line(page, "right") == list("edaf")
    page.get_by_label("Model", exact=True).select_option("dyck")
    assert line(page, "reads") == list("(a)") and line(page, "right") == list("PPT")
    assert page.locator(".attnq-note").is_hidden()
    typed(page, "a)(")
    assert line(page, "right") == list("TFF")


def test_of_a_language_of_your_own_the_right_output_is_shown_where_it_is_known(opened):
    own = rasp.Definition("mine", "as it is", lambda s: s.symbols)
    task = rasp.language(own, 10)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(len(task.tokenizer), 10, width=8, max_length=9)).eval()
    page = opened(
        ModelExplorer({HOSTILE[0]: {"model": model, "task": task, "texts": ["abc"], "note": HOSTILE[3]}})
    )
    assert line(page, "right") == list("abc")
    typed(page, "cba")
    assert line(page, "right") == [] and said(page).startswith("Outputs ")
    assert said(page).endswith("(what is right, this page knows of the texts above only)")
    assert page.locator(".attnq-note").inner_text() == HOSTILE[3]
    assert page.locator(".attnx img, .attnx script").count() == 0


def test_what_is_written_behind_a_long_question_is_in_view_until_it_is_scrolled_away(opened):
    page = opened(model_explorer(REVERSES, "algorithmic_reasoning", text="longerthantraining"), width=400)
    scrolled = page.locator(".attno-result .attnx-scroll")
    cell = page.locator(".attno-result tr").nth(1).locator("td", has_text=re.compile(".")).first
    frame, first = scrolled.bounding_box(), cell.bounding_box()
    name = page.get_by_role("rowheader", name="writes", exact=True).bounding_box()
    assert name["x"] + name["width"] <= first["x"] < frame["x"] + frame["width"] / 2
    scrolled.evaluate("node => { node.scrollLeft = 0; }")
    page.get_by_label("Layer", exact=True).select_option(index=1)
    assert scrolled.evaluate("node => node.scrollLeft") == 0


def test_it_can_be_used_by_keyboard_alone(opened):
    page = opened(model_explorer())
    page.locator("input[type=text]").focus()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent")
        )
    controls = ["cabbage", "Layer", "Head", swap := "Its attention: attention of the chosen head"]
    assert [name for name in reached if name in controls] == controls
    page.get_by_label(swap).focus()
    page.keyboard.press("ArrowDown")
    assert "With L0H0 even" in said(page)


def test_what_is_typed_in_one_go_and_a_row_with_its_key_are_one_step(opened) -> None:
    page = opened(model_explorer())
    box = page.locator("input[type=text]")
    first = box.input_value()
    page.evaluate("Date.now = () => 0")  # in one go, however slow the machine is
    box.fill("")
    box.press_sequentially("badb")  # and it keeps the focus
    assert page.evaluate("document.activeElement.value") == "badb" and line(page, "right") == list("abbd")
    page.get_by_text("undo").click()
    assert box.input_value() == first
    page.locator(".attnx-overlay").click(position={"x": 40, "y": 40})
    assert "→ key" in page.locator("[aria-live]").last.inner_text()
    page.keyboard.press("Control+z")
    assert "No query selected" in page.locator("[aria-live]").last.inner_text()


def test_a_head_is_called_by_what_it_is_now(opened) -> None:
    page = opened(model_explorer("addition, seed 0", "arithmetic_lens", swaps={"L0H1": "even"}))
    head = page.get_by_role("button", name="layer 0, head 1")
    page.locator("input[type=text]").fill("1+1=")
    assert head.get_attribute("title") == "layer 0, head 1: even"
    page.get_by_text("as trained").first.click()
    assert head.get_attribute("title") == "layer 0, head 1"


def test_keys_go_on_where_what_had_them_is_gone(opened) -> None:
    page = opened(EXPLORERS["attention"].make())
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
    page = opened(model_explorer("addition, seed 0", "arithmetic_lens", swaps={"L0H1": "even"}))
    page.get_by_role("button", name="as trained").focus()
    page.keyboard.press("Enter")
    drawn(page)
    assert focused(page).startswith("Its attention")


def test_a_row_without_a_key_shows_the_heads_own_attention(opened):
    page, readout = opened(bare("sort", bos=False)), []
    for swap in ("own", "program"):
        page.get_by_label("Attention of the chosen head").select_option(swap)
        page.locator("button.attnx-token").nth(1).hover()  # the smallest symbol, before which none stands
        readout.append(page.locator(".attnx-readout").inner_text().partition(" It writes")[0])
    assert not rasp.language("sort", 10).target_attention("cabbage")[0, 0][1].any()
    assert readout[0] == readout[1]
    assert page.locator(".attno-said").inner_text().startswith("With L0H0 the program's: ")


# ---- models that cannot be shown


def bare(*names, bos=True):
    """Models of some languages, untrained."""

    def parts(task):
        torch.manual_seed(1)
        n_layers, n_heads = task.size
        sizes = {"n_layers": n_layers, "n_heads": n_heads, "width": 16, "max_length": 31}
        model = Transformer(TransformerConfig(len(task.tokenizer), len(task.classes), **sizes)).eval()
        return {"model": model, "task": task, "texts": ["cabbage"]}

    return ModelExplorer({name: parts(rasp.language(name, 10, bos)) for name in names})


CANNOT = {
    "another version": (
        "state.items[0].config.rotary = true",
        "this page knows no setting rotary of a model",
    ),
    "another language": (
        'state.items[0].task.program = "shuffle"',
        'this page knows no language "shuffle", only reverse, hist, ',
    ),
    "another task": (
        'state.items[0].task.kind = "chess"',
        'this page knows no task "chess", only language, arithmetic',
    ),
    "other weights": (
        'state.items[0].tensors[0][0] = "embeddings"',
        "embedding.weight must hold 224 numbers; got none",
    ),
}


WHAT_TO_DO = "Make this page again, model and page by one version of attnlib"


UNPACKED = "for (const [name, value] of Object.entries(state)) {"


def changed(widget, change):
    """The widget's page; before it is drawn, its state is changed."""
    page = widget.to_html()
    assert page.count(UNPACKED) == 1
    return page.replace(UNPACKED, f"{change};\n{UNPACKED}")


@pytest.mark.parametrize(("change", "message"), CANNOT.values(), ids=CANNOT)
def test_a_model_that_cannot_be_shown_says_why(opened, change, message):
    page = opened(changed(bare("sort"), change))
    said = page.locator("[role=alert]").inner_text()
    assert said.startswith(f"The model sort cannot be computed: {message}")
    assert said.endswith(f". {WHAT_TO_DO}.") and "\n" not in said


def test_another_model_stays_usable(opened):
    change = CANNOT["another version"][0].replace("[0]", "[1]")
    page = opened(changed(bare("sort", "reverse"), change))
    model, box = page.get_by_label("Model", exact=True), page.locator("input[type=text]")
    model.select_option("reverse")
    said = page.locator("[role=alert]").inner_text()
    assert said.startswith("The model reverse cannot be computed: this page knows no setting rotary")
    assert said.endswith(f"{WHAT_TO_DO}, or choose another model.")
    box.fill("bad")
    assert page.locator("[role=alert]").inner_text() == said
    model.select_option("sort")
    assert page.locator("[role=alert]").is_hidden()
    assert page.locator("button.attnx-token").all_inner_texts() == ["<bos>", "b", "a", "d"]


# ---- the slider that moves attention


CURVE = ".attnp-curve canvas"


def score(page):
    return int(page.locator(".attnp-score").inner_text().partition(" of ")[0])


def tiles(page):
    return page.locator(".attnp-tile").all_inner_texts()


@torch.no_grad()
def letters(text, strength):
    """The letters that the model writes, by torch, with so much of all heads on the reference; "end" ends."""
    kept = stored_model("algorithmic_reasoning", REVERSES)
    sample = kept.task.annotate(f"{text}={text[::-1]}")
    heads = [(layer, head) for layer in range(2) for head in range(4)]
    with reinforced(kept.model, heads, sample.reference[None], strength):
        logits = kept.model(sample.input_ids[None]).logits[0]
    found = kept.task.tokenizer.convert_ids_to_tokens(logits[len(text) + 1 : -1].argmax(-1).tolist())
    return ["end" if each == "<eos>" else each for each in found]


def right(text, strength):
    return sum(map(str.__eq__, letters(text, strength), text[::-1]))


def test_a_slide_moves_tiles_score_and_point_as_torch_has_them(opened):
    text, (page, slider) = TEXTS[0], at_slider(opened)
    assert len(text) == 21 and right(text, 0.0) <= 2 and right(text, 1.0) == 21
    drawn = set()
    for percent in (0, 45, 100):
        slider.fill(str(percent))
        assert tiles(page) == letters(text, percent / 100)
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
    assert tiles(page) == letters("abcdefghijklmnop", 0.5)
    page.get_by_role("button", name="as trained").click()
    assert tiles(page) == letters("abcdefghijklmnop", 0.0) and slider.input_value() == "0"
    slider.fill("100")
    assert tiles(page) == letters("abcdefghijklmnop", 1.0)


@pytest.mark.parametrize(("dark", "width"), [(False, 1400), (True, 400)])
def test_every_tile_is_in_sight_and_axe_finds_nothing(opened, dark, width):
    page, slider = at_slider(opened, dark=dark, width=width)
    slider.fill("45")
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    edge = "all => all.map((each) => each.getBoundingClientRect().right)"
    edges = page.locator(".attnp-tile").evaluate_all(edge)
    assert len(edges) == 21 and max(edges) < width
    assert violations(page) == []


def at_slider(opened, **settings):
    page = opened(ModelExplorer(**redirecting()), **settings)
    return page, page.locator(".attnp-slider")
