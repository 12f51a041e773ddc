"""Metrics on needles, models trained again, and what is kept of parts that are asked for."""

import copy
import dataclasses
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from attnlib.attribution.learned import learned_heads
from attnlib.generators.base import IGNORE
from attnlib.generators.rasp import language
from attnlib.generators.tokenizer import UNK_ID
from attnlib.models import Transformer, TransformerConfig
from book.chapters.attribution_benchmark.measures import scored
from book.chapters.attribution_benchmark.questions import about_programs, gathered
from book.chapters.faithfulness_metrics.further import carry, needles, roar
from book.chapters.faithfulness_metrics.further import tables as further
from book.chapters.faithfulness_metrics.further.tables import BEFORE, TAU, Prediction, by_measure, by_metric
from book.chapters.faithfulness_metrics.measures import (
    BESIDE,
    PLAUSIBILITY,
    PROTOCOLS,
    RUNGS,
    Rated,
    agreement,
    prompts_of,
    rate,
)
from book.chapters.faithfulness_metrics.perturbation import Case
from book.chapters.faithfulness_metrics.predictions import EXPECTED, TODAY
from book.chapters.faithfulness_metrics.tables import part_rows
from tests.parameters import smallest

chapter = partial(smallest, "faithfulness_metrics", settings=["hist, compiled"], questions=6)


@pytest.fixture(scope="module")
def case() -> Case:
    """An untrained model, and questions about sequences to reverse."""
    lang = language("reverse", 10, bos=True)
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(len(lang.tokenizer), len(lang.classes), n_layers=1, width=16)
    ).eval()
    drawn = lang.sequences(40, split="test", min_length=6, max_length=6)
    return Case(model, gathered("reverse", model, about_programs(lang, drawn)), seed=1)


def test_the_one_token_that_a_measure_names_is_taken_away_and_one_answer_asked_for(case):
    truth = case.truth
    batch, q = roar.without(case, truth), case.questions
    assert torch.equal(batch.input_ids == UNK_ID, torch.from_numpy(truth))
    kept = ~torch.from_numpy(truth)
    assert torch.equal(batch.input_ids[kept], q.input_ids[kept])
    asked = batch.target_ids != IGNORE
    assert torch.equal(asked.nonzero()[:, 1], q.query) and torch.equal(batch.target_ids[asked], q.target)


def test_no_model_is_trained_on_what_it_is_judged_by(case, monkeypatch):
    given = []
    monkeypatch.setattr(roar, "fit", lambda model, batches, *rest, **how: given.append(batches))
    batch = roar.without(case, case.truth)
    assert roar.trained_again(case, batch) is not case.model
    there = roar.tested(len(batch))
    assert 0 < there.sum() < len(batch) / 2
    of_test = {tuple(row) for row in batch.input_ids[there].tolist()}
    drawn = {tuple(row) for step in range(5) for row in given[0](step).input_ids.tolist()}
    assert len(drawn) == (~there).sum() and not drawn & of_test
    assert torch.equal(given[0](3).input_ids, given[0](3).input_ids)
    assert np.array_equal(np.isnan(roar.lost(case.model, batch)), ~there.numpy())


def test_roar_trains_a_model_per_measure_random_places_one_and_the_model_as_it_was_none(case, monkeypatch):
    seen = []
    monkeypatch.setattr(
        roar, "trained_again", lambda case, batch: seen.append(batch) or copy.deepcopy(case.model)
    )
    scores = {
        "truth": torch.from_numpy(case.truth).float(),
        "place": torch.arange(7.0).expand(case.truth.shape),
    }
    found = {name: rate("reverse", 1, case, scores, {name: each}) for name, each in roar.METRICS.items()}
    measures = len(scores) + len(RUNGS)
    assert len(seen) == measures + 1
    taken = [batch.input_ids == UNK_ID for batch in seen]
    assert all((each.sum(1) == 1).all() for each in taken)
    assert torch.equal(taken[0], torch.from_numpy(case.truth))
    assert not any(torch.equal(each, taken[-1]) for each in taken[:-1])  # a coin of its own
    asked = np.stack([each.numbers[name] for name, each in found.items()])
    assert (asked[0] == asked)[:, roar.tested(len(case.truth))].all()  # as nothing was trained here


def test_a_model_trained_without_its_source_loses_the_answer_and_without_another_keeps_it(monkeypatch):
    monkeypatch.setattr(roar, "BATCH", 64)
    torch.manual_seed(0)
    lang = language("reverse", 10, bos=True)
    config = TransformerConfig(
        len(lang.tokenizer), len(lang.classes), n_layers=1, width=32, positions="learned"
    )
    drawn = lang.sequences(600, split="test", min_length=4, max_length=4)
    model = Transformer(config)
    case = Case(model, gathered("reverse", model, about_programs(lang, drawn)))
    other = case.candidates & ~case.truth & (np.cumsum(case.candidates & ~case.truth, 1) == 1)
    lost = {}
    for name, taken in {"source": case.truth, "another": other}.items():
        batch = roar.without(case, taken)
        lost[name] = np.nanmean(roar.lost(roar.trained_again(case, batch), batch))
    assert lost["source"] > 0.7 and lost["another"] < lost["source"] - 0.3


def made_up(setting: str, seed: int, before: float) -> Rated:
    """Numbers of three measures and the ladder, of eight questions; so much is the first before the truth."""
    measures = ("a", "b", "c", *BESIDE)
    rng = np.random.default_rng(seed)
    known = np.array([0.9, 0.6, 0.3, 1, 0.8, 0.6, 0.4, 0.2, 0, 1])
    noise = rng.normal(size=(8, len(known))) * 0.05
    first = known + noise
    first[:, 0] += before
    second = np.append(known[-2::-1], 0.3) + noise
    return Rated(setting, seed, measures, {PLAUSIBILITY: known + 0 * noise, "one": first, "two": second})


def test_numbers_are_those_of_the_table_with_intervals_over_questions():
    one, two = "one", "two"
    model = made_up("facts", 3, before=1.0)
    predictions = (
        Prediction("tau", by_metric(TAU, one, two)),
        Prediction("truth", by_measure(one, "the truth", "noise alone"), ("another",)),
    )
    found = further.part_tables("x", [model], predictions)
    table = agreement([model]).set_index("protocol")
    number = found["x"].set_index(["judge", "number"])
    for name in (one, two):
        assert number.loc[(name, TAU), "value"] == pytest.approx(table.loc[name, "tau"])
        assert number.loc[(name, BEFORE), "value"] == pytest.approx(table.loc[name, "above"])
    assert (number["low"] <= number["value"] + 1e-9).all() and (number["n"] == 8).all()
    expected = found["x, expected"].set_index("prediction")
    assert expected["value"].to_dict() == {
        "tau": pytest.approx(table.loc[one, "tau"] - table.loc[two, "tau"])
    }
    said = found["x, by measure"].set_index(["judge", "method"])["value"]
    assert said[(one, "a")] == pytest.approx(model.numbers[one][:, 0].mean())


def test_of_several_models_intervals_are_over_them_and_what_is_recorded_is_read_again():
    models = [made_up(setting, seed, 0.0) for setting in ("reverse", "hist") for seed in range(3)]
    predictions = (
        Prediction("the second is better", by_metric(TAU, "two", "one")),
        Prediction("the truth is above noise", by_measure("one", "the truth", "noise alone"), ("hist",)),
    )
    found = further.part_tables("x", models, predictions)
    assert (found["x"]["n"] == 3).all()
    rows = part_rows(found)
    rows = rows.assign(metric=rows["what"] + ": " + rows["protocol"], record="r")
    *_, lost, expected = further.recorded_tables(rows, "x")
    pd.testing.assert_frame_equal(lost, found["x, by measure"], check_dtype=False)
    assert expected["came out"].tolist() == ["no", "no", "yes"]
    assert expected["value"].tolist()[:2] == [-2.0, -2.0]
    over = further.expected_over_settings(expected).set_index("prediction")
    assert over["n"].to_dict() == {"the second is better": 2, "the truth is above noise": 1}
    assert (
        over.loc["the second is better", "value"] == -2
        and over.loc["the second is better", "came out"] == "no"
    )
    assert all(each.empty for each in further.recorded_tables(pd.DataFrame(), "x"))
    assert further.expected_over_settings(expected[:0]).empty
    wide = further.recorded_tables(rows.assign(low=-2.0, high=2.0), "x")[0].set_index("number")
    assert {*wide.loc[TAU, "low"]} == {-1} and {*wide.loc[BEFORE, "low"]} == {0} and {*wide["high"]} == {1}


def test_no_interval_of_a_share_ends_beyond_it():
    ends = pd.DataFrame({"judge": [roar.ROAR, PLAUSIBILITY], "low": [-0.2, -0.2], "high": [0.5, 1.2]})
    found = roar.within_bounds(ends)
    assert found["low"].tolist() == [0, -0.2] and found["high"].tolist() == [0.5, 1]


def test_a_part_is_judged_where_it_is_asked_for_and_nowhere_else(monkeypatch):
    made = made_up("hist, supervised", 0, 0.0)
    known, one, two = made.numbers.values()
    numbers = {PLAUSIBILITY: known, roar.AS_IT_WAS: one, roar.ROAR: one, roar.RANDOM: two}
    monkeypatch.setattr(roar, "rated", lambda p: [made._replace(numbers=numbers)])
    assert chapter().beyond("roar") == {}
    found = chapter(parts=["roar"]).beyond("roar")
    assert [*found] == ["roar", "roar, by measure", "roar, expected"]
    assert len(found["roar, expected"]) == len(roar.PREDICTED)


def test_prompts_have_one_form_one_needle_and_hinge_on_it(monkeypatch):
    monkeypatch.setattr(needles, "DRAWN", 60)
    p = chapter()
    found = needles.cases(p)
    assert [*found] == [needles.FACT, needles.NAME]
    for each in found.values():
        q = each.questions
        assert 2 <= len(q) <= p.questions and q.attention_mask.all() and len(set(each.truth.sum(1))) == 1
        assert not each.candidates[:, -1].any()
    facts = found[needles.FACT]
    assert (facts.truth.sum(1) == 1).all() and facts.questions.counterfactual is not None
    asked = SimpleNamespace(
        candidates=np.ones((3, 2), bool),
        answers=lambda operator, reading, kept: np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]]),
    )
    assert needles.hinging(asked).tolist() == [True, False, False]


def test_a_language_model_is_judged_and_nothing_is_where_it_is_not_asked_for(monkeypatch):
    monkeypatch.setattr(needles, "DRAWN", 60)
    monkeypatch.setattr(needles, "MEASURES", ("rollout", "gradient x embedding", "blank-out"))
    p = chapter(parts=["needles"], questions=4, draws=1)
    found = p.beyond("needles")
    assert {*found} == {"needles", "needles, by measure", "needles, expected"}
    table = found["needles"]
    assert len(table) == 2 * len(needles.METRICS) * 2 and table["value"].between(-1, 1).all()
    assert p.beyond("roar") == {} and chapter().beyond("needles") == {}
    assert {EXPECTED, TODAY} <= {*needles.METRICS} <= {*PROTOCOLS}


def test_weights_are_learned_in_distribution_and_asked_out_of_it_the_next_seeds_too(case, monkeypatch):
    far = torch.arange(len(case.questions)) % 2 == 1
    known = dataclasses.replace(case.questions, right=torch.ones_like(far), in_distribution=~far)
    models = [case.model, copy.deepcopy(case.model), copy.deepcopy(case.model)]
    for seed, model in enumerate(models):
        torch.manual_seed(seed)
        for weights in model.parameters():
            torch.nn.init.normal_(weights, std=0.5)
    asked = [known, known, known.where(~far)]  # to the last one, nothing out of distribution
    setting = SimpleNamespace(
        seeds=lambda p: [0, 1, 2], make=lambda p, seed, others: (models[seed], asked[seed])
    )
    monkeypatch.setattr(
        carry,
        "SETTINGS",
        {"reverse": setting, "alone": SimpleNamespace(seeds=lambda p: [0], make=setting.make)},
    )
    monkeypatch.setattr(carry, "ASKED", ("reverse", "alone"))
    found = carry.rated(chapter(parts=["carry"], seeds=3))
    assert [(each.setting, each.seed) for each in found] == [("reverse", 0), ("reverse", 1)]
    near, out = known.where(~far), known.where(far)
    for seed, each in enumerate(found):
        ways = {
            name: scored(models[seed], out, {name: learned_heads(models[of], prompts_of(near))}).scores[name]
            for name, of in ((carry.NEAR, seed), (carry.OTHER, seed + 1))
        }
        wanted = rate("reverse", seed, Case(models[seed], out, seed=seed), ways, {}).numbers[PLAUSIBILITY]
        got = each.numbers[PLAUSIBILITY][:, [each.measures.index(name) for name in ways]]
        assert np.array_equal(got, wanted[:, :2]) and not np.array_equal(wanted[:, 0], wanted[:, 1])
        assert {carry.LIKE, carry.MEAN, carry.LEADER} <= {*each.measures}
    assert {*further.part_tables("carry", found, carry.PREDICTED)["carry, expected"]["n"]} == {2}


def test_weights_cannot_go_to_another_seed_where_there_is_one():
    with pytest.raises(ValueError, match="seeds should be at least 2"):
        chapter(parts=["carry"], seeds=1)
