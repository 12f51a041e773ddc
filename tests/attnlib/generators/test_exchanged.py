"""The same text with another right answer; and where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attnlib.generators import char_tokenizer
from attnlib.generators.algorithmic import TASKS, task
from attnlib.generators.arithmetic import arithmetic
from attnlib.generators.classification import Planting, lexicon, opposites
from attnlib.generators.rasp import language
from attnlib.generators.translation import lexicon as dictionary

CHARACTERS = char_tokenizer()


def rng(seed=0):
    return np.random.default_rng(seed)


@settings(max_examples=30)
@given(st.sampled_from(["reverse", "sort", "hist"]), st.text("abcdefghij", min_size=2, max_size=9), st.data())
def test_only_symbols_at_the_places_change_or_all_like_them(name, text, data):
    lang = language(name, 10, bos=False)
    query = data.draw(st.integers(0, len(text) - 1))
    places = lang.target_attention(text)[max(lang.definition.heads)][query].clone()
    places[query] = False
    assume(places.any())
    other = lang.exchanged(lang.encode(text), query, places, rng(data.draw(st.integers(0, 99))))
    (changed,) = lang.decode(other)
    assert lang.outputs(changed)[query] != lang.outputs(text)[query]
    gone = {text[place] for place in places.nonzero()[:, 0].tolist()}
    for old, new in zip(text, changed, strict=True):
        assert new == old or (old in gone and new not in gone)


def test_where_all_symbols_stand_there_is_no_other():
    lang = language("hist", 10)
    everywhere = torch.ones(10, dtype=torch.bool)
    assert lang.exchanged(lang.encode("abcdefghij"), 0, everywhere, rng()) is None


@pytest.mark.parametrize("name", TASKS)
def test_a_text_with_another_answer_is_as_long_and_right(name):
    generator, found = task(name, CHARACTERS, length=(2, 4)), 0
    for sample in generator.samples(4):
        for place in sample.reference.any(1).nonzero()[:, 0].tolist():
            keys = [key - 1 for key in sample.reference[place].nonzero()[:, 0].tolist() if key != place]
            other = generator.exchanged(sample.text, place, keys, rng(place)) if keys else None
            if other is not None:
                assert len(other.text) == len(sample.text) and other.text[place] != sample.text[place]
                assert generator.annotate(other.text).answer == other.answer
                assert any(other.text[key] != sample.text[key] for key in keys)
                found += 1
    assert found


@pytest.mark.parametrize(
    "name, options, text, place, keys",
    [
        ("string_reversal", {"charset": "a"}, "aa=aa", 3, [1]),
        ("successor", {}, "42 43 ", 5, [3, 4]),  # the space behind 43
        ("value_assignment", {"charset_to": "1", "encoding_length": (1, 1)}, "A1 A=1", 5, [0, 1, 3]),
    ],
)
def test_a_text_that_has_no_other_answer_is_given_up(name, options, text, place, keys):
    generator = task(name, CHARACTERS, **options)
    generator.annotate(text)
    assert generator.exchanged(text, place, keys, rng()) is None


def test_a_symbol_is_exchanged_wherever_the_string_asks_for_it():
    generator = task("value_assignment", CHARACTERS)
    other = generator.exchanged("A1B2 ABA=121", 9, [0, 1, 5], rng()).text
    symbol, value = other[:2]
    assert other == f"{symbol}{value}B2 {symbol}B{symbol}={value}2{value}"
    assert symbol not in "AB" and value != "1"


def test_two_numbers_below_100_come_to_199_at_most():
    assert arithmetic("+", (0, 99)).exchanged("58+67=125", 6, [0, 3], rng()) is None
    other = arithmetic("+", (0, 99)).exchanged("58+67=125", 8, [1, 4], rng()).text
    assert other[0] + other[2:4] == "5+6" and other[8] != "5" and other[1] != "8" and other[4] != "7"


def test_an_opposite_counts_as_much_for_the_other_class():
    planting = Planting(keywords=6)
    words, strengths = lexicon(planting)
    strength = dict(zip(words, strengths, strict=True))
    pairs = opposites(planting)
    assert len(pairs) == 12
    for word, other in pairs.items():
        assert strength[word] == -strength[other] != 0 and pairs[other] == word


def test_a_unit_of_two_words_is_exchanged_for_another_one_of_two():
    words = dictionary()
    two = next(unit for unit in words.nouns if len(unit.target) == 2)
    aligned = torch.ones(2, 1, dtype=torch.bool)
    other = words.exchanged([*two.source], [*two.target], aligned, 1, rng())
    assert tuple(map(tuple, other)) in [u for u in words.nouns if u != two]
    joiner = words.joiner
    alone = torch.ones(1, 1, dtype=torch.bool)
    assert words.exchanged([*joiner.source], [*joiner.target], alone, 0, rng()) is None
