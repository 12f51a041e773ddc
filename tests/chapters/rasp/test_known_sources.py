"""Rollout, flow and attribution on models whose mechanism is known: what they must give, and what they do."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.attribution import METHODS, attributions
from attnlib.generators.rasp import language
from attnlib.models.compiled import compiled
from attnlib.rollout import attention_flow, rollout, rollout_of
from attnlib.stats import summarise
from book.chapters.rasp.measures import (
    BIDIRECTIONAL,
    EVERY_TOKEN,
    OTHER_SYMBOLS,
    REPLACED,
    exactness,
    source_rows,
    sources_found,
)
from book.chapters.rasp.tables import RECORD_COLUMNS, exact_rows

NAMES = ("reverse", "sort", "hist")
ROLLOUT = {"rollout": METHODS["rollout"]}
texts = st.text("abcdefghij", min_size=2, max_size=9)


@pytest.fixture(scope="module")
def models():
    return {name: compiled(language(name, 10, bos=True), 9) for name in NAMES}


def close(found, expected, atol=1e-4):
    torch.testing.assert_close(found, expected.to(found), atol=atol, rtol=0)


def programs(which, text):
    """The program's own attention, layer by layer of the model, and the ids."""
    sample = which.language.annotate(text)
    rows = {
        head: mask / mask.sum(1, keepdim=True).clamp(min=1) for head, mask in sample.target_attention.items()
    }
    layers = [torch.eye(len(sample.input_ids)) for _ in which.model.layers]
    for head, (layer, _) in which.heads.items():
        layers[layer] = rows[head]
    return layers, sample.input_ids


# ---- what follows attention follows the program's ---------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=4)
@given(text=texts)
def test_what_watches_attention_is_what_the_programs_selectors_say(models, name, text):
    which = models[name]
    layers, ids = programs(which, text)
    stacked = torch.stack(layers)[:, None]
    close(rollout_of(which.model, ids[None])[0], rollout(stacked))
    expected = {
        "raw attention, last layer": layers[-1],
        "mean attention": torch.stack(layers).mean(0),
        "rollout": rollout(stacked),
        "flow": attention_flow(stacked),
    }
    if name != "sort":  # there, rows look at the sink only: what is left, 0 or 1e-14, decides
        expected["sink-free rollout"] = rollout(stacked, sink=[0])
    for query in range(1, len(ids)):
        found = attributions(which.model, ids, [*expected], query=query)
        for method, scores in found.items():
            close(scores, expected[method][query])


# ---- the table -----------------------------------------------------------------------------------------


def batches_of(which, n=5, length=7, size=3):
    sequences = which.language.sequences(n, split="test", min_length=length - 2, max_length=length)
    return which.language.in_batches(sequences, size, target_attention=True)


def test_the_known_answer_table_of_reverse(models):
    expected = {
        "raw attention, last layer": (1, 1),
        "mean attention": (1, 1),
        "rollout": (0, 1),  # the query's own token ties
        "sink-free rollout": (0, 1),
        "flow": (0, 1),
        "value-weighted attention": (1, 1),
        "mean value-weighted attention": (1, 1),
        "rollout of value-weighted attention": (0, 1),
        "ALTI": (0, 1),
        "information flow routes": (0, 1),
        "value zeroing": (None, None),  # below, only the beginning's value is not 0: all goes there
        "gradient x embedding": (1, 1),
        "blank-out": (None, None),  # next to nothing: only where a repeated symbol hides that all move
    }
    assert set(expected) > set(BIDIRECTIONAL)
    methods = {name: METHODS[name] for name in expected}
    rows = source_rows(models["reverse"].model, batches_of(models["reverse"]), (1, 0), methods)
    table = summarise(rows, ["among", "method"], "found", unit="sample")
    table = table.set_index(["among", "method"])["value"]
    middle = rows[(rows["among"] == EVERY_TOKEN) & (rows["method"] == "rollout") & rows["found"].astype(bool)]
    assert len(middle) <= 5  # at most the middle symbol of each, which is its own source
    for method, values in expected.items():
        for among, value in zip((EVERY_TOKEN, OTHER_SYMBOLS), values, strict=True):
            if value == 1:
                assert table[among, method] == 1, (method, among)
            elif value is None:
                assert table[among, method] < 0.2, (method, among)


def test_rows_are_of_outputs_with_a_source_among_the_candidates(models):
    which = models["hist"]
    texts = ["abac", "bb", "abcde"]
    batch = which.language.batch(which.language.encode(*texts))
    rows = source_rows(which.model, [batch], (0, 0), ROLLOUT)
    every, others = (rows[rows["among"] == among] for among in (EVERY_TOKEN, OTHER_SYMBOLS))
    assert list(zip(every["sample"], every["query"], strict=True)) == sorted(
        ((sample, query + 1) for sample, text in enumerate(texts) for query in range(len(text))),
        key=lambda pair: pair[::-1],
    )
    assert sorted(zip(others["sample"], others["query"], strict=True)) == [(0, 1), (0, 3), (1, 1), (1, 2)]
    assert every.set_index(["sample", "query"])["chance"][0, 1] == pytest.approx(2 / 5)
    assert others.set_index(["sample", "query"])["chance"][0, 1] == pytest.approx(1 / 3)
    assert others.set_index(["sample", "query"])["chance"][1, 1] == 1
    again = source_rows(which.model, [batch, batch], (0, 0), ROLLOUT)
    assert sorted(set(again["sample"])) == [*range(6)]
    np.testing.assert_array_equal(again["found"][: len(rows)], rows["found"])


def test_ties_and_scores_that_are_not_numbers_find_nothing(models):
    def tied(model, input_ids, attention_mask=None, query=-1, target=None, foil=None):
        return torch.ones(input_ids.shape)

    def unknown(*args, **kwargs):
        return tied(*args, **kwargs) * torch.nan

    def nearly(model, input_ids, *args, **kwargs):
        scores = torch.ones(input_ids.shape)
        scores[:, input_ids.shape[1] - kwargs["query"]] += 1e-6  # the source, by a rounding error
        return scores

    batches = batches_of(models["reverse"], 4)
    methods = {"tied": tied, "unknown": unknown, "nearly": nearly}
    rows = source_rows(models["reverse"].model, batches, (1, 0), methods)
    assert len(rows) and not rows["found"].any()


def test_without_outputs_the_table_is_empty(models):
    batch = batches_of(models["reverse"], 1)[0]
    batch.target_ids.fill_(-100)
    rows = source_rows(models["reverse"].model, [batch], (1, 0), ROLLOUT)
    assert rows.empty and "found" in rows


def test_exact_models_are_exact_and_their_numbers_are_rows_of_a_record(models):
    exact = list(models.values())
    built = exactness(exact, 20)
    assert (built["right"] == built["asked"]).all() and built["asked"].max() <= 9
    assert built["apart"].max() < 1e-4
    found = sources_found(exact[:1], 2, length=5)
    assert {REPLACED, *BIDIRECTIONAL} == set(found["method"]) and found["query"].max() == 5
    assert found[found["method"] == REPLACED]["found"].mean() > 0.8  # not the middle one, its own source
    sources = summarise(found, ["run", "among", "method"], "found", unit="sample", beside=["chance"])
    rows = exact_rows(exact, built, sources)
    assert list(rows) == [*RECORD_COLUMNS, "task", "supervised", "seed", "setting"]
    assert rows["value"].notna().all() and not rows.duplicated(["run", "metric"]).any()
    assert (rows.loc[rows["metric"] == "accuracy, compiled", "value"] == 1).all()
    assert set(rows["setting"]) == {"compiled, BOS, 10 symbols, length up to 9"}
