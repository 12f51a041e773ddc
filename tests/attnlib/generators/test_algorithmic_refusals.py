"""The six algorithmic tasks: settings and texts that are refused, and what a person is told."""

import re

import pytest

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import TASKS, task

CHARACTERS = char_tokenizer()

BAD_SETTINGS = [  # the first is refused, by its name unless another is told
    ("flipflop", {}, "task"),
    ("long_addition", {"length": (4, 1)}),
    ("long_addition", {"num_of_nums": (1, 3)}),
    ("long_addition", {"split": "dev"}),
    ("long_addition", {"seed": -1}),
    ("long_addition", {"apply_chat_template": True}, "tokenizer"),
    ("long_addition", {"pad_with_zeros": False, "as_published": True}),
    ("long_addition", {"use_instruction": True, "instruction": "größer"}, "tokenizer"),
    ("long_multiplication", {"as_published": True, "generate_carry": True}),
    ("successor", {"few_shot_samples": "1 2", "use_few_shot": True}),
    *[("string_reversal", {"charset": charset}) for charset in ("aba", "ab=")],
    ("successor", {"length": (1, 4)}),
    ("successor", {"start_number_range": (-1, 4)}),
    ("value_assignment", {"encoding_length": (1, 100)}, "charset_from"),
    ("value_assignment", {"charset_to": "ab", "encoding_length": (1, 3)}),
    ("value_assignment", {"charset_from": "a b", "encoding_length": (1, 2)}),
    ("flip_flop", {"num_registers": (1, 11)}),
    ("successor", {"length": (2, 10**6)}),
    ("value_assignment", {"length": (1, 10**6)}),
    *[(name, {"length": (0, 3)}) for name in TASKS],
]


@pytest.mark.parametrize("bad", BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused(bad):
    name, settings, *told = bad
    with pytest.raises(ValueError, match=rf"^{[*told, *settings][0]} must "):
        task(name, CHARACTERS, **settings)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *[(name, {}) for name in TASKS],
        ("long_addition", {"pad_with_zeros": False, "num_of_nums": (2, 12)}),
        ("long_multiplication", {"pad_with_zeros": False}),
        ("long_multiplication", {"generate_carry": True, "length": (12, 12)}),
    ],
)
def test_no_text_is_longer_than_its_settings_are_taken_to_allow(name, settings):
    g = task(name, CHARACTERS, **settings)
    longest = max(len(sample.text) for sample in g.samples(256))
    assert longest <= g.longest < 3 * longest


def test_a_split_without_texts_is_an_error():
    g = task("flip_flop", CHARACTERS, length=(1, 1), num_registers=(1, 1), split="test")
    with pytest.raises(ValueError, match="hardly any text of flip-flop that these settings allow is a test"):
        g.samples(1)


BAD_TEXTS = [
    ("long_addition", {}, "1240+4335=5576", "asks this is '1240+4335=5575'"),
    ("long_addition", {}, "124+4335=5575", "the same number of digits; in '124+4335=5575' they have 3, 4"),
    ("long_addition", {"pad_with_zeros": False}, "1240+4335=5575", "asks this is '124+4335=5575'"),
    ("long_addition", {}, "12=12", "a text of long addition is like '10+10=20'; got '12=12'"),
    ("long_multiplication", {}, "3400*5100=5120+0430+0000+0000=5460", "5120+0340+0000+0000=5460"),
    ("long_multiplication", {}, "01*01=00+001=001", "all numbers have the same number of digits"),
    ("long_multiplication", {"pad_with_zeros": False}, "51*34=54+054=546", "should not be the smaller one"),
    ("long_multiplication", {"generate_carry": True}, "34*51", "with carries; got '34*51'"),
    ("string_reversal", {}, "abc=abc", "asks this is 'abc=cba'"),
    ("string_reversal", {}, "a?b=b?a", "'a?b=b?a' has '?', not in charset"),
    ("successor", {}, "42 43 45 ", "asks this is '42 43 44 '"),
    ("successor", {}, "042 043 ", "has no zeros in front; '042 043 ' starts with '042'"),
    ("successor", {}, "42 43", "with its last space; got '42 43'"),
    ("successor", {}, "42 ", "leaves nothing to predict"),
    ("value_assignment", {}, "a1b2 ab=11", "asks this is 'a1b2 ab=12'"),
    ("value_assignment", {}, "a1b2 ac=12", "it has no 'c'"),
    ("value_assignment", {}, "a1a2 a=1", "it has a symbol twice"),
    ("value_assignment", {}, "a! a=!", "has '!', which are not in charset_to"),
    ("flip_flop", {}, "w11r10", "asks this is 'w11r11'"),
    ("flip_flop", {"use_flip": False}, "f11r11", "without f (use_flip=False); got 'f11r11'"),
]


@pytest.mark.parametrize(("name", "settings", "text", "message"), BAD_TEXTS)
def test_annotate_says_why_a_text_is_not_of_the_task(name, settings, text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        task(name, CHARACTERS, **settings).annotate(text)
