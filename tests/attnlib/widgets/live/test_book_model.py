"""The book's own language model in the page, against torch: its texts, and what they drew on."""

import pytest
import torch

from attnlib.attribution.lrp import attn_lrp
from attnlib.attribution.perturbation import blank_out
from attnlib.generators.prompts import EXAMPLES, encode
from attnlib.models.pretrained import DEFAULT, load_language_model
from attnlib.pieces import pieces
from attnlib.rollout import generate_with_rollout
from book.chapters.generative.study import STUDY
from tests.browser import open_browser
from tests.live_page import FILE, live_page, rows_of
from tests.pretrained import books_file, trained_model

pytestmark = pytest.mark.book
THINGS = [
    "the sea",
    "an old clock",
    "Berlin",
    "prime numbers",
    "a lost dog",
    "rain",
    "Marie Curie",
    "bread",
    "3.14",
]
ASKED = [
    "What is {}?",
    "Write a short poem about {}.",
    "Name three facts about {}, one a line.",
    "Translate into French: I like {}.",
    "Is it true that {} was never seen on the moon?",
]
BEGUN = [
    "My grandmother used to say that {} is",
    "def about():\n    return '{}",
    "Q: Who has heard of {} ?\nA:",
    "In 1987, {} and two friends",
    "{} — naïve, “quoted”, 12,345 —",
]
PROMPTS = [
    *((prompt.text, False) for prompt in STUDY.values()),
    *((text, False) for text in EXAMPLES.values()),
    *((of.format(thing), True) for of in ASKED for thing in THINGS),
    *((of.format(thing), False) for of in BEGUN for thing in THINGS),
    ("What is a 🦙?", True),
    ("Who are you?", True),
    ("Count from 1 to 12.", True),
]
LAYERS, NEW = 30, 24


@pytest.fixture(scope="module")
def model():
    books_file()
    return load_language_model(str(trained_model(DEFAULT)), device="cpu")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    file = books_file()
    folder = tmp_path_factory.mktemp("live")
    with open_browser() as browser, live_page(browser, file, folder) as (page, problems):
        about = page.evaluate(f"opened({FILE})")
        assert (about["layers"], about["heads"], about["keyHeads"], about["chat"]) == (LAYERS, 9, 3, True)
        assert about["longest"] > 1000 + NEW
        yield page
        assert problems == []


def same_text(page, model, tokenizer, text, chat) -> None:
    """The page reads the same tokens, and each that it writes is the likeliest in torch."""
    ids = encode(text, tokenizer, chat)
    read = "async ([text, chat, count]) => { const { ids } = await live.encode(text, { chat }), words = [];"
    write = "for await (const { id } of live.write(ids, { newTokens: count })) words.push(id);"
    given, written = page.evaluate(f"{read} {write} return [[...ids], words]; }}", [text, chat, NEW])
    assert given == ids[0].tolist()
    with torch.no_grad():
        logits = model(torch.tensor([[*given, *written[:-1]]])).logits[0, len(given) - 1 :]
    assert logits.argmax(-1).tolist() == written, tokenizer.decode(written)


@pytest.mark.parametrize("number", range(20))
def test_the_texts_of_twenty_prompts_are_those_of_python(page, model, number):
    same_text(page, *model, *PROMPTS[5 * number])


@pytest.mark.slow
@pytest.mark.parametrize("number", [n for n in range(100) if n % 5])
def test_the_texts_of_the_other_eighty(page, model, number):
    same_text(page, *model, *PROMPTS[number])


@pytest.mark.parametrize("name", STUDY)
def test_rollout_of_the_study_s_prompts(page, model, name):
    text = STUDY[name].text
    ids = encode(text, model[1])
    words = page.evaluate("async (t) => written((await live.encode(t)).ids, { newTokens: 6 })", text)
    tokens = torch.tensor([word["id"] for word in words])
    for rows, sink in (("rollout", None), ("sinkFree", [0])):
        expected = generate_with_rollout(model[0], ids, continuation=tokens, sink=sink).matrix.transpose(1, 2)
        found = torch.stack([rows_of(word, rows, LAYERS)[:, : ids.shape[1]] for word in words])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    every = [*ids[0].tolist(), *tokens.tolist()]
    assert [word["text"] for word in words] == pieces(every, model[1])[ids.shape[1] :]


def test_blank_out_of_a_study_s_word(page, model):
    text, completion, word = STUDY["Putin"]
    ids = encode(text + completion[: completion.index(word) + len(word)], model[1])
    at = ids.shape[1] - 1
    expected = blank_out(model[0], ids[:, :at], target=ids[0, at:])[0]
    found = [float(nats) for nats in page.evaluate("(ids) => blanked(ids, ids.length - 1)", ids[0].tolist())]
    torch.testing.assert_close(torch.tensor(found), expected, atol=1e-4, rtol=0, equal_nan=True)


def test_relevance_of_a_study_s_word(page, model):
    text, completion, word = STUDY["Putin"]
    ids = encode(text + completion[: completion.index(word) + len(word)], model[1])
    at = ids.shape[1] - 1
    expected = attn_lrp(model[0], ids[:, :at], target=ids[0, at:])[0]
    found = torch.tensor(
        page.evaluate("async (ids) => [...await live.relevance(ids, ids.length - 1)]", ids[0].tolist())
    )
    torch.testing.assert_close(found, expected, atol=1e-4 * float(expected.abs().max()), rtol=0)


@pytest.mark.slow
def test_a_prompt_of_a_thousand_tokens_is_read_and_its_time_said_before(page, model):
    ids = torch.randint(100, 49_000, (1, 1000), generator=torch.Generator().manual_seed(0))
    assert 1 < page.evaluate("live.seconds(1000)") < 600
    (word,) = page.evaluate("(ids) => written(ids, { newTokens: 1 })", ids[0].tolist())
    expected = generate_with_rollout(model[0], ids, continuation=torch.tensor([word["id"]])).matrix[0].T
    torch.testing.assert_close(rows_of(word, "rollout", LAYERS), expected, atol=1e-5, rtol=0)


def test_what_is_too_long_is_refused_and_the_model_goes_on(page):
    message = page.evaluate("refused(live.write(Array(8192).fill(5), {}).next())")
    assert "the prompt has 8192 tokens" in message and "at most" in message
    assert len(page.evaluate("written([504, 505], { newTokens: 1 })")) == 1
