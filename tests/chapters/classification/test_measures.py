"""What words mean to classifiers: definitions, signs, what is left as it was; and the worked example."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from attnlib.generators.classification import Corpus, Documents, Planting, planted
from attnlib.models import Classifier, ClassifierConfig, document_loss, document_scores
from attnlib.training import Plan, fit
from book.chapters.classification.measures import relevance, two_stages
from book.chapters.dynamics import checkpoint_steps


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    easy = Planting(difficulty=0, fillers=30, max_words=14)
    return planted(easy, train_documents=600, validation_documents=50, test_documents=40)


@pytest.fixture(scope="module")
def trained(corpus: Corpus) -> Classifier:
    torch.manual_seed(0)
    net = Classifier(ClassifierConfig(len(corpus.vocabulary), embedding=12, hidden=8, intermediate=6))
    plan = Plan(steps=40, learning_rate=2e-2, device="cpu")  # tests compare it with batches that are there
    fit(net, corpus.train.batches(32), document_loss, plan, progress=False)
    return net


def test_values_are_those_of_each_document_alone_with_beta_towards_the_label(
    trained: Classifier, corpus: Corpus
) -> None:
    found = relevance(trained, corpus.test, batch_size=7)
    assert len(found) == 40
    for row in range(0, 40, 5):
        batch = corpus.test.batch(torch.tensor([row]))
        output = trained(batch.input_ids, batch.lengths)
        mine = found.of(row)
        torch.testing.assert_close(mine["alpha"], output.alpha[0], atol=1e-6, rtol=0)
        sign = 2 * int(corpus.test.labels[row]) - 1
        torch.testing.assert_close(mine["beta"], sign * output.beta[0], atol=1e-5, rtol=0)
        expected = F.logsigmoid(sign * output.logits[0])
        torch.testing.assert_close(found.log_probability[row], expected, atol=1e-5, rtol=0)
    assert found.accuracy == document_scores(trained, corpus.test.in_batches())["accuracy"]


def test_delta_is_the_slope_of_the_log_probability_of_the_label(trained: Classifier, corpus: Corpus) -> None:
    found = relevance(trained, corpus.test)
    exact = Classifier(trained.config).double()
    exact.load_state_dict(trained.state_dict())
    row, step = 3, 1e-5
    batch = corpus.test.batch(torch.tensor([row]))
    sign = 2 * int(corpus.test.labels[row]) - 1
    for token in range(int(batch.lengths[0])):
        ends = []
        for shift in (step, -step):
            scale = torch.ones(batch.input_ids.shape, dtype=torch.float64)
            scale[0, token] += shift
            ends.append(F.logsigmoid(sign * _logit(exact, batch, scale)).item())
        slope = (ends[0] - ends[1]) / (2 * step)
        assert float(found.of(row)["delta"][token]) == pytest.approx(slope, abs=1e-4)


def _logit(net: Classifier, batch: Any, scale: torch.Tensor) -> torch.Tensor:
    """The formula of the model once more, in double precision."""
    x = net.embedding(batch.input_ids) * scale[..., None]
    back = net.encoder.backwards(x.flip(1))[0].flip(1)
    states = torch.cat([net.encoder.forwards(x)[0], back], dim=-1)
    alpha = net.to_attention(net.to_intermediate(states).relu())[..., 0].softmax(-1)
    return (alpha * net.to_beta(states)[..., 0]).sum()


def test_a_saturated_model_has_finite_values_and_neither_weights_nor_mode_change(corpus: Corpus) -> None:
    torch.manual_seed(0)
    net = Classifier(ClassifierConfig(len(corpus.vocabulary), embedding=4, hidden=4, intermediate=4)).eval()
    with torch.no_grad():
        net.to_beta.bias.fill_(1e4)
    net.to_beta.bias.requires_grad_(False)
    found = relevance(net, corpus.test)
    for values in (found.alpha, found.beta, found.delta):
        assert values.isfinite().all()
    assert not net.training
    needed = {name for name, weight in net.named_parameters() if not weight.requires_grad}
    assert needed == {"to_beta.bias"} and all(weight.grad is None for weight in net.parameters())


def test_without_delta_the_rest_is_the_same(trained: Classifier, corpus: Corpus) -> None:
    with_it, without = relevance(trained, corpus.test), relevance(trained, corpus.test, delta=False)
    assert without.delta is None and set(without.of(0)) == {"alpha", "beta"}
    torch.testing.assert_close(with_it.alpha, without.alpha, atol=1e-6, rtol=0)
    torch.testing.assert_close(with_it.beta, without.beta, atol=1e-5, rtol=0)


def test_the_steps_are_the_originals() -> None:
    wanted = (0, 10, 50, 100, 150, 200, *range(250, 4000, 250), 4000)
    assert checkpoint_steps() == wanted and len(wanted) == 22
    assert checkpoint_steps(60, every=30) == (0, 10, 30, 50, 60)
    assert checkpoint_steps(5, every=2, early=()) == (2, 4, 5)


def test_documents_without_known_words_have_values_too(trained: Classifier, corpus: Corpus) -> None:
    strange: Documents = corpus.encode(["qwerty asdf", "zxcv"], [0, 1])
    found = relevance(trained, strange)
    assert found.lengths.tolist() == [4, 3] and found.delta.isfinite().all()


def test_relevance_is_learned_before_attention_and_attention_follows_it():
    found = two_stages(steps=20).set_index(["score", "word", "step"]).sort_index()["value"]
    good, plot = found["beta", "good"], found["beta", "plot"]
    assert (good[0], plot[0]) == (0, 0)
    assert good[1] == pytest.approx(4 * 2 * 0.5 * 0.5 / 4)  # two of four reviews, half of 1/2
    assert plot[1] == 0  # raised once and lowered once
    attention = found["alpha", "good"]
    assert attention[0] == attention[1] == 0.5  # no word is worth more than another at first
    assert attention[2] > 0.5 and attention.iloc[1:].is_monotonic_increasing
    assert (attention + found["alpha", "plot"]).tolist() == pytest.approx([1.0] * 21)
