"""Scores of runs as they were recorded in training, ready for the agreement statistics and the explorer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlib.generators.classification import Corpus, Documents
from attnlib.measures.relevance import relevance, relevance_at
from attnlib.models.classifier import Classifier
from attnlib.stats.ragged import RunScores
from attnlib.training.lexical import Lexical


def recorded_scores(
    folder: str | Path, name: str, steps: Sequence[int], documents: Documents | None = None
) -> RunScores:
    """What every word of some documents meant to a model at each checkpoint of its training.

    Args:
        folder: where a `Recorder` wrote.
        name: of the set of documents.
        steps: the checkpoints.
        documents: the set itself, to be sure that it is of them.

    Raises:
        CheckpointError: a checkpoint is missing, damaged or of other documents.
    """
    found = [relevance_at(folder, name, step, documents) for step in steps]
    stacked = {
        score: torch.stack([getattr(each, score) for each in found]).numpy()
        for score in ("alpha", "beta", "delta")
        if all(getattr(each, score) is not None for each in found)
    }
    right = [((each.logits > 0) == (each.labels == 1)).numpy() for each in found]
    return RunScores(found[0].lengths.numpy(), np.array(steps), right=np.stack(right), **stacked)


def lexical_scores(lexical: Lexical, documents: Documents) -> RunScores:
    """The relevance of every word to a model that knows no order, as a run with one checkpoint."""
    beta = lexical.of(documents).numpy()[None]
    return RunScores(documents.lengths.numpy(), np.zeros(1, dtype=np.int64), beta=beta)


def documents_over_training(
    documents: Documents,
    names: Sequence[str],
    rows: Sequence[int],
    gold: RunScores,
    uniform: RunScores | None = None,
) -> dict[str, dict[str, Any]]:
    """Some documents as `widgets.DynamicsExplorer` takes them.

    Args:
        documents: those that the scores are of.
        names: of class 0 and of class 1.
        rows: which of them.
        gold: the run that is explained.
        uniform: the run with uniform attention, with the same checkpoints.

    Raises:
        ValueError: the run that is explained does not say on which documents it is right.
    """
    if gold.right is None:
        raise ValueError("the run that is explained should come with `right`, as recorded_scores gives it")
    found = {}
    for row in rows:
        run, label = gold.take(np.array([row])), int(documents.labels[row])
        scores = {"alpha": run.alpha, "beta": run.beta, "Delta": run.delta}
        if uniform is not None:
            scores["beta, uniform"] = uniform.take(np.array([row])).beta
        tokens, truth = documents.words(row), documents[row : row + 1].relevance
        found[_label(names[label], tokens)] = {
            "tokens": tokens,
            "scores": {name: values for name, values in scores.items() if values is not None},
            "predicted": [names[label if right else 1 - label] for right in gold.right[:, row]],
            "gold": names[label],
        } | ({} if truth is None else {"true_relevance": documents[row : row + 1].toward_label(truth)})
    return found


def text_scores(model: Classifier, corpus: Corpus, text: str) -> dict[str, Any]:
    """A text of the reader's as `widgets.DynamicsExplorer` takes it: relevance is towards the prediction.

    Raises:
        ValueError: the text has no words.
    """
    device = next(model.parameters()).device
    batch = corpus.encode([text], [0]).batch(torch.tensor([0])).to(device)
    with torch.no_grad():
        predicted = int(model(batch.input_ids, batch.lengths).logits[0] > 0)
    documents = corpus.encode([text], [predicted])
    found = relevance(model, documents).of(0)
    scores = {"alpha": found["alpha"], "beta": found["beta"], "Delta": found["delta"]}
    return {
        "tokens": documents.words(0),
        "scores": {name: values[None] for name, values in scores.items()},
        "predicted": [corpus.names[predicted]],
    }


def _label(name: str, tokens: Sequence[str]) -> str:
    return f"{name}: {' '.join(tokens[1:6])} ..."
