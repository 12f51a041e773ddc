"""Questions, scores and statistics over programs; and what is refused of a method."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch

from attnlib.attribution.registry import METHODS
from attnlib.benchmarking.population import draw
from attnlib.benchmarking.questions import TRUTHS, precision, questions_of
from attnlib.benchmarking.scoring import Checked, asked, differences, features, features_of, rows_of, summary

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_questions_have_sources_and_another_answer(seed: int) -> None:
    program = draw(seed)
    questions = questions_of(program)
    assert questions is not None and 3 <= len(questions) <= 8
    rows = np.arange(len(questions))
    ids, others, query = (each.numpy() for each in (questions.ids, questions.counterfactual, questions.query))
    assert (program.outputs(ids)[rows, query] == questions.target.numpy()).all()
    assert (program.outputs(others)[rows, query] == questions.foil.numpy()).all()
    assert (questions.target != questions.foil).all()
    assert not questions.candidates[rows, query].any() and not questions.candidates[:, 0].any()
    either = [questions.truth(name) for name in TRUTHS]
    assert all((truth & ~questions.candidates).sum() == 0 for truth in either)
    assert np.any([truth.any(1) & (truth.sum(1) < questions.candidates.sum(1)) for truth in either], 0).all()


def test_the_truth_gets_1_and_a_constant_gets_0() -> None:
    questions = questions_of(draw(1))
    for name in TRUTHS:
        truth = questions.truth(name)
        best = precision(truth.astype(float), truth, questions.candidates)
        same = precision(np.ones(truth.shape), truth, questions.candidates)
        assert np.nanmin(best) == 1 and np.nanmax(np.abs(same)) < 1e-12


def test_scores_that_differ_by_less_than_a_thousandth_are_ties() -> None:
    truth, candidates = np.array([[False, False, True, False]]), np.array([[False, True, True, True]])
    nearly = np.array([[9.0, 1.0, 1.0 - 1e-4, 0.5]])
    equal = np.array([[0.0, 1.0, 1.0, 0.5]])
    assert precision(nearly, truth, candidates) == precision(equal, truth, candidates)
    assert precision(nearly - [[0, 0, 0.01, 0]], truth, candidates) < precision(equal, truth, candidates)


def test_rows_are_means_over_the_questions_of_a_program_and_both_signs_are_kept() -> None:
    rows = rows_of([1], {name: METHODS[name] for name in ("gradient x embedding", "rollout")})
    signs = rows.groupby("method")["sign"].agg(set)
    assert signs["gradient x embedding"] == {"as given", "absolute"} and signs["rollout"] == {"as given"}
    model, questions = asked(1)
    at = int(questions.query[0])
    (some,) = (questions.query == at).nonzero(as_tuple=True)
    scores = METHODS["rollout"](model, questions.ids[some], query=at).detach().numpy()
    own = precision(scores, questions.reads[some], questions.candidates[some])
    if len(some) == len(questions):
        value = rows.query("method == 'rollout' and truth == 'reads'")["value"].item()
        assert value == pytest.approx(np.nanmean(own), abs=1e-5)


@pytest.fixture
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = {"a": rng.normal(0.5, 0.1, 30), "b": rng.normal(0.3, 0.1, 30), "c": rng.normal(0.5, 0.1, 30)}
    return pd.concat(
        pd.DataFrame(
            {"seed": range(30), "method": name, "truth": "reads", "sign": "as given", "value": each, "n": 8}
        )
        for name, each in values.items()
    )


def test_means_and_intervals_are_students_over_programs(rows: pd.DataFrame) -> None:
    found = summary(rows).set_index("method")
    own = rows.loc[rows["method"] == "b", "value"]
    low, high = scipy.stats.t.interval(0.95, 29, own.mean(), scipy.stats.sem(own))
    assert found.loc["b", ["value", "low", "high"]].tolist() == pytest.approx([own.mean(), low, high])
    assert found.loc["b", ["n", "rank"]].tolist() == [30, 3]


def test_pairs_are_compared_on_the_same_programs_with_holms_correction(rows: pd.DataFrame) -> None:
    found = differences(rows.sample(frac=1, random_state=0)).set_index(["first", "second"])
    wide = rows.pivot(index="seed", columns="method", values="value")
    p = scipy.stats.ttest_rel(wide["a"], wide["b"]).pvalue
    assert found.loc[("a", "b"), "p"] == pytest.approx(p)
    assert found.loc[("a", "b"), "value"] == pytest.approx((wide["a"] - wide["b"]).mean())
    smallest = found["p"].min()
    assert (
        found["p_holm"].min() == pytest.approx(min(1, 3 * smallest))
        and found.loc[("a", "c"), "p_holm"] > 0.05
    )


def test_features_are_those_of_the_programs() -> None:
    found = features([*SEEDS, 1000, 5000]).set_index("seed")
    assert found.index.tolist() == [*SEEDS, 1000, 5000]
    for seed in found.index:
        drawn = features_of(draw(seed))
        assert found.loc[seed].to_dict() == {name: drawn[name] for name in drawn if name != "seed"}
        assert found.loc[seed, "layers"] == draw(seed).hops()
        assert found.loc[seed, ["counts", "copies", "lookups"]].sum() <= len(draw(seed).used())


def rolled(model, input_ids, attention_mask=None, query=-1, target=None, foil=None, counterfactual=None):
    return METHODS["rollout"](model, input_ids, attention_mask, query, target, foil)


def test_a_method_of_ones_own_is_asked_as_the_others_are() -> None:
    own = Checked(rolled, "mine")
    found = rows_of([1, 2], {"mine": own, "rollout": METHODS["rollout"]})
    mine, theirs = (found[found["method"] == name]["value"].tolist() for name in ("mine", "rollout"))
    assert mine == theirs and own.passes == own.questions > 0


def one_shorter(model, input_ids, **how):
    return rolled(model, input_ids, **how)[:, 1:]


def not_a_number(model, input_ids, **how):
    return rolled(model, input_ids, **how) * float("nan")


def training(model, input_ids, **how):
    model.train()
    return rolled(model, input_ids, **how)


def rewriting(model, input_ids, **how):
    with torch.no_grad():
        model.classify.weight.mul_(1.0)
    return rolled(model, input_ids, **how)


def guessing(model, input_ids, **how):
    return torch.rand(input_ids.shape)


def asking_for_more(model, input_ids, **how):
    return model.lm_head(input_ids)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (one_shorter, "the scores of mine must be of the shape"),
        (not_a_number, "the scores of mine must be finite"),
        (training, "mine must leave the model's"),
        (rewriting, "mine must leave the model's"),
        (guessing, "mine must return the same"),
        (asking_for_more, "mine must explain an attnlib Transformer in float64; it ends with AttributeError"),
    ],
)
def test_what_is_no_method_is_refused(method, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_of([1], {"mine": Checked(method, "mine")})
