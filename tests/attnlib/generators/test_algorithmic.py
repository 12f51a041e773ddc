"""The six algorithmic tasks: answers and references against the plainest way to write each."""

from itertools import pairwise

import pytest
import torch

from attnlib.generators import IGNORE, char_tokenizer
from attnlib.generators.algorithmic import TASKS, task

CHARACTERS = char_tokenizer()
SHORT = {
    "long_addition": {"length": (1, 3)},
    "long_multiplication": {"length": (1, 2)},
    "string_reversal": {"length": (1, 6)},
    "successor": {"length": (2, 4)},
    "value_assignment": {"length": (1, 5), "encoding_length": (1, 4)},
    "flip_flop": {"length": (1, 6)},
}
FORMS = [
    *[(name, {}) for name in TASKS],
    ("long_addition", {"pad_with_zeros": False}),
    ("long_addition", {"num_of_nums": (9, 13), "length": (1, 2)}),
    ("long_addition", {"num_of_nums": (2, 6), "length": (2, 7), "seed": 2**40}),
    ("long_multiplication", {"pad_with_zeros": False}),
    ("long_multiplication", {"generate_carry": True}),
    ("long_multiplication", {"generate_carry": True, "pad_with_zeros": False, "length": (1, 4)}),
    ("long_multiplication", {"length": (2, 7)}),
    ("successor", {"start_number_range": (0, 10**6), "length": (2, 7)}),
    (
        "value_assignment",
        {"encoding_length": (1, 9), "charset_from": "abcdefghi", "charset_to": "123456789a"},
    ),
    ("flip_flop", {"use_flip": False, "num_registers": (1, 2)}),
    ("flip_flop", {"length": (2, 30), "num_registers": (10, 10)}),
    ("string_reversal", {"charset": {"ä", "b", "€"}, "tokenizer": char_tokenizer("äb€=")}),
]


def generator(name, **given_settings):
    return task(name, **{"tokenizer": CHARACTERS} | SHORT[name] | given_settings)


# ---- the plainest way --------------------------------------------------------------


def positions(mask):
    """Where a mask is True, in characters of the text: token 0 is the beginning of the sequence."""
    return (mask.nonzero() - 1).tolist()


def number(text):
    return int(text[::-1])


def add_oracle(text):
    question, answer = text.split("=")
    numbers = question.split("+")
    assert number(answer) == sum(map(number, numbers))
    wanted, start = {}, 0
    for one in numbers:
        for i in range(min(len(one), len(answer))):
            wanted.setdefault(len(question) + i, set()).add(start + i)
        start += len(one) + 1
    return wanted


def multiply_oracle(text):
    """Partial products digit by digit, carries in brackets if there are any."""
    question, products, answer = text.split("=")
    first, second = question.split("*")
    wanted, at, total = {}, len(question) + 1, 0
    for i, product in enumerate(products.split("+")):
        carry, j, last_carry, digits = 0, 0, None, ""
        digit = int(second[i])
        alone = product == "0" and digit == 0
        while product:
            keys = {len(first) + 1 + i} if j >= i or alone else set()
            if 0 <= j - i < len(first) and not alone:
                keys.add(j - i)
            if last_carry is not None and j > i:
                keys.add(last_carry)
            here = int(first[j - i]) * digit + carry if 0 <= j - i < len(first) else carry
            carry = here // 10
            assert product[0] == str(here % 10)
            wanted[at - 1] = keys
            digits += product[0]
            product, at = product[1:], at + 1
            if product.startswith("("):
                assert product[1:3] == f"{carry})"
                wanted[at] = keys  # the query at "(" predicts the carry
                last_carry, product, at = at + 1, product[3:], at + 3
            j += 1
        assert carry == 0 and number(digits) == number(first) * digit * 10**i
        total += number(digits)
        at += 1
    bare = "".join(part.split(")")[-1] for part in answer.split("("))
    assert number(bare) == total == number(first) * number(second)
    assert number(first) >= number(second)
    return {query: keys for query, keys in wanted.items() if keys}


def reverse_oracle(text):
    question, answer = text.split("=")
    assert answer == question[::-1]
    return {len(question) + i: {len(question) - 1 - i} for i in range(len(question))}


def successor_oracle(text):
    numbers = text.split(" ")[:-1]
    assert numbers == [str(int(numbers[0]) + i) for i in range(len(numbers))]
    wanted, start = {}, 0
    for before, after in pairwise(numbers):
        own = start + len(before) + 1
        for query in range(own - 1, own + len(after)):
            wanted[query] = set(range(start, query + 1))
        start = own
    del wanted[len(text) - 2]
    return wanted


def assignment_oracle(text):
    table, rest = text.split(" ")
    question, answer = rest.split("=")
    values = dict(zip(table[::2], table[1::2], strict=True))
    assert len(values) == len(table) // 2 and [values[symbol] for symbol in question] == list(answer)
    wanted = {}
    for i, symbol in enumerate(question):
        key = 2 * table[::2].index(symbol)
        wanted[len(table) + 1 + len(question) + i] = {len(table) + 1 + i, key, key + 1}
    return wanted


def flip_flop_oracle(text):
    registers = dict.fromkeys("0123456789", 0)
    read, keys = text[-2], {len(text) - 2}
    for i in range(0, len(text) - 3, 3):
        letter, register, bit = text[i : i + 3]
        if letter == "w":
            registers[register] = int(bit)
            keys = {len(text) - 2, i, i + 1, i + 2} if register == read else keys
        elif letter == "f":
            registers[register] ^= 1
            keys |= {i, i + 1} if register == read else set()
    assert text[-3] == "r" and text[-1] == str(registers[read])
    return {len(text) - 2: keys}


ORACLES = {
    "long_addition": add_oracle,
    "long_multiplication": multiply_oracle,
    "string_reversal": reverse_oracle,
    "successor": successor_oracle,
    "value_assignment": assignment_oracle,
    "flip_flop": flip_flop_oracle,
}


def check_plain(name, sample):
    """A sample without instruction, against the oracle; <bos> has id 1, <eos> 2."""
    ends = name != "successor"
    assert sample.input_ids[0] == 1 and (sample.target_ids[-1] == 2) == ends
    assert sample.text == sample.prompt + sample.answer and sample.n_prompt == len(sample.prompt) + 1
    assert len(sample.input_ids) == len(sample.text) + ends
    assert (sample.target_ids[: len(sample.prompt)] == IGNORE).all()
    assert torch.equal(sample.target_ids[len(sample.prompt) : -1], sample.input_ids[sample.n_prompt :])
    wanted = {(q, k) for q, keys in ORACLES[name](sample.text).items() for k in keys}
    assert {tuple(pair) for pair in positions(sample.reference)} == wanted
    rows, keys = sample.evaluated.any(1), sample.evaluated.any(0)
    assert torch.equal(sample.evaluated, rows[:, None] & keys)
    assert torch.equal(rows, sample.target_ids != IGNORE)
    assert keys.tolist() == [False] + [True] * (len(keys) - 1)


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_samples_are_what_the_plainest_code_says_and_those_of_their_texts(name, form):
    g = generator(name, **form)
    for index, sample in enumerate(g.samples(150, start=200)):  # of two chunks
        check_plain(name, sample)
        if index < 30:
            typed = g.annotate(sample.text)
            assert typed.prompt == sample.prompt and typed.n_prompt == sample.n_prompt
            for part in ("input_ids", "target_ids", "reference", "evaluated"):
                assert torch.equal(getattr(typed, part), getattr(sample, part)), part


@pytest.mark.parametrize(("size", "least", "most", "different"), [(1, 0, 9, 10), (3, 100, 999, 500)])
def test_numbers_have_exactly_the_digits_asked_for(size, least, most, different):
    drawn = generator("long_addition", length=(size, size), pad_with_zeros=False).samples(600)
    operands = {number(one) for sample in drawn for one in sample.prompt[:-1].split("+")}
    assert min(operands) >= least and max(operands) <= most and len(operands) >= different


def test_the_multiplication_shift_moves_the_first_numbers_digit():
    right = generator("long_multiplication").annotate("3400*5100=5120+0340+0000+0000=5460")
    # 43 * 15: the query before digit 1 of the second partial product (its 3) looks at the 3 and at the 1.
    assert [key for query, key in positions(right.reference) if query == 15] == [0, 6]
    published = generator("long_multiplication", as_published=True).annotate(right.text)
    assert [key for query, key in positions(published.reference) if query == 15] == [1, 6]


def test_carries_are_written_behind_their_digits():
    g = generator("long_multiplication", generate_carry=True, pad_with_zeros=False)
    assert g.annotate("34*51=5(1)1(2)2+0(0)3(0)4=5(0)4(0)6").answer.startswith("5(1)1(2)2+")
    wide = generator("long_multiplication", generate_carry=True, pad_with_zeros=False, length=(20, 20))
    nines = "9" * 20
    with pytest.raises(ValueError, match="a text of long multiplication that asks this is") as error:
        wide.annotate(f"{nines}*{nines}={'+'.join(['9'] * 20)}=0")
    assert "(71)" in str(error.value).split("=")[-1], "a carry of 17, least significant digit first"
