"""Statistics against the numbers they should give."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attnlib.generators.rasp import language
from attnlib.models.transformer import Transformer, TransformerConfig
from attnlib.stats import (
    proportion,
    ratio,
    reference_mass,
    summarise,
)
from book.chapters.rasp.measures import target_masses

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "reference_mass.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_reference_mass_equals_the_originals_where_there_is_a_reference(case):
    labels, attention = torch.tensor(case["labels"]), torch.tensor(case["attention"], dtype=torch.float64)
    if labels.ndim == 2:
        labels, attention = labels[None], attention[None]
    mass = reference_mass(attention, labels == 1, labels != -100)
    for row in range(len(labels)):
        # The original skips rows without any label, and gives 0 to rows without a reference key, or without
        # attention on labelled keys. Neither has an answer: ours are NaN.
        labelled = (labels[row] != -100).any(-1)
        theirs = torch.tensor(case["percentages"][row], dtype=torch.float64)
        attended = (attention[row] * (labels[row] != -100)).sum(-1) > 0
        answered = ((labels[row] == 1).any(-1) & attended)[labelled]
        assert answered.any() and (theirs[~answered] == 0).all()
        assert mass[row][labelled][~answered].isnan().all()
        torch.testing.assert_close(mass[row][labelled][answered], theirs[answered])


def test_reference_mass_by_hand():
    attention = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.2, 0.2, 0.6]]])
    reference = torch.tensor([[[1, 0, 0], [0, 1, 1], [0, 0, 0]]]).bool()
    evaluated = torch.tensor([[[1, 1, 0], [1, 1, 1], [1, 1, 1]]]).bool()
    mass = reference_mass(attention, reference, evaluated)
    torch.testing.assert_close(mass[0, :2], torch.tensor([0.5 / 0.8, 0.9]))
    assert mass[0, 2].isnan()  # nothing to look at


def test_proportion_is_wilsons():
    estimate = proportion(10, 10)
    assert estimate.value == 1 and estimate.high == 1
    assert estimate.low == pytest.approx(1 / (1 + 1.959964**2 / 10))  # Wilson's lower end at 10 of 10


@settings(max_examples=40)
@given(arrays.arrays(float, st.integers(1, 20), elements=st.floats(0, 1)))
def test_the_ratio_lies_in_its_interval_or_beside_it_by_rounding(parts):
    estimate = ratio(parts, np.ones(len(parts)))
    assert estimate.low - 1e-12 <= estimate.value <= estimate.high + 1e-12 or len(parts) < 8
    assert estimate.n == len(parts)


def test_the_bootstrap_needs_little_memory_however_many_samples_there_are():
    parts = np.random.default_rng(0).random(6_000)
    tracemalloc.start()
    found = ratio(parts, np.ones(len(parts)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # all draws at once took ten times as much
    draws = np.random.default_rng(0).multinomial(300, np.full(300, 1 / 300), size=2000) @ parts[:300] / 300
    assert ratio(parts[:300], np.ones(300))[1:3] == tuple(np.percentile(draws, [2.5, 97.5]))
    assert found.n == 6_000


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_a_summary_is_what_its_parts_say(seed):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "group": pd.Categorical(rng.choice(["b", "a"], 40), ["a", "b", "empty"]),
            "sample": rng.integers(0, 9, 40),
            "value": np.where(rng.random(40) < 0.1, np.nan, rng.random(40)),
            "whole": rng.integers(1, 5, 40),
            "right": rng.random(40) < 0.7,
        }
    )
    kept = rows[rows["value"].notna()]
    for group, part in kept.groupby("group", observed=True):
        values = part["value"].to_numpy()
        wanted = {
            "mean": (summarise(rows, ["group"]), ratio(values, np.ones(len(values)))),
            "ratio": (summarise(rows, ["group"], whole="whole"), ratio(values, part["whole"])),
            "units": (
                summarise(rows, ["group"], unit="sample"),
                ratio(means := part.groupby("sample")["value"].mean(), np.ones(len(means))),
            ),
        }
        for table, estimate in wanted.values():
            assert tuple(table.set_index("group").loc[group, ["value", "low", "high", "n"]]) == estimate
    shares = summarise(rows, ["group"], "right").set_index("group")
    for group, part in rows.groupby("group", observed=True):
        assert tuple(shares.loc[group]) == proportion(int(part["right"].sum()), len(part))
    every = summarise(rows, ["group"], unit="sample", beside=["whole"], every=True, at_least=2)
    assert list(every["group"]) == ["a", "b", "empty"] and list(every)[-2:] == ["whole", "rows"]
    assert every.iloc[2].tolist() == ["empty", *["not enough data"] * 3, 0, "not enough data", 0]


@pytest.fixture
def model():
    torch.manual_seed(0)
    lang = language("sort", 10, bos=True)
    size = {"n_layers": 2, "n_heads": 1, "width": 16, "max_length": 20}
    return Transformer(TransformerConfig(len(lang.tokenizer), n_classes=len(lang.classes), **size)).eval()


def test_target_mass_of_uniform_attention_is_the_null_level(model):
    for layer in model.layers:  # no queries and keys, no preference
        torch.nn.init.zeros_(layer.attention.qkv.weight)
    lang = language("sort", 10, bos=True)
    batches = lang.in_batches(lang.sequences(60, max_length=12), target_attention=True)
    rows = target_masses(model, batches)
    assert len(rows) == 2 * 60
    table = summarise(rows, ["metric"], beside=["uniform"]).set_index("metric")
    assert list(table.index) == ["mass L0H0", "mass L1H0"]
    np.testing.assert_allclose(table["value"], table["uniform"], rtol=1e-4)
    permutation = np.mean([1 / len(text) for text in lang.decode(lang.sequences(60, max_length=12))])
    assert table.loc["mass L1H0", "uniform"] < permutation + 0.05


def test_heads_that_the_model_lacks_have_no_row(model):
    lang = language("hist2", 10, bos=True)
    batches = lang.in_batches(lang.sequences(20, max_length=8), target_attention=True)
    assert list(target_masses(model, batches)["metric"].unique()) == ["mass L0H0", "mass L1H0"]
    none = target_masses(model, lang.in_batches(lang.sequences(20, max_length=8)))
    assert none.empty and summarise(none, ["metric"], beside=["uniform"]).empty
