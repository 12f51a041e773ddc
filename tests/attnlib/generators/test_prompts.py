"""Prompts of the chapter on generative rollout."""

import os
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from attnlib.generators import char_tokenizer
from attnlib.generators.prompts import EXAMPLES, STUDY, continued, encode


@pytest.fixture(scope="module")
def stories():
    if "ATTNLIB_DATA" not in os.environ:
        pytest.skip("ATTNLIB_DATA names no folder of models")
    return AutoTokenizer.from_pretrained(Path(os.environ["ATTNLIB_DATA"]) / "models" / "stories260k")


def test_the_answer_stands_in_the_text_or_follows_from_it():
    assert list(EXAMPLES) == [
        "a name and a country",
        "a context with a question",
        "a long passage with a question",
    ]
    assert "twelve" in EXAMPLES["a context with a question"]
    assert "Ingrid Halvorsen" in EXAMPLES["a long passage with a question"]


def test_a_prompt_becomes_ids_and_back():
    tokenizer = char_tokenizer()
    ids = encode("2 + 3 =", tokenizer)
    assert ids.shape == (1, 8)
    assert tokenizer.decode(ids[0], skip_special_tokens=True) == "2 + 3 ="


def test_a_chat_template_is_used_if_there_is_one():
    tokenizer = char_tokenizer()
    with pytest.raises(ValueError, match="no chat template"):
        encode("hello", tokenizer, chat=True)
    tokenizer.chat_template = (
        "{% for m in messages %}[{{ m.content }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    assert tokenizer.decode(encode("hello", tokenizer, chat=True)[0]).endswith("[hello]>")


def test_an_empty_prompt_is_refused():
    with pytest.raises(ValueError, match="at least one character"):
        encode("", char_tokenizer())


def test_a_prompt_goes_on_with_a_text_as_the_tokenizer_writes_the_two_together():
    tokenizer = char_tokenizer()
    prompt, more = continued("2 + 3 =", " 5", tokenizer)
    assert prompt.equal(encode("2 + 3 =", tokenizer)) and tokenizer.decode(more) == " 5"
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}"
        "{% if add_generation_prompt %}>{% endif %}"
    )
    prompt, more = continued("hello", "you", tokenizer, chat=True)
    assert prompt.equal(encode("hello", tokenizer, chat=True)) and tokenizer.decode(more) == "you"


def test_a_continuation_that_changes_the_prompts_last_token_is_refused(stories):
    prompt, more = continued("Lily had a", " red ball", stories)
    assert stories.decode(torch.cat([prompt[0], more]), skip_special_tokens=True) == "Lily had a red ball"
    with pytest.raises(ValueError, match="'nd' does not begin a token of its own behind 'Lily had a'"):
        continued("Lily had a", "nd", stories)
    with pytest.raises(ValueError, match="continuation should have at least one character"):
        continued("Lily had a", "", stories)


def test_the_studys_words_stand_in_its_completions():
    assert len(STUDY) == 4
    assert all(each.word in each.completion and each.completion.startswith(" ") for each in STUDY.values())
