"""The explorer of a language model in the page, in Chromium with the network off.

With a model that is made up, whose every number is known; and with the book's own where it has been fetched.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlib.rollout import UNINFORMATIVE
from attnlib.rollout.generative import _ignored
from attnlib.widgets import LanguageModelExplorer
from attnlib.widgets.generation_explorer import Recording
from attnlib.widgets.language_model_explorer import BOOK, ModelFile, Trial
from tests.book.test_generation_explorer_in_browser import STATUS, listed
from tests.browser import agrees, focused, violations, watched_page
from tests.explorers import passage

pytestmark = pytest.mark.book

LAYERS, HEADS, LONGEST = 3, 2, 40

MADE_UP = Path(__file__).with_name("made_up_model.js").read_text(encoding="utf-8")
FILE = ModelFile("made up", "made-up.gguf", 4, "0" * 64)
PROMPT = "The sky , over Rome is"
ASKED = ["AttnLRP, logits", "occlusion, nats"]


class MadeUp(LanguageModelExplorer):
    """With the made-up model in the place of the engine."""

    _esm = MADE_UP + re.sub(r"class LiveModel\b", "class RealModel", str(LanguageModelExplorer._esm))


def explorer(**settings):
    return MadeUp(**{"file": FILE, "asked": PROMPT} | settings)


def part(which, g, size, n):
    """What the made-up model says."""
    i = np.arange(size)
    return torch.tensor(((7 * i + 3 * g + which) % 11 + 1) / (12 * n))


def choose(page, content="GGUF"):
    page.locator("input[type=file]").set_input_files(
        {"name": "x.gguf", "mimeType": "application/octet-stream", "buffer": content.encode()}
    )


def done(page):
    page.wait_for_function("document.querySelector('.attnw-going').hidden")


def begun(page):
    """The page, once its model has written all of its words."""
    page.wait_for_selector("[data-g='23']")
    done(page)
    opened_up(page)
    return page


def opened_up(page):
    """Opens what stands under "more"."""
    page.locator(".attnw-more").evaluate("node => { node.open = true; }")


def write(page):
    page.get_by_role("button", name="Write").click()


def asker(page):
    """The button that asks for occlusion."""
    return page.locator(".attnw-main > button")


@pytest.fixture
def live(opened):
    """A page whose model has written."""
    page = opened(explorer(title="T"))
    choose(page)
    return begun(page)


# ---- the door


def test_before_a_model_is_chosen_what_was_recorded_is_there_and_nothing_else_runs(opened):
    page = opened(explorer())
    assert page.locator("textarea:visible, .attng-body:visible").count() == 0
    said = page.locator(".attnw-door").inner_text()
    assert (
        "made up can run in this page" in said and "made-up.gguf" in said and "stays on this device" in said
    )
    assert page.evaluate("window.opened") is None


def test_a_file_that_is_none_is_refused_as_text_and_can_be_chosen_again(opened):
    page = opened(explorer())
    choose(page, "<b>x</b>")
    done(page)
    assert page.locator("[role=alert]").inner_text() == "This is no GGUF file: it begins with '<b>x</b>'"
    choose(page)
    begun(page)
    assert page.locator("[role=alert]").is_hidden() and page.locator(".attnw-door").is_hidden()


def test_loading_can_be_stopped(opened):
    page = opened(explorer())
    page.evaluate("window.pause = 60000")
    choose(page)
    page.get_by_role("button", name="Stop").click()
    done(page)
    assert page.locator(".attnw-door").is_visible() and page.locator("[role=alert]").is_hidden()
    assert page.evaluate("window.opened") is None


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("delete window.Worker;", "this browser has no workers, which it needs."),
        ("WebAssembly.validate = () => false;", "this browser has no WebAssembly with vectors (SIMD)"),
        (
            'Object.defineProperty(navigator, "deviceMemory", { value: 2 });',
            "this device has 2 GB of memory, too little beside all else for 590 MB",
        ),
    ],
)
def test_a_browser_that_cannot_says_why_and_leaves_what_was_recorded(browser, tmp_path, lacking, said):
    widget = explorer(file=BOOK)
    widget._show([Recording.of("kept", **passage())])
    (tmp_path / "x.html").write_text(f"<script>{lacking}</script>{widget.to_html()}")
    with watched_page(browser) as (page, problems):
        page.goto((tmp_path / "x.html").as_uri())
        door = page.locator(".attnw-door")
        assert said in door.inner_text() and door.locator("button, input").count() == 0
        assert page.locator("[data-g]").count() == 4 and problems == []


def test_a_phone_is_told_what_it_takes_and_begins_when_asked(browser, tmp_path):
    phone = """<script>const asked = matchMedia;
      matchMedia = (query) => (query.includes("coarse") ? { matches: true } : asked(query));</script>"""
    (tmp_path / "made-up.gguf").write_text("GGUF")
    path = tmp_path / "made-up.gguf"
    (tmp_path / "x.html").write_text(phone + explorer(file=ModelFile.of(path), inside=path).to_html())
    with watched_page(browser, width=400) as (page, problems):
        page.goto((tmp_path / "x.html").as_uri())
        page.wait_for_timeout(300)
        assert page.evaluate("window.opened") is None
        assert "a phone may not have that" in page.locator(".attnw-door").inner_text()
        page.get_by_role("button", name="Start made-up").click()
        begun(page)
        assert problems == []


# ---- what is shown


def test_the_filter_is_pythons(opened):
    words = ["The", " sky", " ,", " «a»", " ...", " don't", " THE", " €", " 3", " the.", "<|user|>"]
    page = opened(explorer(asked="".join(words[:-1])))
    choose(page)
    begun(page)
    hidden = page.locator(".attng-word.attng-hidden").evaluate_all(
        "all => all.map((w) => Number(w.dataset.k))"
    )
    assert hidden == [k for k, word in enumerate(words[:-1]) if _ignored(word, UNINFORMATIVE)]
    page.get_by_label("as a chat").check()
    write(page)
    page.wait_for_function("document.querySelector('[data-k]').textContent === '<|user|>'")
    assert page.locator("[data-k='0'].attng-hidden").count() == 1


HELD = """() => {
  window.pause = 150;
  const two = () => document.querySelectorAll("[data-g]").length === 2;
  window.held = new MutationObserver(() => { if (two()) window.pause = 60_000; });
  held.observe(document.body, { childList: true, subtree: true });
}"""
"""Words come slowly, and after the second none comes any more."""


def test_words_come_one_by_one_and_can_be_stopped(opened):
    page = opened(explorer())
    choose(page)
    begun(page)
    page.evaluate(HELD)
    page.get_by_label("Your prompt").fill("Another text")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("document.querySelectorAll('[data-g]').length === 2")
    assert page.locator("[data-g].attnx-chosen").get_attribute("data-g") == "1"  # the newest is followed
    page.get_by_role("button", name="Stop").click()
    done(page)
    words = page.locator("[data-g]").count()
    page.wait_for_timeout(400)
    assert page.locator("[data-g]").count() == words < 6
    assert page.locator(".attng-text").first.inner_text() == "Another text"
    page.evaluate("held.disconnect(); window.pause = 0")
    write(page)  # what was cut short is written again
    begun(page)


def test_markup_stays_text(opened):
    page = opened(explorer(asked="<img src=x onerror=alert(1)> </script>", title="</script><b>"))
    choose(page)
    begun(page)
    assert page.locator("[data-g='0']").inner_text() == "<b>word0"
    assert page.locator(".attng-text").first.inner_text() == "<img src=x onerror=alert(1)> </script>"
    assert page.locator(".attnx img, .attnx b").count() == 0


def test_what_was_recorded_is_one_text_among_the_readers(opened):
    widget = explorer()
    widget._show([Recording.of("kept", **passage())])
    page = opened(widget)
    assert page.locator("[data-g]").count() == 4
    choose(page)
    begun(page)
    text = page.get_by_label("Text", exact=True)
    assert text.locator("option").all_inner_texts() == ["yours, as it is", "kept"]
    page.get_by_label("Text", exact=True).select_option("kept")
    assert page.locator("[data-g]").count() == 4 and page.get_by_label("Head", exact=True).is_hidden()
    page.get_by_label("Text", exact=True).select_option("yours, as it is")
    assert page.locator("[data-g]").count() == 24


# ---- what is asked


def test_how_words_are_chosen_goes_to_the_model(live):
    for label, value in {"Words to write at most": "3", "Temperature; 0": "0.7", "Seed of": "5"}.items():
        live.get_by_label(label).fill(value)
    write(live)
    live.wait_for_function("document.querySelectorAll('[data-g]').length === 3")
    asked = live.evaluate("window.asked.at(-1)")
    assert (asked["newTokens"], asked["temperature"], asked["seed"]) == (3, 0.7, 5)


def test_a_continuation_is_forced_and_its_probability_said(live):
    live.get_by_label("Continuation to force").fill(" blue today")
    write(live)
    live.wait_for_function("document.querySelectorAll('[data-g]').length === 2")
    done(live)
    asked = live.evaluate("window.asked.at(-1)")
    assert len(asked["forced"]) == 2 and len(asked["ids"]) == 6
    cells = live.locator(".attnw-texts td").all_inner_texts()
    assert agrees(cells[1], np.exp(-0.5))
    live.get_by_label("Continuation to force").fill("blue")  # "isblue" is another token
    write(live)
    done(live)
    assert "put a blank before it" in live.locator("[role=alert]").inner_text()


def test_a_text_that_is_too_long_or_empty_is_refused(live):
    count = len(live.evaluate("window.asked"))
    for text, said in {"": "There is no prompt", "w " * 30: f"reads {LONGEST} at most"}.items():
        live.get_by_label("Your prompt").fill(text)
        write(live)
        done(live)
        assert said in live.locator("[role=alert]").inner_text()
    assert len(live.evaluate("window.asked")) == count and live.locator("[data-g]").count() == 24


def test_what_takes_long_says_so_before_it_starts(live):
    live.get_by_label("Your prompt").fill("word " * 16)
    live.wait_for_function(
        "document.querySelector('.attnw form').textContent.includes('17 tokens in the prompt; about 2 s')"
    )


def test_prompts_that_are_offered_are_written_at_once(opened):
    trials = [
        Trial("one", "A b c", note="<i>Look</i>"),
        Trial("two", "D e", " word0 word1 word2", word="word1", chat=True),
    ]
    page = opened(explorer(trials=trials, asked=""))
    choose(page)
    begun(page)
    assert page.locator(".attng-text").first.inner_text() == "A b c"  # the first at once
    assert page.locator(".attnw-tries + .attnw-note").inner_text() == "<i>Look</i>"
    offered = page.get_by_label("Prompt to try")
    assert offered.locator("option:checked").inner_text() == "one"
    offered.select_option("two")
    page.wait_for_function("document.querySelectorAll('[data-g]').length === 3")
    done(page)
    assert page.locator("[data-g][aria-pressed=true]").inner_text() == "word1"
    assert (
        page.get_by_label("as a chat").is_checked()
        and page.locator(".attnw-tries + .attnw-note").inner_text() == ""
    )
    page.get_by_label("Your prompt").fill("Mine")
    assert offered.locator("option:checked").inner_text() == "your own"


# ---- switches


def test_switches_change_what_is_written_beside_what_it_writes_as_it_is(live):
    live.locator("[data-k='4']").first.click()
    live.get_by_label("Layer of the switch").select_option(index=2)
    live.get_by_label("Head of the switch").select_option(index=2)
    live.get_by_label("What its attention becomes").select_option("push")
    live.get_by_role("button", name="switch", exact=True).click()
    live.wait_for_function("document.querySelector('.attnw-parted')?.textContent.includes('word2')")
    done(live)
    push = {"layer": 2, "head": 1, "kind": "push", "token": 4}
    assert live.evaluate("window.asked.at(-1).changes") == [push]
    live.get_by_role("button", name="blank '␣Rome' (4)").click()  # the token stays chosen
    done(live)
    assert live.evaluate("[window.asked.at(-1).changes, window.asked.at(-1).blanked]") == [[push], [4]]
    name = "layer 3, head 2 redirected to '␣Rome' (4)"
    assert live.locator(".attnw-texts th[scope=row]").all_inner_texts() == [
        "as it is",
        f"with {name}, '␣Rome' (4) blank",
    ]
    texts = live.locator(".attnw-parted").all_inner_texts()
    assert texts[0].startswith(" word2") and texts[1].startswith(" other2")
    assert live.locator("[data-g='2']").inner_text() == "other2"
    assert asker(live).is_disabled()
    live.get_by_label("Text", exact=True).select_option("as it is")
    assert live.locator("[data-g='2']").inner_text() == "word2"
    live.get_by_role("button", name=f"{name} ×").click()
    done(live)
    assert focused(live) == "'␣Rome' (4) blank ×"  # the next of them: what was pressed is gone
    assert live.evaluate("[window.asked.at(-1).changes, window.asked.at(-1).blanked]") == [[], [4]]
    count = len(live.evaluate("window.asked"))
    live.get_by_role("button", name="as it is", exact=True).click()
    done(live)
    assert focused(live) == "switch"
    assert len(live.evaluate("window.asked")) == count  # what it writes as it is, is known
    assert live.locator("[data-g='2']").inner_text() == "word2" and live.locator(".attnw-texts").is_hidden()


def test_a_layer_of_heads_is_switched_together_and_tokens_of_another_prompt_are_forgotten(live):
    live.get_by_label("What its attention becomes").select_option("even")
    live.get_by_role("button", name="switch", exact=True).click()
    done(live)
    assert live.evaluate("window.asked.at(-1).changes.map(({ head }) => head)") == [0, 1]
    live.locator("[data-k='1']").first.click()
    live.get_by_role("button", name="blank '␣sky' (1)").click()
    done(live)
    live.locator("[data-k='5']").first.click()
    assert live.get_by_role(
        "button", name="blank '␣is' (5)"
    ).is_disabled()  # the last one predicts the first word
    live.get_by_label("Your prompt").fill("Other words here")
    write(live)
    live.wait_for_function("window.asked.at(-1).ids.length === 3 && window.asked.at(-1).changes.length === 2")
    done(live)
    assert live.evaluate("window.asked.at(-1).blanked") == []


# ---- blank-out


def test_blank_out_is_asked_for_one_word_and_stands_beside_the_other_measures(live):
    live.get_by_label("hide 2 uninformative tokens").uncheck()
    live.locator("[data-g='1']").click()
    assert "Its probability was 0.61." in live.locator(".attnx-readout").inner_text()
    ask = asker(live)
    assert ask.inner_text() == "occlusion for '␣word1' (1), about 2 minutes"
    ask.click()
    live.wait_for_function("document.querySelector('.attnx-legend span').textContent === 'nats'")
    assert asker(live).is_hidden()  # known, for this word
    assert live.evaluate("document.activeElement.ariaLabel") == "What is shown of every word"
    asked = live.evaluate("window.asked.at(-1)")
    assert asked["at"] == 7 and len(asked["blanked"]) == 8
    assert listed(live) == ([5, 4, 3], ["3.00", "2.00", "1.00"])
    colours = live.locator("[data-k]").evaluate_all("all => all.map((w) => w.style.backgroundColor)")
    assert [bool(colour) for colour in colours[:6]] == [True, True, False, True, True, True] and colours[
        0
    ] != colours[4]
    heads = live.locator(".attnw-measures thead th").all_inner_texts()
    assert heads == ["the largest", *ASKED, "rollout", "its last layer", "attention"]
    cells = {
        row[0]: row[1:]
        for row in [text.split("\t") for text in live.locator(".attnw-measures tbody tr").all_inner_texts()]
    }
    rolled = part(0, 1, LAYERS * 7, 7).view(LAYERS, 7)
    assert agrees(cells["␣is (5)"][2], rolled.mean(0)[5]) and agrees(cells["␣is (5)"][3], rolled[-1, 5])
    assert agrees(cells["␣is (5)"][4], part(2, 1, LAYERS * HEADS * 7, 7).view(-1, 7).mean(0)[5])
    assert cells["␣is (5)"][:2] == ["−4.00", "3.00"] and cells["The (0)"][:2] == ["1.00", "−2.00"]


def test_a_word_that_is_chosen_shows_its_attnlrp(live):
    live.get_by_label("hide 2 uninformative tokens").uncheck()
    unit = "document.querySelector('.attnx-legend span').textContent"
    assert live.evaluate("window.explained") == [6] and live.evaluate(unit) == "logit"
    live.locator("[data-g='1']").click()
    done(live)
    assert live.evaluate("window.explained") == [6, 7]
    assert listed(live) == ([0], ["1.00"])
    live.locator("[data-g='0']").click()
    done(live)
    assert live.evaluate("window.explained") == [6, 7]  # it is known
    live.evaluate("window.pause = 60000")
    live.locator("[data-g='2']").click()
    live.get_by_role("button", name="Stop").click()
    done(live)
    live.evaluate("window.pause = 0")
    live.locator("[data-g='3']").click()
    done(live)
    assert live.evaluate("window.explained") == [6, 7, 8, 9]
    live.get_by_label("What is shown of every word").select_option("attention")
    live.locator("[data-g='4']").click()
    assert live.evaluate("window.explained") == [6, 7, 8, 9]  # attention is what the reader wants


def test_blank_out_can_be_stopped(live):
    live.evaluate("window.pause = 60000")
    asker(live).click()
    live.wait_for_function("document.querySelector('progress').value === 0.25")
    live.get_by_role("button", name="Stop").click()
    done(live)
    assert live.evaluate("document.activeElement.ariaLabel") == "Your prompt"
    options = live.get_by_label("What is shown of every word").locator("option").all_inner_texts()
    assert "occlusion" not in options and asker(live).is_enabled()


def test_occlusion_begins_by_itself_and_says_where_the_source_stands_that_is_known(opened):
    trial = Trial("one", "A b c d e", word="word1", source="c d")
    page = opened(explorer(trials=[trial], asked=""))
    page.evaluate("window.slow = 1; window.pause = 20")
    choose(page)
    said = page.locator(".attnw-verdict")
    page.wait_for_function("document.querySelector('.attnw-verdict').textContent.includes('computed')")
    page.wait_for_function(
        "document.querySelector('.attnw-verdict').textContent.includes('1st by occlusion')"
    )
    done(page)
    assert page.evaluate("document.querySelector('.attnx-legend span').textContent") == "logit"
    rolled = part(0, 1, LAYERS * 6, 6).view(LAYERS, 6).mean(0)[:4]
    place = 1 + int((rolled > rolled[2:4].max()).sum())
    verdict = (
        "The source of '␣word1' (1) is 'c d'. Of 4 tokens it ranks 3rd by AttnLRP, 1st by occlusion and "
        f"{ {1: '1st', 2: '2nd', 3: '3rd', 4: '4th'}[place] } by rollout."
    )
    assert said.inner_text() == verdict
    page.locator("[data-g='2']").click()  # of which no source is known
    done(page)
    assert said.inner_text() == verdict and page.evaluate("window.asked.at(-1).at") == 7
    page.get_by_label("What is shown of every word").select_option("rollout")
    count = len(page.evaluate("window.asked"))
    page.locator("[data-g='3']").click()
    assert len(page.evaluate("window.asked")) == count  # rollout is what the reader wants


def test_an_occlusion_that_was_stopped_does_not_begin_again_by_itself(opened):
    page = opened(explorer())
    page.evaluate("window.slow = 1")
    choose(page)
    begun(page)
    page.evaluate("window.pause = 60000")
    page.locator("[data-g='1']").click()
    page.get_by_role("button", name="Stop").click()
    done(page)
    count = len(page.evaluate("window.asked"))
    page.locator("[data-k='1']").first.click()
    assert len(page.evaluate("window.asked")) == count and asker(page).is_visible()


def test_four_controls_are_seen_and_the_likeliest_tokens_stand_there_as_bars(opened):
    page = opened(explorer(trials=[Trial("one", "A b c")], asked=""))
    choose(page)
    page.evaluate("window.slow = 1")
    begun(page)
    page.locator(".attnw-more").evaluate("node => { node.open = false; }")
    seen = page.locator(".attnx :is(select, input, textarea, .attnq-go, .attnw-main button)").evaluate_all(
        "all => all.filter((each) => each.checkVisibility()).map((each) => each.ariaLabel ?? each.innerText)"
    )
    assert seen == ["Prompt to try", "Your prompt", "Write", "What is shown of every word"]
    assert page.locator(".attnw-likely .attnw-word").all_inner_texts() == ["␣<i>", "b"]
    assert page.locator(".attnw-likely .attnw-share").all_inner_texts() == ["0.61", "<0.01"]


# ---- the page around


@pytest.mark.parametrize(("dark", "width"), [(False, 1400), (True, 400)])
def test_axe_finds_nothing(opened, dark, width):
    page = opened(explorer(trials=[Trial("one", "A b c d", note="See.")], title="T"), dark=dark, width=width)
    assert violations(page) == []
    choose(page)
    begun(page)
    page.locator("[data-k='1']").first.click()
    page.get_by_role("button", name="blank '␣sky' (1)").click()
    done(page)
    page.get_by_label("Text", exact=True).select_option("as it is")
    asker(page).click()
    page.wait_for_function("document.querySelector('.attnx-legend span').textContent === 'nats'")
    assert violations(page) == []
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert page.locator(STATUS).inner_text()


# ---- over http, and inside the page


def test_over_http_the_file_is_fetched_when_asked_for_and_once(served, browser):
    origin, folder, paths = served
    (folder / "models").mkdir()
    (folder / "models/made-up.gguf").write_text("GGUF")
    top = '<html lang="en" data-content_root="../"><link rel="icon" href="data:,">'
    (folder / "notebooks").mkdir()
    (folder / "notebooks/x.html").write_text(f"{top}{explorer().to_html()}</html>")
    with watched_page(browser, origin=origin) as (page, problems):
        for begins in ("Load made up (0 MB)", "Start made up (0 MB, kept by this browser)"):
            page.goto(f"{origin}/notebooks/x.html")
            page.wait_for_timeout(200)
            before = len(paths)
            page.get_by_role("button", name=begins).click()
            begun(page)
            assert paths[before:] == (["/models/made-up.gguf"] if begins.startswith("Load") else [])
        assert problems == []


def test_a_file_that_is_not_there_or_cut_short_is_said_and_another_can_be_chosen(served, browser):
    origin, folder, _ = served
    (folder / "x.html").write_text(f'<link rel="icon" href="data:,">{explorer().to_html()}')
    with watched_page(browser, origin=origin) as (page, problems):
        page.goto(f"{origin}/x.html")
        page.get_by_role("button", name="Load made up").click()
        done(page)
        assert "made-up.gguf is not beside this page (404)" in page.locator("[role=alert]").inner_text()
        (folder / "models").mkdir()
        (folder / "models/made-up.gguf").write_text("GG")
        page.get_by_role("button", name="Load made up").click()
        done(page)
        assert "came with 2 bytes in place of 4" in page.locator("[role=alert]").inner_text()
        choose(page)
        begun(page)
        assert all("404" in problem for problem in problems)


def test_a_file_inside_the_page_is_read_at_once(tmp_path, browser):
    (tmp_path / "made-up.gguf").write_text("GGUF" + "x" * 100_000)
    widget = explorer(file=ModelFile.of(tmp_path / "made-up.gguf"), inside=tmp_path / "made-up.gguf")
    widget.save_html(tmp_path / "sent.html")
    with watched_page(browser) as (page, problems):
        page.goto((tmp_path / "sent.html").as_uri())
        begun(page)
        assert page.locator('script[type="text/x-attnlib-model"]').count() == 0 and problems == []
