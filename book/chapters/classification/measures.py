"""Scores of words in classifiers over training, and in models that ignore word order (the study's beta^px).

Source: Snell, Zhong, Klein and Steinhardt 2021, *Approximating How Single Head Attention Learns* (its
beta^px, from an embedding-only model), and the authors' code (the same, and logistic regression).

`two_stages` trains a classifier of four short reviews, small enough to follow the study's two stages by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attnlib.generators.classification import Corpus, DocumentBatch, Documents
from attnlib.models.attention import evaluating
from attnlib.models.bag_of_words import BagConfig, BagOfEmbeddings
from attnlib.models.base import seeded
from attnlib.models.classifier import Classifier, document_loss, document_scores
from attnlib.stats.ragged import RunScores
from attnlib.training.cache import trained
from attnlib.training.keeping import Snapshots
from attnlib.training.key import digest
from attnlib.training.plan import Plan
from book.chapters.dynamics import TokenScores, kept_scores, over_training

REGULARISATION = (1e-5, *(c * 10.0**e for e in range(-5, 4) for c in (5, 10)))
"""The original's 19 values of C, from 0.00001 to 10,000: 1 and 5 times every power of ten."""


@dataclass(frozen=True)
class Lexical:
    """The weights of a model that ignores word order.

    Attributes:
        weights: the evidence of each word of the vocabulary for class 1.
        accuracy: on the validation documents.
        about: how the model was chosen on them: its epoch and cross entropy, or its `C`.
    """

    weights: Float[Tensor, " word"]
    accuracy: float
    about: dict[str, Any]

    def of(self, documents: Documents) -> Float[Tensor, " total"]:
        """The weight of every token of some documents times (2y - 1), the sign of its document's label y."""
        return documents.toward_label(self.weights[documents.tokens])


def train_bag_of_embeddings(
    train: Documents,
    validation: Documents,
    vocabulary: int,
    *,
    width: int = 256,
    batch_size: int = 64,
    epochs: int = 30,
    learning_rate: float = 2e-4,
    seed: int = 0,
    device: str = "auto",
    chapter: str = "lexical",
) -> Lexical:
    """Train the embedding-only model, and keep the epoch with the lowest cross entropy on validation.

    The defaults are those of the authors' code. Its scripts override two of them: 60 epochs, and a learning
    rate of 5e-5 (IMDB, Yelp, Amazon) or 1.5e-4.
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
        progress=False,
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
    """Fit logistic regression on word frequencies; choose C by accuracy on the validation documents."""
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


def relevance(
    model: Classifier,
    documents: Documents,
    *,
    delta: bool = True,
    batch_size: int = 64,
) -> TokenScores:
    r"""The scores of each word of some documents in a model.

    With $y$ a document's label, $i$ a word in it and $g_i$ a factor on the word's vector:

    * `alpha`, attention: $\alpha_i$, the share of the head's attention on the word;
    * `beta`, keyword relevance towards the label: $(2y - 1) \beta_i$, the log odds that the model would give
      the label if all attention were on the word; of a model trained with uniform attention, the study's
      $\beta^{\mathrm{uf}}$;
    * `delta`, gradient influence: $\Delta_i = \partial \log p(y) / \partial g_i$ at $g_i = 1$. (The authors'
      code reverses its sign once too often before comparing; the statistics can do the same, as published.)
    """
    if not len(documents):
        raise ValueError("there should be documents; there are none")
    device = next(model.parameters()).device
    flat = {name: torch.empty(len(documents.tokens)) for name in ("alpha", "beta", "delta")}
    logits = torch.empty(len(documents))
    needed = {weight: weight.requires_grad for weight in model.parameters()}
    with evaluating(model):
        model.train(delta)  # cuDNN's LSTM differentiates in training mode only; nothing here depends on it
        try:
            for weight in needed:
                weight.requires_grad_(False)
            for batch in documents.in_batches(batch_size):
                places = documents.positions(batch.rows)
                values, logits[batch.rows] = _of_batch(model, batch.to(device), delta)
                for name, value in values.items():
                    flat[name][places] = value
        finally:
            for weight, need in needed.items():
                weight.requires_grad_(need)
    beta = documents.toward_label(flat["beta"])
    log_probability = F.logsigmoid(logits * (2 * documents.labels - 1))
    right = (logits > 0) == (documents.labels == 1)
    influence = flat["delta"] if delta else None
    return TokenScores(documents.lengths, flat["alpha"], beta, log_probability, right, influence)


def _of_batch(model: Classifier, batch: DocumentBatch, delta: bool) -> tuple[dict[str, Tensor], Tensor]:
    """Values of the words of a batch, document by document without padding, and the logits."""
    scale = torch.ones(batch.input_ids.shape, device=batch.input_ids.device) if delta else None
    with torch.set_grad_enabled(delta):
        output = model(batch.input_ids, batch.lengths, None if scale is None else scale.requires_grad_())
        values = {"alpha": output.alpha, "beta": output.beta}
        if scale is not None:
            log_probability = F.logsigmoid(output.logits * (2 * batch.labels - 1))
            (values["delta"],) = torch.autograd.grad(log_probability.sum(), scale)
    found = {name: value.detach()[batch.attention_mask].float().cpu() for name, value in values.items()}
    return found, output.logits.detach().float().cpu()


def scores_at_checkpoints(
    snapshots: Snapshots, documents: Documents, delta: bool = True, device: torch.device | str = "cpu"
) -> RunScores:
    """The scores of every word of some documents at each checkpoint, cached beside the checkpoints."""
    of_which = digest((documents.tokens, documents.lengths, documents.labels))[:16]

    def at(step: int) -> TokenScores:
        whose = {"step": step, "run": snapshots.run, "documents": of_which, "delta": delta}
        path = snapshots.home.parent / "tokens" / f"{of_which}-{step}.safetensors"
        return kept_scores(
            path, whose, lambda: relevance(snapshots.at(step).to(device), documents, delta=delta)
        )

    return over_training(snapshots.steps, at)


def lexical_scores(lexical: Lexical, documents: Documents) -> RunScores:
    """The relevance of every word in a model that ignores word order, as a run with one checkpoint."""
    beta = lexical.of(documents).numpy()[None]
    return RunScores(documents.lengths.numpy(), np.zeros(1, dtype=np.int64), beta=beta)


def documents_over_training(
    documents: Documents,
    names: Sequence[str],
    rows: Sequence[int],
    gold: RunScores,
    uniform: RunScores,
) -> dict[str, dict[str, Any]]:
    """The data of some documents for `widgets.DynamicsExplorer`."""
    assert gold.right is not None  # as `scores_at_checkpoints` gives it
    found = {}
    for row in rows:
        run, even = (each.take(np.array([row])) for each in (gold, uniform))
        label = int(documents.labels[row])
        scores = {"α": run.alpha, "β": run.beta, "Δ": run.delta, "βᵘᶠ": even.beta}
        tokens, truth = documents.words(row), documents[row : row + 1].relevance
        found[_label(names[label], tokens)] = {
            "tokens": tokens,
            "scores": {name: values for name, values in scores.items() if values is not None},
            "predicted": [names[label if right else 1 - label] for right in gold.right[:, row]],
            "gold": names[label],
        } | ({} if truth is None else {"true_relevance": documents[row : row + 1].toward_label(truth)})
    return found


def text_scores(models: Iterable[Classifier], corpus: Corpus, text: str) -> dict[str, Any]:
    """The data of a reader's text for `widgets.DynamicsExplorer`; relevance is towards the prediction."""
    batch, found = corpus.encode([text], [0]).batch(torch.tensor([0])), []
    for model in models:
        with torch.no_grad():
            moved = batch.to(next(model.parameters()).device)
            predicted = int(model(**moved.inputs).logits[0] > 0)
        documents = corpus.encode([text], [predicted])
        found.append((predicted, relevance(model, documents).of(0)))
    names = {"α": "alpha", "β": "beta", "Δ": "delta"}
    return {
        "tokens": documents.words(0),
        "scores": {name: torch.stack([scores[key] for _, scores in found]) for name, key in names.items()},
        "predicted": [corpus.names[predicted] for predicted, _ in found],
    }


def _label(name: str, tokens: Sequence[str]) -> str:
    return f"{name}: {' '.join(tokens[1:6])} ..."


REVIEWS = {"good plot": 1, "good film": 1, "bad plot": 0, "dull film": 0}
"""Reviews of two words, and whether they are positive."""


def two_stages(steps: int, learning_rate: float = 4.0) -> pd.DataFrame:
    """Train one attention score and one relevance per word of `REVIEWS` by gradient descent, both from 0.

    Returns:
        Columns `step`, `word`, `score` ("alpha" or "beta") and `value`, for the words of the first review.
    """
    words = list(dict.fromkeys(word for review in REVIEWS for word in review.split()))
    reviews = torch.tensor([[words.index(word) for word in review.split()] for review in REVIEWS])
    labels = torch.tensor([*REVIEWS.values()], dtype=torch.float64)
    attended, beta = (torch.zeros(len(words), dtype=torch.float64, requires_grad=True) for _ in range(2))
    rows = []
    for step in range(steps + 1):
        alpha = attended[reviews].softmax(-1)
        logits = (alpha * beta[reviews]).sum(-1)
        for place, word in enumerate(next(iter(REVIEWS)).split()):
            values = {"alpha": alpha[0, place], "beta": beta[reviews[0, place]]}
            rows += [(step, word, score, value.item()) for score, value in values.items()]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        gradients = torch.autograd.grad(loss, (attended, beta))
        with torch.no_grad():
            for weight, gradient in zip((attended, beta), gradients, strict=True):
                weight -= learning_rate * gradient
    return pd.DataFrame(rows, columns=["step", "word", "score", "value"])
