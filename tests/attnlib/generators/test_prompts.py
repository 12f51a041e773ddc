"""Prompts of the chapter on generative rollout."""

import os
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

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


def test_a_chat_template_is_used_if_there_is_one():
    tokenizer = char_tokenizer()
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
        ("", "has no chat template"),
        ("{{ oops[", "chat template cannot be used .TemplateSyntaxError: "),
        ("{{ raise_exception('not today') }}", "chat template cannot be used .TemplateError: not today"),
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


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda tokenizer: encode("", tokenizer), "prompt"),
        (lambda tokenizer: encode("a\udcff", tokenizer), "prompt"),
        (lambda tokenizer: continued("a", "", tokenizer), "continuation"),
        (lambda tokenizer: continued("a", "\udcff", tokenizer), "continuation"),
    ],
)
def test_what_is_no_text_is_refused(call, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        call(char_tokenizer())


def test_a_continuation_that_changes_the_prompts_last_token_is_refused(stories):
    prompt, more = continued("Lily had a", " red ball", stories)
    assert stories.decode(torch.cat([prompt[0], more]), skip_special_tokens=True) == "Lily had a red ball"
    with pytest.raises(ValueError, match="'nd' does not begin a token of its own behind 'Lily had a'"):
        continued("Lily had a", "nd", stories)


def ending_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """One that puts special tokens round every text, as T5's and many of sentences do."""
    names = ["<pad>", "<s>", "</s>", *"abc ", "[b", "b c"]
    made = Tokenizer(models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    ends = [("<s>", 1), ("</s>", 2)]
    made.post_processor = processors.TemplateProcessing(single=template, special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


@pytest.mark.parametrize(
    ("template", "begin"),
    [("<s> $A </s>", [1]), ("$A </s>", []), ("<s> $A </s> </s>", [1]), ("<s> $A", [1]), ("$A", [])],
)
def test_what_a_tokenizer_puts_behind_every_text_is_not_behind_a_prompt(template, begin):
    tokenizer = ending_tokenizer(template)
    assert encode("ab", tokenizer).tolist() == [[*begin, 3, 4]]
    prompt, more = continued("ab", " c", tokenizer)
    assert (prompt.tolist(), more.tolist()) == ([[*begin, 3, 4]], [6, 5])
    assert encode("ab</s>", tokenizer).tolist() == [[*begin, 3, 4, 2]], "what was typed stays"
    assert continued("ab", "c</s>", tokenizer)[1].tolist() == [5, 2]
