"""The RASP languages: against the original's outputs, and against the plainest way to write them."""

import hashlib
import json
import operator
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.generators import IGNORE
from attnlib.generators.rasp import LANGUAGES, Definition, Pattern, language, select
from attnlib.generators.rasp.definitions import HIGHEST_COUNT, NON_TOKEN
from attnlib.generators.rasp.dyck import PAIRS
from attnlib.generators.rasp.language import ALL_SYMBOLS, LARGEST

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "rasp.json").read_text())


def golden_id(case):
    return f"{case['language']}{'-bos' if case['bos'] else ''}-{case['input'][:12]!r}"


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=golden_id)
def test_outputs_and_attention_equal_the_originals(case):
    lang = language(case["language"], case.get("alphabet_size", 26), case["bos"])
    assert lang.outputs(case["input"]) == case["output"]
    if "attention" in case:
        ours = lang.target_attention(case["input"])
        assert set(ours) == {tuple(map(int, head.split("."))) for head in case["attention"]}
        for head, rows in case["attention"].items():
            mask = ours[tuple(map(int, head.split(".")))]
            assert ["".join("01"[bit] for bit in row) for row in mask.int().tolist()] == rows, head


def test_the_alphabet_is_the_originals():
    assert GOLDEN["all_symbols"] == ALL_SYMBOLS


# ---- the plainest way to write each language, one symbol at a time: an oracle for random input ---------


def dyck_oracle(text):
    stack, classes = [], []
    closes = {pair[1]: pair[0] for pair in PAIRS}
    opens = set(closes.values())
    for symbol in text:
        if symbol in opens:
            stack.append(symbol)
        elif symbol in closes and not (stack and stack.pop() == closes[symbol]):
            break
        classes.append("P" if stack else "T")
    return classes + ["F"] * (len(text) - len(classes))


def by_frequency(text):
    return sorted(set(text), key=lambda symbol: (-text.count(symbol), text.index(symbol)))


def capped(count):
    return min(count, HIGHEST_COUNT)


ORACLES = {
    "reverse": lambda text: list(text[::-1]),
    "sort": sorted,
    "hist": lambda text: [capped(text.count(symbol)) for symbol in text],
    "hist2": lambda text: [capped(Counter(Counter(text).values())[text.count(symbol)]) for symbol in text],
    "sort_by_freq": lambda text: (by_frequency(text) + [NON_TOKEN] * len(text))[: len(text)],
    **{name: dyck_oracle for name in LANGUAGES if name.startswith("dyck")},
}


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("name", LANGUAGES)
@settings(max_examples=40)
@given(data=st.data())
def test_outputs_equal_the_oracle(name, bos, data):
    lang = language(name, alphabet_size=10, bos=bos)
    text = data.draw(st.text(lang.alphabet, min_size=1, max_size=40))
    assert lang.outputs(text) == ORACLES[name](text)


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_batch_says_what_its_sequences_say_alone(name):
    lang = language(name, alphabet_size=10, bos=True)
    sequences = lang.sequences(60, max_length=30, seed=3)
    batch = lang.batch(sequences)
    for row, text in enumerate(lang.decode(sequences)):
        alone = lang.annotate(text)
        size = len(alone.input_ids)
        assert batch.attention_mask[row].sum() == size
        assert torch.equal(batch.input_ids[row, :size], alone.input_ids)
        assert torch.equal(batch.target_ids[row, :size], alone.target_ids)
        assert (batch.target_ids[row, size:] == IGNORE).all()
        for head, mask in batch.target_attention.items():
            assert torch.equal(mask[row, :size, :size], alone.target_attention[head])
            assert not mask[row, size:].any() and not mask[row, :, size:].any()


@pytest.mark.parametrize("name", [name for name in LANGUAGES if LANGUAGES[name].heads])
def test_attention_without_bos_is_attention_with_bos_without_its_row_and_column(name):
    plain, with_bos = (language(name, 10, bos).target_attention("cabbageb") for bos in (False, True))
    for head, mask in plain.items():
        assert torch.equal(mask, with_bos[head][1:, 1:])
        sees_bos = LANGUAGES[name].heads[head].sees_bos
        assert with_bos[head][:, 0].tolist() == [True] + [sees_bos] * 8
        assert with_bos[head][0].tolist() == [True] + [False] * 8


# ---- sampling ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LANGUAGES)
def test_samples_are_valid_and_reproducible(name):
    lang = language(name, alphabet_size=10)
    texts, again, other = (lang.decode(lang.sequences(300, seed=seed, max_length=20)) for seed in (5, 5, 6))
    assert texts == again != other
    assert {len(text) for text in texts} <= set(range(1, 21)) and len({len(text) for text in texts}) > 15
    assert set("".join(texts)) == set(lang.alphabet)


@pytest.mark.parametrize("name", ["sort", "dyck2_ptf"])
def test_splits_never_share_a_sequence(name):
    lang = language(name, alphabet_size=10)
    texts = {
        split: set(lang.decode(lang.sequences(3000, split=split, max_length=length, seed=seed)))
        for seed, split, length in [(0, "train", 4), (1, "valid", 9), (2, "test", 6)]
    }
    assert all(texts[one].isdisjoint(texts[other]) for one, other in combinations(texts, 2))
    # and a tenth of the short sequences are in each, not none of them
    n_possible = len(lang.alphabet) ** 3
    assert 0.04 < len({text for text in texts["test"] if len(text) == 3}) / n_possible < 0.16


def test_dyck_samples_show_all_classes():
    lang = language("dyck3_ptf")
    drawn = lang.sequences(900, max_length=30)
    outputs = lang.definition.outputs(drawn)
    assert (outputs[drawn.real].bincount(minlength=3) / drawn.real.sum() > 0.1).all()
    final = outputs.gather(1, drawn.lengths[:, None] - 1)[:, 0]
    assert (final[::3] == 1).float().mean() > 0.3


def test_sequences_are_those_that_records_stand_on():
    """Balanced ones too, which grow as the original's do: see the comments of `dyck`."""
    drawn = [language(name, 10).sequences(60, max_length=length) for name in LANGUAGES for length in (9, 60)]
    said = [(each.symbols.tolist(), each.lengths.tolist()) for each in drawn]
    assert hashlib.sha256(str(said).encode()).hexdigest()[:16] == "05097b94013a0016"


def test_batches_are_a_function_of_the_step_and_cover_every_sequence():
    lang = language("reverse", 10)
    sequences = lang.sequences(64, min_length=8, max_length=8)
    batch_at = lang.batches(sequences, batch_size=16, seed=1)
    everything = lang.batch(sequences).input_ids
    for step in (0, 9, 1, 4):  # from one epoch to another and back
        order = np.random.default_rng([1, step // 4]).permutation(64)[step % 4 * 16 :][:16]
        assert torch.equal(batch_at(step).input_ids, everything[torch.from_numpy(order)])


# ---- your own language, and bad input -------------------------------------------------------------------


def test_sequences_come_one_by_one():
    lang = language("sort")
    assert [lang.decode(each) for each in lang.encode("cab", "a")] == [["cab"], ["a"]]


def test_a_language_of_your_own():
    def shifted(s):
        return s.symbols.gather(1, (s.positions - 1).clamp(min=0).expand_as(s.symbols))

    previous = Pattern(lambda s: select(s.positions, (s.positions - 1).clamp(min=0)))
    lang = language(Definition("shift", "the symbol before", shifted, heads={(0, 0): previous}), 10)
    assert lang.outputs("cab") == ["c", "c", "a"]
    assert lang.target_attention("cab")[0, 0].int().tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0]]


def test_models_are_as_large_as_the_papers_or_as_needed():
    assert language("hist", bos=True).size == (1, 1) and language("hist", bos=False).size == (1, 2)
    assert language("sort", bos=False).size == language("sort", bos=True).size == (2, 1)
    assert language("dyck5_ptf").size == LARGEST == (3, 2)
    deep = Definition("deep", "", lambda s: s.symbols, heads={(4, 0): Pattern(lambda s: s.real)})
    assert language(deep).size == (5, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda sort: language("srot"), "language must be one of .*; did you mean 'sort'?"),
        (lambda sort: language("sort", 11), "alphabet_size must"),
        (lambda sort: sort.outputs("cat"), "'cat' has 't'"),
        (lambda sort: sort.outputs(""), "the text is empty"),
        (lambda sort: sort.peek(0), "n must"),
        (lambda sort: sort.sequences(1, max_length=0), "max_length must"),
        (lambda sort: language("dyck1_ptf").sequences(999, split="test", max_length=1), "max_length must"),
        (lambda sort: sort.sequences(3, split="Train"), "split must"),
        (lambda sort: sort.in_batches(sort.encode("cab"), 0), "batch_size must"),
    ],
)
def test_bad_input_says_what_was_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call(language("sort", 10))


def test_select_compares_numbers_of_any_size_and_fractions():
    """Code points of emoji are 65,536 apart from others, so that 16 bits take them for the same."""
    far = torch.tensor([[97, 97 + 65536, 128512]])
    assert select(far, far).equal(torch.eye(3, dtype=torch.bool)[None])
    assert select(far, far, operator.lt)[0].tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    parts = torch.tensor([[0.2, 0.7]])
    assert select(parts, parts.flip(1), operator.lt)[0].tolist() == [[True, False], [False, False]]


def test_peek_shows_sequences_and_what_is_written_below_them():
    lang = language("sort", bos=True)
    table = lang.peek(9)
    assert table["input"].tolist() == lang.decode(lang.sequences(9, max_length=12))
    assert table["output"].tolist() == [" ".join(sorted(text)) for text in table["input"]]
    drawn = lang.sequences(9, max_length=12)
    assert [lang.decode(drawn[row]) for row in (0, -1)] == [
        table["input"].tolist()[:1],
        table["input"].tolist()[-1:],
    ]
