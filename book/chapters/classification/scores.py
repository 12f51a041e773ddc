"""Scores of runs at the checkpoints of their training, for the agreement statistics and the explorer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlib.generators.classification import Corpus, Documents
from attnlib.measures.relevance import Relevance, relevance
from attnlib.models.classifier import Classifier
from attnlib.stats.ragged import RunScores
from attnlib.training.keeping import Snapshots, kept
from attnlib.training.key import digest
from book.chapters.classification.lexical import Lexical


def scores_at_checkpoints(
    snapshots: Snapshots, documents: Documents, delta: bool = True, device: torch.device | str = "cpu"
) -> RunScores:
    """What every word of some documents meant to a model at each checkpoint of its training.

    It is computed once, and kept beside the checkpoints; other documents train nothing anew.

    Args:
        snapshots: of a run that is trained.
        documents: any.
        delta: whether to compute the gradient influence.
        device: where to compute.

    Raises:
        CheckpointError: a checkpoint is missing or damaged, or the result cannot be written.
    """
    found = [_kept(snapshots, step, documents, delta, device) for step in snapshots.steps]
    stacked = {
        score: torch.stack([getattr(each, score) for each in found]).numpy()
        for score in ("alpha", "beta", "delta")
        if all(getattr(each, score) is not None for each in found)
    }
    right = [((each.logits > 0) == (each.labels == 1)).numpy() for each in found]
    return RunScores(found[0].lengths.numpy(), np.array(snapshots.steps), right=np.stack(right), **stacked)


def _kept(
    snapshots: Snapshots, step: int, documents: Documents, delta: bool, device: torch.device | str
) -> Relevance:
    """The relevance at one checkpoint: as it was kept, or made if that is of another run or documents."""
    of_which = digest((documents.tokens, documents.lengths, documents.labels))[:16]
    whose = {"step": step, "kind": "relevance", "run": snapshots.run, "documents": of_which, "delta": delta}

    def made() -> dict[str, Tensor]:
        found = relevance(snapshots.at(step).to(device), documents, step=step, delta=delta)
        return {name: value for name, value in vars(found).items() if isinstance(value, Tensor)}

    path = snapshots.home.parent / "relevance" / f"{of_which}-{step}.safetensors"
    return Relevance(step, **kept(path, whose, made))


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
        raise ValueError(
            "the run that is explained should come with `right`, as scores_at_checkpoints gives it"
        )
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


def text_scores(models: Iterable[Classifier], corpus: Corpus, text: str) -> dict[str, Any]:
    """A text of the reader's as `widgets.DynamicsExplorer` takes it: relevance is towards the prediction.

    Args:
        models: one, or the same at each checkpoint of its training.
        corpus: what they were trained on.
        text: the text.

    Raises:
        ValueError: the text has no words.
    """
    batch, found = corpus.encode([text], [0]).batch(torch.tensor([0])), []
    for model in models:
        with torch.no_grad():
            moved = batch.to(next(model.parameters()).device)
            predicted = int(model(**moved.inputs).logits[0] > 0)
        documents = corpus.encode([text], [predicted])
        found.append((predicted, relevance(model, documents).of(0)))
    names = {"alpha": "alpha", "beta": "beta", "Delta": "delta"}
    return {
        "tokens": documents.words(0),
        "scores": {name: torch.stack([scores[key] for _, scores in found]) for name, key in names.items()},
        "predicted": [corpus.names[predicted] for predicted, _ in found],
    }


def _label(name: str, tokens: Sequence[str]) -> str:
    return f"{name}: {' '.join(tokens[1:6])} ..."
