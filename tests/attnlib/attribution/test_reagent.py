"""ReAGent: against its definition, a run and a step at a time, and a program whose answer is known."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib.attribution.reagent import NEARLY, _exchanged, reagent
from attnlib.generators.rasp import language
from attnlib.models import Transformer, TransformerConfig
from attnlib.models.compiled import compiled

IDS = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(2))


def made(causal):
    torch.manual_seed(0)
    sizes = {"n_layers": 2, "n_heads": 2, "width": 16, "max_length": 12}
    model = Transformer(TransformerConfig(11, causal=causal, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 3  # so that answers change with the tokens
    return model


def other_tokens(ids, gone, chance):
    """In the place of each that is gone a token that differs from it, the lowest ids first."""
    found = list(ids)
    for k in range(len(ids)):
        others = sorted(other for other in ids if other != ids[k])
        if gone[k] and others:
            found[k] = others[int(np.float32(chance[k]) * np.float32(len(others)))]
    return found


def by_the_definition(model, ids, query, target, foil, steps, runs=8):
    """Scores of the tokens that are read, and how many steps the runs took."""
    rng = np.random.default_rng([0, len(ids)])

    def answer(tokens):
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0, query]
        p = logits.softmax(-1) if foil is None else logits[[target, foil]].softmax(-1)
        return float(p[target if foil is None else 0]), int((logits > logits[target]).sum())

    p, rank = answer(ids)
    start = rng.random((runs, len(ids)), np.float32)
    draws = rng.random((steps, 3, runs, len(ids)), np.float32)
    scores, lengths = [], []
    for run in range(runs):
        s = start[run].astype(float)
        for step in range(steps):
            inside, first, second = draws[step, :, run]
            changed, _ = answer(other_tokens(ids, inside < 0.3, first))
            moved = min(max((1 + p - changed) / 2, NEARLY), 1 - NEARLY)
            s += np.where(inside < 0.3, 1, -1) * math.log(moved / (1 - moved))
            enough = np.argsort(-s)[: math.ceil(0.3 * len(ids))]
            _, now = answer(other_tokens(ids, ~np.isin(np.arange(len(ids)), enough), second))
            if now <= rank:
                break
        lengths.append(step + 1)
        scores.append(np.exp(s) / np.exp(s).sum())
    return np.mean(scores, 0), lengths


@pytest.mark.parametrize("foil", [None, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_it_is_what_it_is_defined_as(causal, foil):
    model, query, lengths = made(causal), 5, []
    read = query + 1 if causal else IDS.shape[1]
    with torch.no_grad():
        targets = model(IDS).logits[:, query].topk(2).indices[[0, 1, 2], [0, 1, 0]]  # the second of one
    found = reagent(model, IDS, query=query, target=targets, foil=foil, steps=6)
    for ids, target, scores in zip(IDS.tolist(), targets.tolist(), found, strict=True):
        expected, took = by_the_definition(model, ids[:read], query, target, foil, steps=6)
        np.testing.assert_allclose(scores[:read], expected, atol=1e-4)
        assert not scores[read:].any()
        lengths += took
    assert 1 in lengths and 6 in lengths  # some end at once, and some do not


@given(st.lists(st.integers(0, 3), min_size=2, max_size=8), st.integers(0, 2**31))
def test_a_token_is_exchanged_for_another_of_the_same_prompt(ids, seed):
    gone, chance = np.random.default_rng(seed).random((2, len(ids)))
    given_ids, gone = torch.tensor([ids]), torch.from_numpy(gone < 0.5)[None]
    found = _exchanged(given_ids, gone, torch.from_numpy(chance).float()[None])
    assert torch.equal(found[~gone], given_ids[~gone]) and set(found[0].tolist()) <= set(ids)
    assert len(set(ids)) == 1 or (found != given_ids)[gone].all()


def test_all_other_tokens_are_as_likely():
    ids = torch.tensor([[5, 2, 5, 9]]).repeat(3000, 1)
    chance = torch.rand(ids.shape, generator=torch.Generator().manual_seed(0))
    found = _exchanged(ids, torch.ones_like(ids).bool(), chance)
    share = {token: (found == token).float().mean(0).tolist() for token in (2, 5, 9)}
    assert share[2] == pytest.approx([1 / 2, 0, 1 / 2, 1 / 3], abs=0.03)
    assert share[5] == pytest.approx([0, 2 / 3, 0, 2 / 3], abs=0.03)


def test_the_mirrored_symbol_comes_first_where_a_program_reverses():
    program = compiled(language("reverse", 10, bos=True), 9)
    ids = program.language.batch(program.language.encode("abcdefgh")).input_ids[0]
    for query in range(1, 9):  # 8 runs find it at 7 of these 8
        scores = reagent(program.model, ids[None], query=query, runs=64)[0]
        assert scores[1:].argmax() == 8 - query and float(scores.sum()) == pytest.approx(1)
    again = reagent(program.model, ids[None], query=8, runs=64, batch_size=3)[0]
    torch.testing.assert_close(again, scores)
    other = reagent(program.model, ids[None], query=8, runs=64, seed=1)[0]
    assert not torch.allclose(other, scores)
