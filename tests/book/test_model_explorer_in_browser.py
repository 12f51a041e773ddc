"""A model in the page, typed at: what it writes, what its heads look at, and what a swapped head changes."""

import base64
import copy
import random
import re

import pytest
import torch

from attnlib.generators import rasp
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.attention import heads_ablated, reinforced
from attnlib.models.stored import stored_model, stored_models
from attnlib.widgets import ModelExplorer
from attnlib.widgets.front_end import front_end
from book.chapters.trying import texts_for
from tests.browser import canvas_hash, readout
from tests.explorers import HOSTILE

pytestmark = pytest.mark.book

MAP = ".attnx-map"
CHAPTERS = ("rasp_languages", "arithmetic_lens", "algorithmic_reasoning")
MARKUP = "script, style, img, iframe, b"
REVERSES = "string reversal, sinusoidal positions"


def shown(chapter="rasp_languages", *names):
    def parts(kept):
        own = {"arithmetic_lens": ["58+67", "99+9"], "algorithmic_reasoning": ["dh13h", "longerthantraining"]}
        texts = own.get(chapter) or texts_for(kept)
        return {"model": kept.model, "task": kept.task, "texts": texts, "note": kept.note}

    return {name: parts(kept) for name, kept in stored_models(chapter).items() if name in names or not names}


def explorer(name="sort", chapter="rasp_languages", **settings):
    return ModelExplorer(shown(chapter, name), **({"layer": 0} | settings))


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


# ---- the numbers


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_stored_models_give_in_the_page_what_they_give_in_torch(browser, chapter):
    """25 sequences each, in double precision: torch's single precision is off by up to 3e-4 (reverse)."""
    script, _ = front_end("model_weights.js")
    page = browser.new_page()
    page.add_script_tag(content=f'"use strict";\n{script}\nwindow.unpackModel = unpackModel;')
    widget, worst = ModelExplorer(shown(chapter)), 0.0
    for index, kept in enumerate(stored_models(chapter).values()):
        batch, exact = kept.tests[0], copy.deepcopy(kept.model).double()
        some = zip(batch.input_ids[:25], batch.attention_mask[:25], strict=True)
        rows = [ids[real] for ids, real in some]
        state = {"items": widget.items, "weights": base64.b64encode(widget.weights).decode()}
        found = page.evaluate(
            """([state, index, rows]) => {
              const bytes = Uint8Array.from(atob(state.weights), (letter) => letter.charCodeAt(0));
              const model = unpackModel({ get: (name) => (name === "weights" ? bytes : state[name]) }, index);
              return rows.map((ids) => Object.values(model.read(ids)).map((values) => [...values]));
            }""",
            [state, index, [row.tolist() for row in rows]],
        )
        for ids, ours in zip(rows, found, strict=True):
            with torch.no_grad():
                read = exact(ids[None], output_attentions=True)
            for here, there in zip(ours, (read.logits, read.attentions), strict=True):
                worst = max(worst, float((torch.tensor(here) - there.flatten()).abs().max()))
    page.close()
    print(f"{chapter}: largest difference {worst:.2g}")
    assert worst < 1e-4


# ---- typing


def test_typing_changes_the_output_and_the_maps(opened):
    page, kept = opened(explorer()), stored_model("rasp_languages", "sort")
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


def test_the_focus_stays_in_the_box_while_typing(opened):
    page = opened(explorer())
    page.locator("input[type=text]").click()
    page.keyboard.press("Control+a")
    page.keyboard.type("fade", delay=20)
    assert line(page, "right") == list("adef")
    assert page.evaluate("document.activeElement.value") == "fade"


def test_a_sum_is_typed_and_the_model_adds(opened):
    page = opened(explorer("addition, seed 0", "arithmetic_lens"))
    assert said(page) == "58+67=125, right"
    before = canvas_hash(page, MAP)
    typed(page, "12+34=")
    assert said(page) == "12+34=46, right"
    assert line(page, "right") == ["", "", "", "", "", "4", "6", "<eos>"]
    assert page.locator("button.attnx-token").all_inner_texts() == ["<bos>", *"12+34=46"]
    assert canvas_hash(page, MAP) != before


def test_blanks_in_a_sum_are_nothing_and_the_chosen_row_stays_at_the_equals_sign(opened):
    page = opened(explorer("addition, seed 0", "arithmetic_lens", query=6))
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
    page = opened(explorer("addition, seed 0", "arithmetic_lens"))
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
    page = opened(explorer())
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


@pytest.mark.parametrize(
    ("name", "chapter", "good"),
    [
        ("sort", "rasp_languages", "cabbage"),
        ("addition, seed 0", "arithmetic_lens", "12+34="),
        (REVERSES, "algorithmic_reasoning", "dh13h"),
    ],
)
def test_bad_texts_are_refused_or_read_and_break_nothing(opened, name, chapter, good):
    page = opened(explorer(name, chapter))
    typed(page, good)
    expected, picture, markup = said(page), canvas_hash(page, MAP), page.locator(MARKUP).count()
    for text in bad_texts(good):
        typed(page, text)
        alert = page.locator("[role=alert]")
        wrong = page.locator("input[type=text]").get_attribute("aria-invalid") == "true"
        assert alert.is_visible() == wrong, ascii(text)
        message = alert.inner_text() if wrong else said(page)
        assert message.strip() and len(message) < 1000 and "undefined" not in message, (ascii(text), message)
        assert page.locator(MARKUP).count() == markup, ascii(text)
    typed(page, good)
    assert (said(page), canvas_hash(page, MAP)) == (expected, picture)


# ---- swapping


@pytest.mark.parametrize(("swap", "instead"), [("even", "uniform"), ("off", "zero")])
def test_a_swapped_head_changes_the_output_as_in_torch(opened, swap, instead):
    page, kept = opened(explorer()), stored_model("rasp_languages", "sort")
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


def test_a_supervised_head_can_be_swapped_for_the_programs(opened):
    page, kept = opened(explorer("hist, supervised")), stored_model("rasp_languages", "hist, supervised")
    swapped(page, "program")
    assert said(page).startswith("With L0H0 the program's: ")
    target = kept.task.target_attention("cabbage")[0, 0]
    page.locator("button.attnx-token").nth(3).hover()
    looked = readout(page)
    assert "100 % of the row on its reference" in looked
    assert f"It writes '{line(page, 'writes now')[2]}' with probability 0." in looked
    assert f"{1 / target[3].sum():.2f}" in looked


def test_a_head_can_be_pushed_part_of_the_way_as_in_torch(opened):
    """The slider is the strength of `reinforced`: the page writes and looks as torch does."""
    page, kept = opened(explorer("hist, supervised")), stored_model("rasp_languages", "hist, supervised")
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
    weight = canvas_hash(page, MAP)
    slider.fill("0")
    assert said(page).endswith("(as trained: 7 of 7 outputs right)") and canvas_hash(page, MAP) != weight
    assert line(page, "writes now") == line(page, "as trained")


@pytest.mark.parametrize("strength", [0.35, 1.0])
def test_a_model_that_reverses_is_pushed_as_in_torch(opened, strength):
    """All heads of the last layer onto the reference, on a string longer than any in training."""
    kept, text = stored_model("algorithmic_reasoning", REVERSES), "longerthantraining"
    swaps = {f"L1H{head}": "program" for head in range(4)}
    page = opened(explorer(REVERSES, "algorithmic_reasoning", text=text, swaps=swaps, strength=0.0))
    sample = kept.task.annotate(f"{text}={text[::-1]}")
    right = sample.target_ids[len(text) + 1 :]

    @torch.no_grad()
    def count(strength):
        with reinforced(kept.model, [(1, head) for head in range(4)], sample.reference[None], strength):
            written = kept.model(sample.input_ids[None]).logits[0, len(text) + 1 :].argmax(-1)
        return f"{int((written == right).sum())} of {len(right)} outputs right"

    assert said(page).endswith(f" the reference's at 0 %: {count(0.0)} (as trained: {count(0.0)})")
    page.get_by_label("How much of it, in per cent").fill(str(round(100 * strength)))
    assert f"the reference's{' at 35 %' if strength < 1 else ''}: {count(strength)} (as" in said(page)
    assert strength < 1 or count(1.0) > count(0.0)
    typed(page, "dh13h")
    assert line(page, "as trained")[-6:] == [*"h31hd", "<eos>"] and line(page, "reads") == list("dh13h=h31hd")


def test_only_heads_with_a_program_offer_it_and_the_mean_stands_for_all_heads(opened):
    page = opened(explorer("addition, seed 0", "arithmetic_lens"))
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


# ---- several models, a language of one's own


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


# ---- the page around it


@pytest.mark.parametrize(
    ("name", "chapter", "longest"),
    [
        ("sort", "rasp_languages", "abcdefghij" * 3),
        ("addition, seed 0", "arithmetic_lens", "99+99"),
        (REVERSES, "algorithmic_reasoning", "abcdefghij" * 4),
    ],
)
def test_a_narrow_screen_is_not_overflowed(opened, name, chapter, longest):
    page = opened(explorer(name, chapter, text=longest), width=400)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_is_written_behind_a_long_question_is_in_view_until_it_is_scrolled_away(opened):
    page = opened(explorer(REVERSES, "algorithmic_reasoning", text="longerthantraining"), width=400)
    scrolled = page.locator(".attno-result .attnx-scroll")
    cell = page.locator(".attno-result tr").nth(1).locator("td", has_text=re.compile(".")).first
    frame, first = scrolled.bounding_box(), cell.bounding_box()
    name = page.get_by_role("rowheader", name="writes", exact=True).bounding_box()
    assert name["x"] + name["width"] <= first["x"] < frame["x"] + frame["width"] / 2
    scrolled.evaluate("node => { node.scrollLeft = 0; }")
    page.get_by_label("Layer", exact=True).select_option(index=1)
    assert scrolled.evaluate("node => node.scrollLeft") == 0


def test_it_can_be_used_by_keyboard_alone(opened):
    page = opened(explorer())
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
