"""Answers built step by step: their sources, and measures that are known to follow them, or not to."""

from functools import partial
from itertools import islice

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.generators import LongAdditionGenerator, SuccessorGenerator, char_tokenizer
from attnlib.models.causal import CausalSizes
from book.chapters.attribution_benchmark import measures
from book.chapters.attribution_benchmark.claims import HOP_PREDICTIONS, hop_prediction_table
from book.chapters.attribution_benchmark.measures import (
    DIGITS,
    DIRECTLY,
    HOPS,
    OWN,
    SYMBOLS,
    added,
    counted,
    sources,
    walked,
)
from book.chapters.attribution_benchmark.tables import by_way, recorded_ways
from tests.parameters import smallest

TABLE = "hkkuudda h="


def test_tasks_answer_as_their_generators_do() -> None:
    for generator, answer in (
        (LongAdditionGenerator(tokenizer=char_tokenizer(), length=(1, 4), num_of_nums=(2, 2)), added),
        (SuccessorGenerator(tokenizer=char_tokenizer(), length=(4, 4)), partial(counted, n=3)),
    ):
        for sample in generator.samples(50):
            assert answer(sample.prompt) == sample.answer


def test_a_walk_is_made_of_its_start_and_the_entries_that_it_passed() -> None:
    assert walked(TABLE) == "kuda"
    for step, found in enumerate(sources(TABLE, walked, SYMBOLS + "u")):
        assert "".join(np.array([*TABLE])[found]) == TABLE[: 2 * step + 2] + "h"
    with pytest.raises(ValueError, match="every symbol once; got 'haha h='"):
        walked("haha h=")
    assert walked("hkkuuuda h=") == "kuuu" and walked("hkkz h=") == "kz--"


@settings(max_examples=25)
@given(st.integers(0, 999), st.integers(0, 999), st.integers(0, 2**31))
def test_a_digit_of_a_sum_is_made_of_its_column_and_of_what_may_carry(one, other, seed) -> None:
    prompt = f"{one:04d}"[::-1] + "+" + f"{other:04d}"[::-1] + "="
    found = sources(prompt, added, DIGITS)
    generator = LongAdditionGenerator(tokenizer=char_tokenizer(), enlarged=True)
    sample = generator.annotate(prompt + added(prompt))
    reference = sample.reference[len(prompt) : len(prompt) + 4, 1 : len(prompt) + 1].numpy()
    assert not (found & ~reference).any()  # the study's columns, with those that a carry may come from
    assert all(found[place, place] and found[place, 5 + place] for place in range(4))
    rng = np.random.default_rng(seed)  # and digit by digit, in whole numbers
    at, digit = int(rng.choice([0, 1, 2, 3, 5, 6, 7, 8])), str(rng.integers(10))
    changed = prompt[:at] + digit + prompt[at + 1 :]
    total = sum(int(each[::-1]) for each in changed[:-1].split("+"))
    for place in range(4):
        differs = total // 10**place % 10 != (one + other) // 10**place % 10
        assert found[place, at] or not differs


def test_the_last_digit_of_a_number_is_made_of_the_first_ones_last_digit() -> None:
    found = sources("42 ", partial(counted, n=2), DIGITS)
    assert found[1].tolist() == found[4].tolist() == [False, True, False]
    assert found[0].tolist() == [True, True, False]  # 49 is followed by 50


def one_step(model, input_ids, attention_mask=None, query=-1, target=None, foil=None):
    """What a step of a walk looks at: the last symbol, and its entry."""
    scores = torch.zeros(input_ids.shape)
    last = input_ids.shape[1] - 1
    symbol = last - 1 if last == len(TABLE) else last  # at "=", the start
    scores[0, symbol] = 1.0
    entry = (input_ids[0, 1 : len(TABLE) - 2 : 2] == input_ids[0, symbol]).nonzero()[0, 0]
    scores[0, [1 + 2 * entry, 2 + 2 * entry]] = 1.0
    return scores


@pytest.fixture
def rows(monkeypatch) -> pd.DataFrame:
    """Of a model whose every step is known: rows of all ways."""
    model = CausalSizes(n_layers=1, n_heads=1, width=8).build("transformer", char_tokenizer())
    texts = [
        measures.written(TABLE, walked, SYMBOLS + "u"),
        measures.written("kuhkdaud h=", walked, SYMBOLS + "u"),
    ]
    built = measures.Built(lambda p: [0], lambda p, seed: model, lambda p: iter(texts))
    monkeypatch.setitem(measures.BUILT, "walks", built)
    monkeypatch.setattr(measures, "answered", lambda model, text: True)
    p = smallest("attribution_benchmark")
    made = [
        measures.hop_rows("walks", seed, p, {"AttnLRP": one_step, "rollout": "rollout"}) for seed in (0, 1)
    ]
    return pd.concat(made, ignore_index=True)


def test_hops_lead_back_through_the_token_that_predicts_and_not_without_it(rows) -> None:
    step = rows[rows["method"] == "AttnLRP"].groupby("way")["value"].mean()
    assert step[OWN] == 1.0
    assert step[DIRECTLY] == step[HOPS] < 0.95  # all that a step looks at in what was written is that token
    assert (rows["chance"] < step[DIRECTLY]).all() and len(rows) == 2 * 2 * 2 * 3


def test_what_is_kept_says_how_much_and_how_much_more(rows) -> None:
    kept = recorded_ways(rows).set_index("metric")
    assert kept.loc[f"{OWN}: AttnLRP", "value"] == 1.0
    gained = kept.loc[f"{OWN}, more than {DIRECTLY}: AttnLRP"]
    apart = 1.0 - kept.loc[f"{DIRECTLY}: AttnLRP", "value"]
    assert gained["value"] == pytest.approx(apart) and gained["low"] - 1e-9 <= apart <= gained["high"] + 1e-9
    assert gained["n"] == 2 and set(kept["run"]) == {"walks"}
    found = by_way(recorded_ways(rows))
    assert set(found["way"]) == {DIRECTLY, HOPS, OWN} and set(found["method"]) == {"AttnLRP", "rollout"}
    assert recorded_ways(pd.DataFrame()).empty


def test_a_prediction_is_told_whichever_way_it_was_kept() -> None:
    numbers = {
        "run": ["walks", "addition"],
        "metric": [f"{OWN}, more than {DIRECTLY}: AttnLRP"] * 2,
        "value": [0.5, -0.25],
        "low": [0.25, -0.5],
        "high": [0.75, 0.5],
        "n": [3, 3],
    }
    found = hop_prediction_table(pd.DataFrame(numbers)).set_index("prediction")
    (yes,) = (each.words for each in HOP_PREDICTIONS if each[1:] == ("walks", "AttnLRP", OWN, DIRECTLY))
    (open_,) = (each.words for each in HOP_PREDICTIONS if each[1:] == ("addition", "AttnLRP", DIRECTLY, OWN))
    assert found.loc[yes, ["came out", "value"]].tolist() == ["yes", 0.5]
    assert found.loc[open_, ["came out", "value", "low", "high"]].tolist() == ["not settled", 0.25, -0.5, 0.5]
    assert len(found) == 2


def test_every_prediction_is_of_what_can_be_asked() -> None:
    for each in HOP_PREDICTIONS:
        assert each.setting in measures.BUILT and {each.first, each.second} <= set(measures.WAYS)


def test_texts_are_of_the_tasks_and_none_is_trained_on() -> None:
    p = smallest("attribution_benchmark", models="smoke")
    for name, built in measures.BUILT.items():
        for text in islice(built.texts(p), 5):
            words = char_tokenizer().decode(text.ids, skip_special_tokens=True)
            assert text.sources.shape == (len(text.ids) - text.start, text.start), name
            assert words[text.start - 2] in "= " and not text.sources[:, [0, -1]].any()
    trained = {
        table
        for step in range(5)
        for table in measures.walk_prompts(np.random.default_rng(step), 64, "train")
    }
    held_out = measures.walk_prompts(np.random.default_rng(0), 64, "test")
    assert len(held_out) == 64 and not trained & {*held_out}


def test_a_text_is_asked_about_only_where_every_character_is_right() -> None:
    model = CausalSizes(n_layers=1, n_heads=1, width=8).build("transformer", char_tokenizer())
    text = measures.written(TABLE, walked, SYMBOLS)
    assert not measures.answered(model, text)
    ids = text.ids.clone()
    with torch.no_grad():
        for at in range(text.start, len(ids)):
            ids[at] = model(ids[None, :at]).logits[0, -1].argmax()
    assert measures.answered(model, text._replace(ids=ids))


def test_the_chapter_asks_the_tasks_that_it_is_told_to(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(
        "book.chapters.attribution_benchmark.attribution_benchmark.hop_rows",
        lambda *how: asked.append(how[:2]) or pd.DataFrame({"way": [""]}),
    )
    p = smallest("attribution_benchmark", whole_answers=["walks"], seeds=2)
    assert len(p.hop_rows(progress=False)) == 2 and asked == [("walks", 0), ("walks", 1)]
    assert "whole-answers" in p.label and "whole_answers" in p.recorded_parameters
    without = smallest("attribution_benchmark")
    assert without.hop_rows().empty and "whole_answers" not in without.recorded_parameters
