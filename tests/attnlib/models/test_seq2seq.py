"""The translator: the original's numbers, padding that changes nothing, and decoding that finds the best."""

import itertools
import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnlib.generators.translation import Pairs
from attnlib.models import lstm_precision
from attnlib.models.seq2seq import (
    BiLSTM,
    Seq2Seq,
    Seq2SeqConfig,
    translate,
    translation_loss,
    translation_scores,
)
from book.chapters.translation.measures import source_scores

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "translation.json").read_text())["cases"]
NAMES = {
    "encoder_lstm": "encoder",
    "decoder_lstm": "decoder",
    "extra_ff": "to_joined",
    "hidden2vocab": "to_vocabulary",
    "attn_lin": "to_query",
    "project_enc": "to_context",
}


def golden_model(case):
    context = "feed-forward" if case["full_model"] else "added"
    sizes = {"vocabulary": case["vocabulary"], "hidden": case["hidden"], "layers": case["layers"]}
    model = Seq2Seq(Seq2SeqConfig(**sizes, dropout=0.0, context=context, uniform=case["uniform"]))
    weights = {}
    for name, values in case["weights"].items():
        part, rest = name.split(".", 1)
        weights[f"{NAMES.get(part, part)}.{rest}"] = torch.tensor(values)
    if context == "added":  # the original has the layer, and does not use it
        weights = {name: value for name, value in weights.items() if not name.startswith("to_joined")}
    model.load_state_dict(weights)
    return model


def pairs_of(sources, targets):
    sides = []
    for side in (sources, targets):
        sides += [
            torch.tensor([i for each in side for i in each]),
            torch.tensor([len(each) for each in side]),
        ]
    return Pairs(*sides, texts=tuple(("", "") for _ in sources))


def golden_pairs(case):
    return pairs_of(*([each[side] for each in case["examples"]] for side in ("source", "target")))


def flat(case, name):
    return torch.cat([torch.tensor(each[name]).flatten() for each in case["examples"]])


def small(vocabulary=7, seed=0, **settings):
    torch.manual_seed(seed)
    sizes = {"hidden": 6, "layers": 2, "dropout": 0.0} | settings
    return Seq2Seq(Seq2SeqConfig(vocabulary, **sizes)).eval()


@pytest.mark.parametrize("case", GOLDEN, ids=["added", "feed-forward", "peaked", "uniform"])
@pytest.mark.parametrize("batch_size", [2, 64])
def test_the_originals_loss_attention_relevance_and_influence(case, batch_size):
    model, pairs = golden_model(case), golden_pairs(case)
    found = source_scores(model, pairs, batch_size=batch_size)
    for name in ("alpha", "beta", "delta", "log_probability"):
        torch.testing.assert_close(getattr(found, name), flat(case, name), atol=1e-5, rtol=0)
    whole = pairs.batch(torch.arange(len(pairs)))
    assert translation_loss(model, whole).item() == pytest.approx(case["loss"], abs=1e-5)
    scores = translation_scores(model, pairs.in_batches(2))
    assert scores["perplexity"] == pytest.approx(float(found.log_probability.mean().neg().exp()), rel=1e-5)
    assert scores["accuracy"] == pytest.approx(found.accuracy)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_padding_is_read_as_if_it_were_not_there(layers):
    torch.manual_seed(layers)
    ours, packed = BiLSTM(5, 4, layers, 0.0), nn.LSTM(5, 4, layers, bidirectional=True, batch_first=True)
    packed.load_state_dict(ours.state_dict())
    x, lengths = torch.randn(4, 6, 5), torch.tensor([6, 1, 4, 3])
    real = torch.arange(6) < lengths[:, None]
    states, (hidden, cell) = ours(x, real)
    wanted, (last, cells) = packed(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    torch.testing.assert_close(states[real], pad_packed_sequence(wanted, batch_first=True)[0][real])
    torch.testing.assert_close(hidden, last.view(layers, 2, 4, 4).mean(1))
    torch.testing.assert_close(cell, cells.view(layers, 2, 4, 4).mean(1))


def test_what_stands_on_padding_changes_neither_loss_nor_gradient():
    pairs = pairs_of([[1, 4, 5, 2], [1, 6, 2]], [[1, 5, 2], [1, 3, 4, 6, 2]])
    batch, gradients = pairs.batch(torch.arange(2)), []
    for filler in (0, 5):
        model = small()
        source = batch.source.masked_fill(torch.arange(4) >= batch.source_lengths[:, None], filler)
        joined = model(source, batch.source_lengths, batch.target[:, :-1]).joined
        loss = model.to_vocabulary(joined[batch.real]).logsumexp(-1).sum()
        gradients.append([loss, *torch.autograd.grad(loss, [model.encoder.weight_hh_l1_reverse])])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_dropout_and_attention():
    pairs = pairs_of([[1, 4, 5, 2]], [[1, 5, 2]])
    batch, model = pairs.batch(torch.arange(1)), small(dropout=0.5)
    assert torch.equal(model(**batch.inputs).joined, model(**batch.inputs).joined)
    model.train()
    assert not torch.equal(model(**batch.inputs).joined, model(**batch.inputs).joined)
    assert torch.equal(small(uniform=True)(**batch.inputs).alpha, torch.full((1, 2, 4), 0.25))


def log_probability(model, source, lengths, target):
    steps = model.to_vocabulary(model(source, lengths, target[:, :-1]).joined).log_softmax(-1)
    return steps.gather(2, target[:, 1:, None]).sum().item()


@pytest.mark.parametrize("context", ["added", "feed-forward"])
def test_a_wide_beam_finds_the_most_probable_translation_of_all(context):
    model = small(vocabulary=5, context=context)
    with torch.no_grad():
        model.to_vocabulary.bias[:] = torch.tensor([-9.0, -9.0, 0.3, 0.0, 0.2])
        source, lengths = torch.tensor([[1, 3, 4, 2], [1, 4, 2, 0]]), torch.tensor([4, 3])
        ids, scores = translate(model, source, lengths, width=5, max_length=3)
        for row in range(2):
            best = max(
                (
                    log_probability(model, source[[row]], lengths[[row]], torch.tensor([[1, *each]]))
                    for n in (1, 2, 3)
                    for each in itertools.product(range(5), repeat=n)
                    if 2 not in each[:-1] and (each[-1] == 2 or n == 3)
                ),
            )
            written = [i for i in ids[row].tolist() if i] or [0]
            again = log_probability(model, source[[row]], lengths[[row]], torch.tensor([[1, *written]]))
            assert scores[row].item() == pytest.approx(best, abs=1e-5) == pytest.approx(again, abs=1e-5)


def test_greedy_takes_the_most_probable_token_at_every_step_whatever_is_beside_it():
    model = small()
    source, lengths = torch.tensor([[1, 4, 5, 6, 2], [1, 3, 2, 0, 0]]), torch.tensor([5, 3])
    ids, _ = translate(model, source, lengths, max_length=8)
    for row in range(2):
        written, n = [1], int(lengths[row])
        while len(written) < 9 and written[-1] != 2:
            joined = model(source[[row], :n], lengths[[row]], torch.tensor([written])).joined[:, -1]
            written.append(int(model.to_vocabulary(joined).argmax()))
        assert [i for i in ids[row].tolist() if i] == [i for i in written[1:] if i]
    with pytest.raises(ValueError, match="width should be from 1 to the vocabulary's 7"):
        translate(model, source, lengths, width=8)


def test_influence_is_the_derivative_and_the_model_is_left_as_it_was():
    model = small(context="added").train()
    pairs = pairs_of([[1, 4, 5, 2]], [[1, 5, 6, 2]])
    model.embedding.weight.requires_grad_(False)
    found = source_scores(model, pairs)
    assert model.training and not model.embedding.weight.requires_grad
    assert model.decoder.weight_hh_l0.requires_grad and model.decoder.weight_hh_l0.grad is None
    batch, eps = pairs.batch(torch.arange(1)), 1e-3
    model = model.double().eval()

    def lines(scale):
        encoded = model.encode(batch.source, batch.source_lengths, scale)
        steps = model.to_vocabulary(model.decode(batch.target[:, :-1], encoded).joined).log_softmax(-1)
        return steps.gather(2, batch.predicted[..., None])[0, :, 0]

    for place in range(4):
        step = torch.zeros(1, 4, dtype=torch.float64)
        step[0, place] = eps
        slope = (lines(1 + step) - lines(1 - step)) / (2 * eps)
        torch.testing.assert_close(found.delta.view(3, 4)[:, place].double(), slope, atol=1e-4, rtol=1e-3)


def test_scores_come_back_in_the_order_of_the_sentences():
    model = small()
    pairs = pairs_of([[1, 4, 5, 6, 2], [1, 3, 2], [1, 5, 5, 2]], [[1, 3, 2], [1, 6, 5, 4, 2], [1, 2]])
    whole = source_scores(model, pairs, batch_size=2)
    for row in range(3):
        alone = source_scores(model, pairs[row : row + 1])
        for name in ("alpha", "beta", "delta"):
            mine = getattr(whole, name)[pairs.positions(torch.tensor([row]))]
            torch.testing.assert_close(mine, getattr(alone, name), atol=1e-5, rtol=1e-4)


def test_bf16_trains_where_the_processor_has_no_such_lstm(monkeypatch):
    monkeypatch.setattr(lstm_precision, "_on_cpu", lambda dtype: False)
    case = GOLDEN[0]
    model, pairs = golden_model(case), golden_pairs(case)
    batch = pairs.batch(torch.arange(len(pairs)))
    with torch.autocast("cpu", torch.bfloat16):
        loss = translation_loss(model, batch)
    loss.backward()
    exact = translation_loss(model, batch).item()
    assert loss.item() != exact and abs(loss.item() - exact) < 0.03 * exact
