"""Prompts of the chapter on generative rollout."""

import os
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from attnlib.generators import char_tokenizer
from attnlib.generators.prompts import EXAMPLES, continued, encode


@pytest.fixture(scope="module")
def stories():
    if "ATTNLIB_DATA" not in os.environ:
        pytest.skip("ATTNLIB_DATA names no folder of models")
    return AutoTokenizer.from_pretrained(Path(os.environ["ATTNLIB_DATA"]) / "models" / "stories260k")


def test_the_answer_stands_in_the_text_or_follows_from_it():
    answers = {"a context with a question": "twelve", "a long passage with a question": "Ingrid Halvorsen"}
    assert [*EXAMPLES] == ["a name and a country", *answers]
    assert all(answer in EXAMPLES[name] for name, answer in answers.items())


def test_a_prompt_becomes_ids_and_goes_on_with_a_text_as_the_tokenizer_writes_the_two_together():
    tokenizer = char_tokenizer()
    prompt, more = continued("2 + 3 =", " 5", tokenizer)
    assert prompt.equal(encode("2 + 3 =", tokenizer)) and tokenizer.decode(more) == " 5"
    assert tokenizer.decode(prompt[0]) == "<bos>2 + 3 ="
    with pytest.raises(ValueError, match="at least one character"):
        encode("", tokenizer)


def test_a_chat_template_is_used_if_there_is_one():
    tokenizer = char_tokenizer()
    with pytest.raises(ValueError, match="no chat template"):
        encode("hello", tokenizer, chat=True)
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}"
        "{% if add_generation_prompt %}>{% endif %}"
    )
    prompt, more = continued("hello", "you", tokenizer, chat=True)
    assert tokenizer.decode(prompt[0]) == "<bos>[hello]>" and tokenizer.decode(more) == "you"
    assert prompt.equal(encode("hello", tokenizer, chat=True))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"plain": "a", "tools": "b"}, "has chat templates plain, tools, and none is called default"),
        ("{{ oops[", "chat template cannot be used .TemplateSyntaxError: "),
        ("{{ raise_exception('not today') }}", "chat template cannot be used .TemplateError: not today"),
        ("{{ messages[0].no.such }}", "chat template cannot be used .UndefinedError: "),
        ("", "has no chat template"),
    ],
)
def test_a_chat_template_that_cannot_be_used_is_refused(template, message):
    tokenizer = char_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(ValueError, match=message):
        encode("hello", tokenizer, chat=True)


def test_of_several_chat_templates_the_default_is_taken():
    tokenizer = char_tokenizer()
    tokenizer.chat_template = {"tools": "no", "default": "[{{ messages[0].content }}]"}
    assert tokenizer.decode(encode("hi", tokenizer, chat=True)[0]) == "[hi]"


def test_bytes_that_are_no_text_are_refused():
    tokenizer = char_tokenizer()
    with pytest.raises(ValueError, match=r"the prompt should be text in UTF-8; its character 2 is '.udcff'"):
        encode("a\udcff", tokenizer)
    with pytest.raises(ValueError, match=r"the continuation should be text in UTF-8"):
        continued("a", "\udcff", tokenizer)


def test_a_continuation_that_changes_the_prompts_last_token_is_refused(stories):
    prompt, more = continued("Lily had a", " red ball", stories)
    assert stories.decode(torch.cat([prompt[0], more]), skip_special_tokens=True) == "Lily had a red ball"
    with pytest.raises(ValueError, match="'nd' does not begin a token of its own behind 'Lily had a'"):
        continued("Lily had a", "nd", stories)
    with pytest.raises(ValueError, match="continuation should have at least one character"):
        continued("Lily had a", "", stories)
