"""The classifier: equal to a packed LSTM, attention as in the original, losses that stay finite."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnlib.files import CheckpointError
from attnlib.generators.classification import Planting, planted
from attnlib.models import (
    BiLSTM,
    Classifier,
    ClassifierConfig,
    Transformer,
    TransformerConfig,
    document_loss,
    document_scores,
    lstm_precision,
)

SMALL = {"embedding": 12, "hidden": 8, "intermediate": 6}


def packed_twin(ours: BiLSTM, width: int, hidden: int) -> nn.LSTM:
    """torch's bidirectional LSTM with the same weights."""
    twin = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
    state = dict(ours.forwards.state_dict())
    state |= {f"{name}_reverse": weight for name, weight in ours.backwards.state_dict().items()}
    twin.load_state_dict(state)
    return twin


def model(uniform: bool = False, vocabulary: int = 30, seed: int = 0) -> Classifier:
    torch.manual_seed(seed)
    return Classifier(ClassifierConfig(vocabulary, uniform=uniform, **SMALL))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2**31))
@settings(max_examples=10)
def test_states_and_gradients_are_those_of_a_packed_sequence(lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    ours = BiLSTM(5, 4)
    twin = packed_twin(ours, 5, 4)
    n = torch.tensor(lengths)
    x = torch.randn(len(lengths), max(lengths), 5)
    real = torch.arange(max(lengths)) < n[:, None]
    states = ours(x, n)
    packed = pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)
    wanted, _ = pad_packed_sequence(twin(packed)[0], batch_first=True)
    torch.testing.assert_close(states[real], wanted[real], atol=1e-5, rtol=0)
    weights = torch.randn_like(wanted)
    (states * weights)[real].sum().backward()
    (wanted * weights)[real].sum().backward()
    for name, weight in ours.backwards.named_parameters():
        torch.testing.assert_close(weight.grad, getattr(twin, f"{name}_reverse").grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("uniform", [False, True])
def test_the_output_is_that_of_the_original_formula(uniform: bool) -> None:
    net = model(uniform)
    ids = torch.tensor([[1, 5, 9, 2], [1, 7, 2, 0]])
    lengths = torch.tensor([4, 3])
    output = net(ids, lengths)
    twin = packed_twin(net.encoder, SMALL["embedding"], SMALL["hidden"])
    packed = pack_padded_sequence(net.embedding(ids), lengths, batch_first=True)
    states, _ = pad_packed_sequence(twin(packed)[0], batch_first=True)
    scores = net.to_attention(torch.relu(net.to_intermediate(states)))[..., 0] * (not uniform)
    alpha = torch.softmax(scores + (ids == 0) * -1e9, -1)  # as the authors wrote it
    beta = net.to_beta(states)[..., 0] * (ids != 0)
    torch.testing.assert_close(output.alpha, alpha, atol=1e-6, rtol=0)
    torch.testing.assert_close(output.beta, beta, atol=1e-5, rtol=0)
    torch.testing.assert_close(output.logits, (alpha * beta).sum(-1), atol=1e-5, rtol=0)
    if uniform:
        torch.testing.assert_close(output.alpha[1], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0]))


def test_uniform_attention_trains_all_but_the_attention() -> None:
    corpus = planted(train_documents=8, validation_documents=4, test_documents=4, planting=FEW)
    net = model(uniform=True, vocabulary=len(corpus.vocabulary))
    document_loss(net, corpus.train.batch(torch.arange(8))).backward()
    without = {name for name, weight in net.named_parameters() if weight.grad is None}
    assert without == {
        f"to_{layer}.{part}" for layer in ("intermediate", "attention") for part in ("weight", "bias")
    }


FEW = Planting(fillers=5, min_words=4, max_words=8)


class Fixed(nn.Module):
    """Gives the logits it was made with."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor(logits))

    def forward(self, input_ids: torch.Tensor, lengths: torch.Tensor) -> object:
        return type("Output", (), {"logits": self.values[: len(input_ids)]})()


def test_a_saturated_model_has_a_finite_loss_and_gradient() -> None:
    documents = planted(train_documents=6, validation_documents=4, test_documents=4, planting=FEW).train
    batch = documents.batch(torch.arange(2))
    wrong = [-1e4 if label else 1e4 for label in batch.labels.tolist()]
    net = Fixed(wrong)
    loss = document_loss(net, batch)
    loss.backward()
    assert loss.item() == pytest.approx(1e4) and net.values.grad.isfinite().all()
    scores = document_scores(net, [batch])
    assert scores == {"accuracy": 0.0, "cross_entropy": pytest.approx(1e4)}
    assert document_scores(Fixed([-value for value in wrong]), [batch])["accuracy"] == 1.0


def test_scores_count_every_document_once_and_leave_the_mode() -> None:
    corpus = planted(train_documents=40, validation_documents=10, test_documents=25, planting=FEW)
    net = model(vocabulary=len(corpus.vocabulary)).train()
    whole = document_scores(net, corpus.test.in_batches(25))
    assert net.training
    assert document_scores(net, corpus.test.in_batches(4)) == pytest.approx(whole, abs=1e-6)
    batch = corpus.test.batch(torch.arange(25))
    right = (net(batch.input_ids, batch.lengths).logits > 0) == (corpus.test.labels == 1)
    assert whole["accuracy"] == pytest.approx(float(right.double().mean()))


def test_a_checkpoint_comes_back_and_a_missing_or_foreign_one_is_refused(tmp_path: Path) -> None:
    net = model(uniform=True)
    net.save(tmp_path / "net.safetensors")
    ids, lengths = torch.tensor([[1, 5, 2]]), torch.tensor([3])
    loaded = Classifier.load(tmp_path / "net.safetensors")
    assert loaded.config == net.config and not loaded.training
    assert torch.equal(loaded(ids, lengths).logits, net(ids, lengths).logits)
    with pytest.raises(CheckpointError, match=r"none\.safetensors\. Train the model first"):
        Classifier.load(tmp_path / "none.safetensors")
    Transformer(TransformerConfig(5, width=8)).save(tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match="is not the checkpoint of a Classifier"):
        Classifier.load(tmp_path / "other.safetensors")


def test_bf16_trains_where_the_processor_has_no_such_lstm(monkeypatch) -> None:
    monkeypatch.setattr(lstm_precision, "_on_cpu", lambda dtype: False)
    corpus = planted(train_documents=8, validation_documents=4, test_documents=4, planting=FEW)
    net, batch = model(vocabulary=len(corpus.vocabulary)), corpus.train.batch(torch.arange(8))
    with torch.autocast("cpu", torch.bfloat16):
        loss = document_loss(net, batch)
    loss.backward()
    exact = document_loss(net, batch).item()
    assert loss.item() != exact and abs(loss.item() - exact) < 0.01
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in net.parameters())


def test_asking_for_an_lstm_in_bf16_draws_nothing() -> None:
    before = torch.get_rng_state()
    lstm_precision._on_cpu.__wrapped__(torch.bfloat16)
    assert torch.equal(before, torch.get_rng_state())
