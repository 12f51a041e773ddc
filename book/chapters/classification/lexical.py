"""What single words say about the label, from models that know no order: the study's beta^px.

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns* (its
beta^px, from an embedding-only model), and the authors' code (the same, and logistic regression).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from attnlib.generators.classification import Documents
from attnlib.models.bag_of_words import BagConfig, BagOfEmbeddings
from attnlib.models.base import seeded
from attnlib.models.classifier import document_loss, document_scores
from attnlib.training.cache import trained
from attnlib.training.plan import Plan

__all__ = ["REGULARISATION", "Lexical", "lexical_relevance", "logistic_regression", "train_bag_of_embeddings"]

REGULARISATION = (1e-5, *(c * 10.0**e for e in range(-5, 4) for c in (5, 10)))
"""The original's 19 values of C, from 0.00001 to 10,000: 1 and 5 times every power of ten."""


@dataclass(frozen=True)
class Lexical:
    """What a model that knows no order has learned.

    Attributes:
        weights: how much each word of the vocabulary speaks for class 1.
        accuracy: on the validation documents, which it was chosen by.
        about: how it was chosen; as JSON can hold it.
    """

    weights: Float[Tensor, " word"]
    accuracy: float
    about: dict[str, Any]

    def of(self, documents: Documents) -> Float[Tensor, " total"]:
        """The weight of every word of some documents, towards each document's label."""
        return lexical_relevance(self.weights, documents)


def lexical_relevance(weights: Float[Tensor, " word"], documents: Documents) -> Float[Tensor, " total"]:
    """One weight per word of the vocabulary, at every word of some documents: (2y - 1) times the weight."""
    return documents.toward_label(weights[documents.tokens])


def train_bag_of_embeddings(
    train: Documents,
    validation: Documents,
    vocabulary: int,
    *,
    width: int = 256,
    epochs: int = 30,
    learning_rate: float = 2e-4,
    batch_size: int = 64,
    seed: int = 0,
    device: str = "auto",
    chapter: str = "lexical",
    progress: bool = False,
) -> Lexical:
    """Train the embedding-only model, and keep the epoch with the lowest cross entropy on validation.

    The defaults are those of the authors' code. Its scripts override two of them: 60 epochs, and a learning
    rate of 5e-5 (IMDB, Yelp, Amazon) or 1.5e-4.

    Args:
        train: what it learns from.
        validation: what the epoch is chosen by. (The original: the documents that it reports on.)
        vocabulary: words in the vocabulary.
        width: size of a word's vector.
        epochs: passes over the training documents.
        learning_rate: Adam's.
        batch_size: documents per step.
        seed: of the initial weights, and of the order.
        device: see `Plan`.
        chapter: see `trained`.
        progress: see `fit`.

    Returns:
        `weights`: see `BagOfEmbeddings.relevance`.
    """
    per_epoch = max(1, len(train) // batch_size)
    plan = Plan(
        steps=epochs * per_epoch,
        evaluate_every=per_epoch,
        learning_rate=learning_rate,
        metric="cross_entropy",
        higher_is_better=False,
        seed=seed,
        device=device,
    )
    with seeded(seed):
        model = BagOfEmbeddings(BagConfig(vocabulary, width))
    history = trained(
        model,
        train.batches(batch_size, seed),
        document_loss,
        plan,
        valid=validation.in_batches(256),
        score=document_scores,
        chapter=chapter,
        progress=progress,
    )
    chosen = next(row for row in history.rows if row["step"] == history.best_step)
    about = {"epoch": chosen["step"] // per_epoch, "cross_entropy": chosen["cross_entropy"]}
    return Lexical(model.relevance(), chosen["accuracy"], about)


def logistic_regression(
    train: Documents,
    validation: Documents,
    vocabulary: int,
    regularisation: Sequence[float] = REGULARISATION,
) -> Lexical:
    """Logistic regression on the frequencies of words in documents.

    Args:
        train: what it learns from.
        validation: what the regularisation is chosen by: the first of the highest accuracies.
        vocabulary: words in the vocabulary.
        regularisation: values of scikit-learn's C to try; a small one ties the weights to 0.

    Returns:
        `weights`: the coefficients.

    Raises:
        ValueError: the training documents are of one class.
    """
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    x, held_out = frequencies(train, vocabulary), frequencies(validation, vocabulary)
    best: Lexical | None = None
    for c in regularisation:
        model = LogisticRegression(C=c, max_iter=1000).fit(x, train.labels.numpy())
        accuracy = float((model.predict(held_out) == validation.labels.numpy()).mean())
        if best is None or accuracy > best.accuracy:
            best = Lexical(torch.from_numpy(model.coef_[0]).float(), accuracy, {"C": c})
    if best is None:
        raise ValueError("regularisation should be at least one value of C; got none")
    return best


def frequencies(documents: Documents, vocabulary: int) -> scipy.sparse.csr_array:
    """How often each word of the vocabulary occurs in each document, divided by the document's length."""
    lengths = documents.lengths.numpy()
    rows = np.repeat(np.arange(len(documents)), lengths)
    shares = np.repeat(1 / lengths, lengths)
    shape = (len(documents), vocabulary)
    return scipy.sparse.coo_array((shares, (rows, documents.tokens.numpy())), shape).tocsr()
