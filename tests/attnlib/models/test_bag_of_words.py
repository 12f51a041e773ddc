"""Models without word order: the authors' formulas, and planted words found."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from attnlib.generators.classification import Corpus, Planting, lexicon, planted
from attnlib.models import document_loss
from attnlib.models.bag_of_words import BagConfig, BagOfEmbeddings
from book.chapters.classification.measures import (
    logistic_regression,
    train_bag_of_embeddings,
)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    easy = Planting(difficulty=0, fillers=30, max_words=14, confounding=0)
    return planted(easy, train_documents=800, validation_documents=100, test_documents=50)


def test_the_embedding_only_model_is_the_mean_of_its_words_relevance(corpus: Corpus) -> None:
    torch.manual_seed(0)
    net = BagOfEmbeddings(BagConfig(len(corpus.vocabulary), 16))
    batch = corpus.test.batch(torch.arange(6))
    relevance = net.relevance()
    for row, logit in enumerate(net(batch.input_ids, batch.lengths).logits):
        ids = batch.input_ids[row, : batch.lengths[row]]
        wanted = relevance[ids].mean() + net.output.bias.item()
        assert logit.item() == pytest.approx(float(wanted), abs=1e-5)
    probability = torch.sigmoid(net(batch.input_ids, batch.lengths).logits).double()
    y = batch.labels
    authors = -(y * probability.log() + (1 - y) * (1 - probability).log()).mean()
    assert document_loss(net, batch).item() == pytest.approx(authors.item(), abs=1e-6)


def test_logistic_regression_is_scikit_learns_on_counts_over_length(corpus: Corpus) -> None:
    def dense(documents: object) -> np.ndarray:
        rows = np.zeros((len(documents), len(corpus.vocabulary)))
        row_of = np.repeat(np.arange(len(documents)), documents.lengths.numpy())
        np.add.at(rows, (row_of, documents.tokens.numpy()), 1.0)
        return rows / documents.lengths.numpy()[:, None]

    values = (0.01, 1.0, 100.0)
    found = logistic_regression(corpus.train, corpus.validation, len(corpus.vocabulary), values)
    best = (-1.0, None, None)
    for c in values:
        model = LogisticRegression(C=c, max_iter=1000).fit(dense(corpus.train), corpus.train.labels.numpy())
        accuracy = model.score(dense(corpus.validation), corpus.validation.labels.numpy())
        best = max(best, (accuracy, c, model.coef_[0]), key=lambda each: each[0])
    assert found.accuracy == pytest.approx(best[0]) and found.about == {"C": best[1]}
    np.testing.assert_allclose(found.weights.numpy(), best[2], atol=1e-2, rtol=1e-2)


def test_the_planted_keywords_are_the_extreme_words(corpus: Corpus) -> None:
    size = len(corpus.vocabulary)
    found = train_bag_of_embeddings(
        corpus.train, corpus.validation, size, width=32, epochs=15, learning_rate=1e-2
    )
    assert 1 <= found.about["epoch"] <= 15
    assert found.accuracy > 0.95
    words, strengths = lexicon(Planting(fillers=30))
    strength = dict(zip(words, strengths.tolist(), strict=True))
    order = corpus.vocabulary.decode(found.weights.argsort().tolist())
    assert all(strength.get(word, 0) < 0 for word in order[:8])
    assert all(strength.get(word, 0) > 0 for word in order[-8:])
    towards = found.of(corpus.test)
    truth = corpus.test.toward_label(corpus.test.relevance)
    assert torch.equal(towards, corpus.test.toward_label(found.weights[corpus.test.tokens]))
    assert torch.corrcoef(torch.stack([towards, truth.float()]))[0, 1] > 0.7


def test_training_is_a_function_of_the_seed_and_leaves_torchs_generator_alone(corpus: Corpus) -> None:
    def run(seed: int) -> torch.Tensor:
        size = len(corpus.vocabulary)
        return train_bag_of_embeddings(
            corpus.train, corpus.validation, size, width=8, epochs=2, seed=seed
        ).weights

    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = run(0), run(0), run(1)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)
