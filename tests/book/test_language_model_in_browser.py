"""Language models in the page, from file to picture, held against Python: a small one, and the book's own."""

from types import SimpleNamespace

import pytest
import torch

from attnlib.attribution.lrp import attn_lrp
from attnlib.attribution.perturbation import blank_out
from attnlib.generators.prompts import continued, encode
from attnlib.models.attention import heads_ablated
from attnlib.rollout import generate_with_rollout
from attnlib.widgets import LanguageModelExplorer
from attnlib.widgets.language_model_explorer import ModelFile
from attnlib.widgets.live import packing
from book.chapters.generative.figures import TRIALS
from book.chapters.generative.study import STUDY
from tests.book.test_generation_explorer_in_browser import listed
from tests.book.test_language_model_explorer_in_browser import asker, done, opened_up
from tests.browser import agrees, watched_page
from tests.live_page import small_llama, small_tokenizer
from tests.pretrained import books_file

pytestmark = pytest.mark.book

PROMPT = "The ferry to the island leaves at nine"
NEW = 8


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small model of random weights, its tokenizer and its file."""
    path = tmp_path_factory.mktemp("small") / "small.gguf"
    model, tokenizer = small_llama(), small_tokenizer()
    packing.pack(model, tokenizer, path)
    return SimpleNamespace(model=model, tokenizer=tokenizer, path=path, ids=encode(PROMPT, tokenizer))


@pytest.fixture
def page(opened, small):
    """A page whose small model has written."""
    page = opened(LanguageModelExplorer(file=ModelFile.of(small.path), asked=PROMPT), width=1400)
    page.get_by_label("Words to write at most").evaluate("(box, count) => { box.value = count; }", NEW)
    page.set_input_files("input[type=file]", small.path)
    page.wait_for_selector("[data-g='0']")
    done(page)
    opened_up(page)
    return page


def shows(page, matrix):
    """Whether the list shows the largest of a matrix [generated prompt layer], of some words and layers."""
    for g in (0, matrix.shape[0] - 1):
        page.locator(f"[data-g='{g}']").click()
        for layer in (-1, 1):
            page.get_by_label("Layer", exact=True).fill(str(layer))
            row = matrix[g].mean(-1) if layer < 0 else matrix[g, :, layer]
            places, values = listed(page)
            assert sorted(row[places]) == sorted(row.topk(len(places)).values)
            assert all(agrees(value, row[k]) for k, value in zip(places, values, strict=True))


def unfiltered(page):
    """Shows all tokens of the prompt."""
    if (box := page.get_by_label("uninformative token")).is_visible():
        box.uncheck()


def test_every_reading_is_what_python_computes(page, small):
    unfiltered(page)
    result = generate_with_rollout(small.model, small.ids, NEW, do_sample=False)
    assert page.locator("[data-g]").count() == len(result.tokens)
    free = generate_with_rollout(small.model, small.ids, NEW, do_sample=False, sink=[0])
    every = torch.cat([small.ids[0], result.tokens[:-1]])[None]
    with torch.no_grad():
        small.model.set_attn_implementation("eager")
        attention = torch.stack(small.model(every, output_attentions=True).attentions)[:, 0]
        small.model.set_attn_implementation("sdpa")
    n = small.ids.shape[1]
    attention = attention[:, :, n - 1 :, :n].permute(2, 3, 0, 1)  # generated prompt layer head
    ways = {"sinkFree": free.matrix, "overNull": result.over_null().matrix, "attention": attention.mean(-1)}
    for reading, matrix in {"rollout": result.matrix, **ways}.items():
        page.get_by_label("What is shown of every word").select_option(reading)
        shows(page, matrix)
    page.get_by_label("Head", exact=True).select_option(index=3)
    shows(page, attention[..., 2])


def test_attnlrp_and_blank_out_are_pythons(page, small):
    result = generate_with_rollout(small.model, small.ids, NEW, do_sample=False)
    unfiltered(page)
    page.locator("[data-g='1']").click()  # both begin by themselves
    page.wait_for_function("document.querySelector('.attnw-main > button').hidden")
    done(page)
    assert asker(page).is_hidden()
    every = torch.cat([small.ids[0], result.tokens[:1]])[None]
    for reading, method in {"relevance": attn_lrp, "blankOut": blank_out}.items():
        page.get_by_label("What is shown of every word").select_option(reading)
        expected = method(small.model, every, target=int(result.tokens[1]))[0]
        places, values = listed(page)
        assert len(places) > 2 and all(
            agrees(value, expected[k]) for k, value in zip(places, values, strict=True)
        )


def test_a_forced_text_and_switched_heads_are_pythons(page, small):
    ids, forced = continued(PROMPT, " in the morning", small.tokenizer)

    def probability():
        every = torch.cat([ids[0], forced])[None]
        with torch.no_grad():
            said = small.model(every).logits[0, ids.shape[1] - 1 : -1].log_softmax(-1)
        return float(said.gather(1, forced[:, None]).mean().exp())

    page.get_by_label("Continuation to force").fill(" in the morning")
    page.get_by_role("button", name="Write").click()
    page.wait_for_function(f"document.querySelectorAll('[data-g]').length === {len(forced)}")
    done(page)
    page.get_by_label("Layer of the switch").select_option(index=1)
    page.get_by_role("button", name="switch", exact=True).click()
    page.wait_for_selector(".attnw-texts tr:nth-child(2)")
    done(page)
    heads = [(1, head) for head in range(small.model.config.num_attention_heads)]
    with heads_ablated(small.model, heads, instead="zero"):
        without = probability()
    probabilities = page.locator(".attnw-texts td:last-child").all_inner_texts()
    assert [float(each) for each in probabilities] == pytest.approx([probability(), without], rel=0.06)


# ---- which file it is


def door(opened, small):
    return opened(LanguageModelExplorer(file=ModelFile.of(small.path), asked=PROMPT), width=1400)


def flipped(path, folder):
    """A file with one bit of a weight turned over: nothing but its checksum tells."""
    data = bytearray(path.read_bytes())
    data[-5000] ^= 1
    (folder / path.name).write_bytes(data)
    return folder / path.name


def test_the_pages_own_file_is_told_by_its_checksum(opened, small, tmp_path):
    page = door(opened, small)
    page.set_input_files("input[type=file]", flipped(small.path, tmp_path))
    done(page)
    said = page.locator("[role=alert]").inner_text()
    assert said.startswith("This is not the file that the page was made for") and "damaged" in said
    assert page.locator("[data-g]").count() == 0
    page.set_input_files("input[type=file]", small.path)
    page.wait_for_selector("[data-g='0']")
    assert "The file has the checksum of small; the name in it is" in page.locator("form").text_content()


def test_another_model_is_named_by_its_own_file(opened, small, tmp_path):
    other = small_llama(tie_word_embeddings=False)
    other.config._name_or_path = "somewhere/another <b>one"
    packing.pack(other, small.tokenizer, tmp_path / "other.gguf")
    page = door(opened, small)
    page.set_input_files("input[type=file]", tmp_path / "other.gguf")
    page.wait_for_selector("[data-g='0']")
    said = page.locator("form").inner_text()
    assert "This is another model than small" in said and "its file says “another <b>one”" in said


def test_a_damaged_file_beside_the_page_is_refused_and_not_kept(served, browser, small):
    origin, folder, paths = served
    (folder / "models").mkdir()
    flipped(small.path, folder / "models")
    explorer = LanguageModelExplorer(file=ModelFile.of(small.path), asked=PROMPT)
    (folder / "x.html").write_text(f'<link rel="icon" href="data:,">{explorer.to_html()}')
    with watched_page(browser, origin=origin) as (page, problems):
        page.goto(f"{origin}/x.html")
        for times in (1, 2):  # fetched again: the browser did not keep it
            page.get_by_role("button", name="Load small").click()
            done(page)
            assert "is not the file that the page was made for" in page.locator("[role=alert]").inner_text()
            assert paths.count("/models/small.gguf") == times
        (folder / "models/small.gguf").write_bytes(small.path.read_bytes())
        page.get_by_role("button", name="Load small").click()
        page.wait_for_selector("[data-g='0']")
        assert problems == []


# ---- the book's own


@pytest.fixture(scope="module")
def chapter(browser, tmp_path_factory):
    """The chapter's explorer, from disk; its reader has chosen the file, the first prompt is written."""
    path, place = books_file(), tmp_path_factory.mktemp("chapter") / "x.html"
    place.write_text(LanguageModelExplorer(trials=TRIALS).to_html(), encoding="utf-8")
    with watched_page(browser, width=1400) as (page, problems):
        page.goto(place.as_uri())
        page.set_default_timeout(120_000)
        page.set_input_files("input[type=file]", path)
        page.get_by_label("What is shown of every word").select_option("rollout")  # no occlusion by itself
        page.wait_for_selector("[data-g='23']")
        done(page)
        opened_up(page)
        yield page
        assert problems == []


def written(page, name):
    """Chooses a prompt that is offered; what is written then."""
    page.get_by_label("What is shown of every word").select_option("rollout")  # no occlusion by itself
    page.get_by_label("Prompt to try").select_option(name)
    done(page)
    return page.locator("[data-g]").all_inner_texts()


def test_the_needle_is_found_by_blank_out_wherever_it_stands(chapter):
    for name in ("a needle", "the needle moved"):
        assert "".join(written(chapter, name)).startswith("␣1936.")
        assert chapter.locator("[data-g][aria-pressed=true]").inner_text() == "1"
        assert "1" not in chapter.locator(".attng-name").all_inner_texts()
    asker(chapter).click()
    done(chapter)
    assert "1" in chapter.locator(".attng-name").all_inner_texts()[:3]


def test_the_studys_words_are_forced_and_what_speaks_for_them_can_be_blanked(chapter):
    for name, each in STUDY.items():
        words = written(chapter, name)
        assert "".join(words).replace("␣", "") == each.completion.replace(" ", "")
        assert chapter.locator("[data-g][aria-pressed=true]").inner_text() == each.word
    probability = chapter.locator(".attnx-readout")
    written(chapter, "weather")
    before = float(probability.inner_text().split("probability was ")[1].split()[0].rstrip("."))
    chapter.locator("[data-k='4']").first.click()
    chapter.get_by_role("button", name="blank '␣sunny' (4)").click()
    chapter.wait_for_selector(".attnw-texts tr:nth-child(2)")
    done(chapter)
    after = float(probability.inner_text().split("probability was ")[1].split()[0].rstrip("."))
    assert after < before / 5


def test_it_can_be_typed_to_and_stopped_at_any_time(chapter):
    chapter.get_by_label("Your prompt").fill("Once upon a time")
    chapter.get_by_label("Words to write at most").fill("400")
    chapter.get_by_role("button", name="Write").click()
    chapter.wait_for_function("document.querySelector('[data-k]').textContent === 'Once'")
    chapter.wait_for_selector("[data-g='3']")
    chapter.get_by_role("button", name="Stop").click()
    done(chapter)
    assert chapter.locator("[data-g]").count() < 400
    chapter.locator("[data-g='3']").click()
    stop = chapter.get_by_role("button", name="Stop", include_hidden=True).element_handle()
    asker(chapter).evaluate("(ask, stop) => { ask.click(); setTimeout(() => stop.click()); }", stop)
    done(chapter)
    chapter.get_by_label("Words to write at most").fill("4")
    assert len(written(chapter, "a chat")) == 4


def test_a_prompt_beyond_what_the_page_can_read_is_refused(chapter):
    chapter.get_by_label("Your prompt").fill("word " * 8192)
    chapter.get_by_role("button", name="Write").click()
    done(chapter)
    assert "this page reads" in chapter.locator("[role=alert]").inner_text()
    assert len(written(chapter, "Putin")) > 2
