"""Measures asked about models whose sources are known: what must come out, and what cannot be given."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from attnlib.attribution import METHODS
from attnlib.attribution.perturbation import blank_out
from attnlib.generators.rasp.language import language
from attnlib.models import Transformer, TransformerConfig
from book.chapters.attribution_benchmark.measures import (
    BASELINES,
    faithfulness_rows,
    plausibility_rows,
    probabilities,
    scored,
    untrained,
)
from book.chapters.attribution_benchmark.questions import Questions
from book.chapters.attribution_benchmark.settings import SETTINGS

P = SimpleNamespace(questions=24, models="quick", train_more=False)
COMPILED = [name for name in SETTINGS if name.endswith(", compiled")]


@pytest.fixture(scope="module")
def reverse():
    return SETTINGS["reverse, compiled"].make(P, 0)


def asked(input_ids, query, length=None, **changes):
    """Questions about tokens typed here, without truth."""
    ids = torch.tensor(input_ids)
    n = torch.tensor(length or [ids.shape[1]] * len(ids))
    real = torch.arange(ids.shape[1]) < n[:, None]
    candidates = real.clone()
    candidates[torch.arange(len(ids)), torch.tensor(query)] = False
    yes = torch.ones(len(ids), dtype=torch.bool)
    parts = {"target": ids[:, 0], "truth": torch.zeros_like(candidates), "candidates": candidates}
    parts |= {"right": yes, "in_distribution": yes, "query": torch.tensor(query)}
    return Questions("typed", ids, real, **(parts | changes))


def models():
    torch.manual_seed(0)
    small = {"vocab_size": 11, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    small["initializer_range"] = 0.3
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    llama = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, **small)
    gpt2 = GPT2Config(n_embd=16, n_layer=2, n_head=2, **small)
    config = {"vocabulary": 11, "width": 16, "n_layers": 2, "positions": "rotary"}
    return {
        "own, causal": Transformer(TransformerConfig(causal=True, **config)).eval(),
        "own, two-sided": Transformer(TransformerConfig(**config | {"positions": "sinusoidal"})).eval(),
        "llama": LlamaForCausalLM(llama).eval(),
        "gpt2": GPT2LMHeadModel(gpt2).eval(),
    }


MODELS = models()
TYPED = [[1, 5, 7, 2, 9, 3], [4, 4, 8, 1, 0, 0], [2, 6, 3, 3, 10, 7]]


# ---- plausibility -----------------------------------------------------------------------------------------


def test_the_truth_scores_one_its_opposite_below_zero_and_a_blind_order_near_it(reverse):
    _, questions = reverse
    truth = questions.truth.double()
    noise = torch.rand((100, *truth.shape), generator=torch.Generator().manual_seed(0))
    blind = {f"blind {number}": order for number, order in enumerate(noise)}
    rows = plausibility_rows(questions, {"truth": truth, "opposite": -truth} | blind, k=(1, 3))
    rows["method"] = rows["method"].str.replace(r"blind \d+", "blind", regex=True)
    sums = rows.groupby(["method", "metric"])[["value", "chance", "perfect"]].sum()
    means = ((sums["value"] - sums["chance"]) / (sums["perfect"] - sums["chance"])).unstack()
    assert means.loc["truth"].to_numpy() == pytest.approx(1)
    assert (means.loc["opposite"] < 0).all()
    assert means.loc["blind"].abs().max() < 0.08
    assert set(rows["metric"]) == {"average precision", "hit at 1", "hit at 3"}
    assert len(rows) == 3 * 102 * len(questions) and set(rows["split"]) == {"ID"} and rows["right"].all()


@pytest.mark.parametrize("name", COMPILED)
def test_what_the_program_looks_at_last_is_found_by_the_last_layer_and_the_gradient(name):
    model, questions = SETTINGS[name].make(P, 0)
    assert questions.right.all() and questions.truth.any(1).all() and len(questions) == P.questions
    found = scored(model, questions, ["raw attention, last layer", "gradient x embedding", "rollout"])
    rows = plausibility_rows(questions, found.scores, k=(1,))
    means = rows[rows["metric"] == "hit at 1"].groupby("method")["value"].mean()
    assert means["raw attention, last layer"] == 1
    assert means["gradient x embedding"] >= (0.99 if name != "hist, compiled" else 0)
    assert means["rollout"] > 0.4


def test_even_attention_gets_exactly_chance_on_every_question(reverse):
    model, questions = reverse
    found = scored(model, questions, BASELINES)
    rows = plausibility_rows(questions, found.scores)
    even = rows[rows["method"] == "even attention"]
    np.testing.assert_allclose(even["value"], even["chance"])
    again = scored(model, questions, BASELINES, batch_size=1)
    assert not torch.equal(found.scores["nearest first"], found.scores["earliest first"])
    for name in ("nearest first", "earliest first"):
        torch.testing.assert_close(found.scores[name], again.scores[name])
    place = torch.arange(questions.input_ids.shape[1]) - questions.query[:, None]
    nearest = found.scores["nearest first"].masked_fill(~questions.candidates, -1).argmax(1)
    assert place[torch.arange(len(questions)), nearest].abs().max() == 1


# ---- what measures say ------------------------------------------------------------------------------------


def test_scores_are_those_of_each_question_alone():
    questions = asked(TYPED, [5, 3, 2], length=[6, 4, 6], foil=torch.tensor([5, 6, 7]))
    found = scored(MODELS["own, causal"], questions, ["rollout", "gradient x embedding", "blank-out"])
    for item, (query, length) in enumerate([(5, 6), (3, 4), (2, 6)]):
        ids = questions.input_ids[item : item + 1, :length]
        for name, scores in found.scores.items():
            about = {"target": questions.target[item, None], "foil": questions.foil[item, None]}
            alone = METHODS[name](MODELS["own, causal"], ids, query=query, **about)
            torch.testing.assert_close(scores[item, :length], alone[0].float(), equal_nan=True)
            assert (scores[item, length:] == 0).all()


def test_what_a_model_cannot_give_is_named_with_the_reason():
    questions = asked(TYPED, [5, 3, 2])
    found = scored(MODELS["own, two-sided"], questions, ["rollout", "rollout over null"])
    assert [*found.scores] == ["rollout"]
    assert found.missing == {
        "rollout over null": "The null model looks at earlier tokens only, and this model at later ones, too."
    }


def test_what_fails_later_on_is_an_error_and_what_works_is_asked_once():
    calls = []

    def fussy(model, input_ids, attention_mask=None, query=-1, target=None, foil=None):
        calls.append(len(input_ids))
        if int(input_ids[0, 0]) == 4:
            raise ValueError("no fours")
        return torch.zeros(input_ids.shape)

    questions = asked(TYPED, [5, 5, 5])
    found = scored(MODELS["gpt2"], questions.where(torch.tensor([True, False, True])), fussy)
    assert [*found.scores] == ["fussy"] and calls == [2]
    with pytest.raises(ValueError, match="no fours"):
        scored(MODELS["gpt2"], questions, fussy, batch_size=1)


# ---- faithfulness -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_one_token_less_is_what_blank_out_leaves(name):
    model, questions = MODELS[name], asked(TYPED, [5, 4, 5])
    n = questions.input_ids.shape[1]
    kept = ~torch.eye(n, dtype=torch.bool).expand(3, n, n)
    whole = probabilities(model, questions, torch.ones(3, 1, n, dtype=torch.bool))
    lost = whole.log() - probabilities(model, questions, kept).log()
    for item, query in enumerate([5, 4, 5]):
        expected = blank_out(
            model, questions.input_ids[item : item + 1], query=query, target=questions.target[item : item + 1]
        )[0]
        there = torch.arange(n) != query
        torch.testing.assert_close(lost[item, there].float(), expected[there], atol=2e-5, rtol=1e-4)


def test_with_a_foil_it_is_the_odds_of_the_two():
    model, foil = MODELS["gpt2"], torch.tensor([5, 6, 7])
    questions = asked(TYPED, [5, 5, 5])
    every = torch.ones(3, 1, 6, dtype=torch.bool)
    right = probabilities(model, questions, every)
    other = probabilities(model, asked(TYPED, [5, 5, 5], target=foil), every)
    against = probabilities(model, asked(TYPED, [5, 5, 5], foil=foil), every)
    torch.testing.assert_close(against, right / (right + other))


def test_a_replacement_is_read_in_the_place_of_what_is_removed():
    model, questions = MODELS["own, two-sided"], asked(TYPED, [5, 5, 5])
    kept = torch.ones(3, 2, 6, dtype=torch.bool)
    kept[:, 1, 2] = False
    found = probabilities(model, questions, kept, replacement=0)
    typed = [[*row[:2], 0, *row[3:]] for row in TYPED]
    other = probabilities(model, asked(typed, [5, 5, 5], target=questions.target), kept[:, :1])
    torch.testing.assert_close(found[:, 1:], other)


def test_padding_and_batches_change_nothing():
    questions = asked(TYPED, [5, 3, 2], length=[6, 4, 6])
    kept = torch.rand(3, 7, 6, generator=torch.Generator().manual_seed(0)) < 0.6
    for model in MODELS.values():
        found = probabilities(model, questions, kept, batch_size=2)
        torch.testing.assert_close(found, probabilities(model, questions, kept))
        short = asked([TYPED[1][:4]], [3])
        torch.testing.assert_close(found[1:2], probabilities(model, short, kept[1:2, :, :4]))


def test_a_model_without_a_mask_needs_a_replacement():
    class Recurrent(torch.nn.Linear):
        def forward(self, input_ids):
            return super().forward(input_ids)

    with pytest.raises(ValueError, match=r"Recurrent does not take a mask.*replacement="):
        probabilities(Recurrent(2, 2), asked(TYPED, [5, 5, 5]), torch.ones(3, 1, 6, dtype=torch.bool))


def test_the_source_is_what_the_compiled_model_needs_and_the_rest_is_not(reverse):
    model, questions = reverse
    truth = questions.truth.float()
    given = {"truth": truth, "opposite": -truth, "even": torch.zeros_like(truth)}
    unknown = language("reverse", 10, bos=True).tokenizer.unk_token_id
    rows = faithfulness_rows(
        model, questions, given, budgets=[1], orders=8, standard="truth", replacement=unknown
    )
    means = rows.groupby(["metric", "method"])[["value", "chance", "perfect"]].mean()
    needed, enough = means.loc["comprehensiveness"], means.loc["sufficiency"]
    assert needed.loc["truth", "value"] == pytest.approx(0.5, abs=0.01)  # then the foil is as likely
    assert needed.loc["opposite", "value"] == pytest.approx(0, abs=1e-6)
    assert needed.loc["even", "value"] == pytest.approx(needed.loc["even", "chance"], abs=0.15)
    assert enough.loc["truth", "value"] == pytest.approx(0, abs=1e-6)
    assert enough.loc["opposite", "value"] == pytest.approx(0.5, abs=0.01)
    assert (needed["perfect"] > 0.99).all() and (enough["perfect"] == 0).all()
    agreement = means.loc["agreement with truth", "value"]
    assert agreement["opposite"] == pytest.approx(-1) and agreement["even"] == 0 and "truth" not in agreement
    assert (rows.groupby(["metric", "item"])["chance"].nunique() == 1).all()


def test_a_program_that_counts_needs_every_token_to_be_there(reverse):
    """Masked out, any symbol makes the sequence shorter, and its mirror image another."""
    model, questions = reverse
    opposite = -questions.truth.float()
    rows = faithfulness_rows(model, questions, {"opposite": opposite}, budgets=[1])
    assert rows.query("metric == 'comprehensiveness'")["value"].mean() > 0.3  # of 0.5


def test_every_measure_loses_the_same_when_everything_goes(reverse):
    model, questions = reverse
    noise = torch.rand(questions.truth.shape, generator=torch.Generator().manual_seed(0))
    given = {"truth": questions.truth.float(), "noise": noise}
    n = int(questions.candidates.sum(1).max())
    rows = faithfulness_rows(model, questions, given, budgets=[n])
    wide = rows.pivot_table(index="item", columns=["metric", "method"], values="value")
    pd.testing.assert_series_equal(
        wide["comprehensiveness", "truth"], wide["comprehensiveness", "noise"], check_names=False
    )
    assert wide["sufficiency"].abs().max().max() < 1e-6


def test_a_standard_that_was_not_asked_is_refused(reverse):
    with pytest.raises(ValueError, match=r"should be among the scores, \['a'\]; got 'b'"):
        faithfulness_rows(*reverse, {"a": reverse[1].truth.float()}, standard="b")


# ---- untrained twins --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_an_untrained_twin_has_the_configuration_and_other_weights(name):
    model = MODELS[name]
    state = torch.get_rng_state()
    twin, again, other = untrained(model, 1), untrained(model, 1), untrained(model, 2)
    assert torch.equal(state, torch.get_rng_state())
    assert type(twin) is type(model) and not twin.training
    weights = [dict(each.named_parameters()) for each in (model, twin, again, other)]
    shapes = [{key: value.shape for key, value in each.items()} for each in weights]
    assert shapes[0] == shapes[1]
    first = next(key for key, value in weights[1].items() if value.ndim == 2)
    assert torch.equal(weights[1][first], weights[2][first])
    assert not torch.equal(weights[1][first], weights[3][first])
    assert not torch.equal(weights[0][first], weights[1][first])
