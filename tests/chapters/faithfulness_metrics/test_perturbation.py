"""Taking tokens away: every operator against the same done by hand, and nothing asked twice."""

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from attnlib.models import Transformer, TransformerConfig
from book.chapters.attribution_benchmark.questions import Questions
from book.chapters.faithfulness_metrics.perturbation import FILLINGS, OPERATORS, READINGS, Case

IDS = [[1, 2, 3, 4, 5, 6], [1, 6, 5, 4, 3, 2], [1, 7, 8, 9, 0, 0], [1, 3, 7, 2, 0, 0]]
LENGTHS, QUERY = [6, 6, 4, 4], [5, 2, 3, 3]


def questions(causal):
    ids, n, query = torch.tensor(IDS), torch.tensor(LENGTHS), torch.tensor(QUERY)
    places = torch.arange(6)
    candidates = (places > 0) & (places < n[:, None]) & (places != query[:, None])
    if causal:
        candidates &= places < query[:, None]
    yes, truth = torch.ones(4, dtype=torch.bool), torch.zeros_like(candidates)
    truth[:, 1] = True
    parts = {"input_ids": ids, "attention_mask": places < n[:, None], "query": query, "truth": truth}
    parts |= {"candidates": candidates, "right": yes, "in_distribution": yes}
    parts["target"] = torch.tensor([2, 3, 4, 5])
    return Questions("typed", **parts, foil=torch.tensor([7, 6, 5, 4]), counterfactual=(ids + 1) % 10)


def model(kind):
    torch.manual_seed(0)
    if kind == "gpt2":
        ids = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
        return GPT2LMHeadModel(
            GPT2Config(vocab_size=11, n_embd=16, n_layer=2, n_head=2, initializer_range=0.3, **ids)
        ).eval()
    config = TransformerConfig(
        vocabulary=11, width=16, n_layers=2, causal=kind == "causal", positions="sinusoidal"
    )
    return Transformer(config).eval()


def by_hand(model, q, item, gone, operator):
    """The answer without some tokens of one question, in the plainest way: one prompt, one pass."""
    n, query = LENGTHS[item], QUERY[item]
    ids, stays = q.input_ids[item, :n], torch.tensor([place not in gone for place in range(n)])
    given = {}
    if operator == "mask":
        mask = stays[None].long() if isinstance(model, GPT2LMHeadModel) else stays[None]
        given = {"attention_mask": mask, "position_ids": torch.arange(n)[None]}
    elif operator == "delete":
        ids, query = ids[stays], int(stays[:query].sum())
    else:
        ids = torch.where(stays, ids, q.counterfactual[item, :n])
    with torch.no_grad():
        log_p = model(ids[None], **given).logits[0, query].double().log_softmax(-1)
    right, foil = log_p[q.target[item]], log_p[q.foil[item]]
    return {
        "p": float(right.exp() / (right.exp() + foil.exp())),
        "margin": float(right - foil),
        "log p": float(right),
    }


@pytest.mark.parametrize("kind", ["two-sided", "causal", "gpt2"])
@pytest.mark.parametrize("operator", ["mask", "delete", "resample"])
def test_an_operator_does_what_is_done_by_hand(kind, operator):
    asked, q = model(kind), questions(kind != "two-sided")
    case = Case(asked, q, batch_size=3)
    kept = np.random.default_rng(0).random((4, 5, 6)) < 0.5
    for reading in READINGS:
        found = case.answers(operator, reading, kept)
        for item, variant in np.ndindex(4, 5):
            gone = np.flatnonzero(q.candidates[item].numpy() & ~kept[item, variant])
            expected = by_hand(asked, q, item, gone, operator)[reading]
            assert found[item, variant] == pytest.approx(expected, abs=1e-5)


def test_with_nothing_taken_away_all_operators_give_the_whole_answer():
    asked, q = model("two-sided"), questions(False)
    everything = np.ones((4, 1, 6), dtype=bool)
    found = [Case(asked, q).answers(operator, "margin", everything) for operator in OPERATORS]
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], atol=1e-5)


def test_nothing_is_asked_twice_and_the_draws_are_the_same_whatever_is_asked_before():
    asked, q, calls = model("two-sided"), questions(False), []
    kept = np.random.default_rng(1).random((4, 7, 6)) < 0.5
    asked.register_forward_hook(lambda *_: calls.append(1))
    case = Case(asked, q)
    first = case.answers("random", "p", kept)
    n = len(calls)
    again = case.answers("random", "log p", kept[:, ::-1])
    assert len(calls) == n
    other = Case(asked, q)
    other.answers("random", "p", ~kept)
    np.testing.assert_array_equal(other.answers("random", "log p", kept), again[:, ::-1])
    np.testing.assert_array_equal(other.answers("random", "p", kept), first)


def test_a_token_is_replaced_by_one_of_the_same_place_in_a_question_as_long():
    q, rng = questions(False), np.random.default_rng(0)
    for _ in range(20):
        found = FILLINGS["replace"](q, rng)
        for item, place in np.argwhere(q.candidates.numpy()):
            others = [o for o in range(4) if o != item and q.candidates[o, place]]
            alike = [o for o in others if LENGTHS[o] == LENGTHS[item]]
            allowed = {IDS[o][place] for o in alike or others} or {IDS[item][place]}
            assert found[item, place] in allowed


def test_random_tokens_are_candidates_somewhere():
    q = questions(False)
    found = FILLINGS["random"](q, np.random.default_rng(0))
    assert set(found.ravel()) <= set(q.input_ids[q.candidates].tolist())


def test_what_cannot_be_asked_is_refused_in_words():
    q, kept = questions(False), np.ones((4, 1, 6), dtype=bool)
    case = Case(model("two-sided"), q)
    with pytest.raises(ValueError, match="one of p, margin, log p; got 'q'"):
        case.answers("mask", "q", kept)
    without = Questions(**vars(q) | {"counterfactual": None})
    with pytest.raises(ValueError, match="typed has no counterfactuals"):
        Case(model("two-sided"), without).answers("resample", "p", ~kept)
    with pytest.raises(ValueError, match="each with a foil"):
        Case(model("two-sided"), Questions(**vars(q) | {"foil": None}))
