"""Prompts of the chapter on generative rollout."""

import pytest

from attnlib.generators import char_tokenizer
from attnlib.generators.prompts import EXAMPLES, encode


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
