r"""Questions about a program: predictions whose sources are known, by two definitions of a source.

A question is an input, a position that predicts, the program's output there (the target), another output (the
foil) and an input that gives the foil (the counterfactual). Its *candidates* are the tokens that methods
rank: all but the start token and the query's own. Its *sources* are the candidates that the program reads, or
those that cause the output (`attnlib.benchmarking.programs`). A method's score on a question is its average
precision (AP), on a scale from chance (0) to perfect (1):

    (AP - chance) / (1 - chance)

Scores are rounded to a thousandth of the largest before they are ranked, so that scores are tied if they
differ only by rounding errors or by the small rest of attention that a softmax leaves on unselected keys. The
AP of ties is the mean over all their orders (`attnlib.stats.plausibility`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlib.attribution.prompts import Method
from attnlib.attribution.registry import attributions
from attnlib.benchmarking.programs import Program
from attnlib.checks import check_one_of
from attnlib.models.transformer import Transformer
from attnlib.stats.plausibility import average_precision, average_precision_by_chance

QUESTIONS = 8
"""The largest number of questions about a program."""

FEWEST = 3
"""The fewest questions: a program with fewer is left out."""

INPUTS = 64
"""The number of random inputs from which questions are chosen."""

TRUTHS = ("reads", "causes")

ROUNDING = 1e-3
"""Scores are rounded to this share of the largest candidate's."""


@dataclass(frozen=True)
class Questions:
    """Questions of one program, a row each; the module's docstring says what they consist of."""

    ids: Int[Tensor, "question token"]
    query: Int[Tensor, " question"]
    target: Int[Tensor, " question"]
    foil: Int[Tensor, " question"]
    counterfactual: Int[Tensor, "question token"]
    candidates: Bool[np.ndarray, "question token"]
    reads: Bool[np.ndarray, "question token"]
    causes: Bool[np.ndarray, "question token"]

    def __len__(self) -> int:
        return len(self.ids)

    def truth(self, name: str) -> Bool[np.ndarray, "question token"]:
        """The sources by one of `TRUTHS`."""
        check_one_of(TRUTHS, truth=name)
        return self.reads if name == "reads" else self.causes


def questions_of(program: Program) -> Questions | None:
    """The questions about a program; None if there are fewer than `FEWEST`.

    By at least one ground truth, some but not all candidates of a question are sources.
    """
    rng = np.random.default_rng([program.seed, 3])
    ids = program.draw_inputs(rng, INPUTS)
    query = rng.choice(program.queries, INPUTS)
    rows = np.arange(INPUTS)
    candidates = np.ones(ids.shape, dtype=bool)
    candidates[:, 0] = candidates[rows, query] = False
    outputs = program.outputs(ids)
    reads = program.reads(ids)[rows, query] & candidates
    causes = program.causes(ids, query) & candidates
    asked = _some_not_all(reads, candidates) | _some_not_all(causes, candidates)
    found: list[int] = []
    other: list[int] = []
    for row in np.flatnonzero(asked):
        others = np.flatnonzero(outputs[:, query[row]] != outputs[row, query[row]])
        if len(others) and len(found) < QUESTIONS:
            found.append(int(row))
            other.append(int(rng.choice(others)))
    if len(found) < FEWEST:
        return None
    at = query[found]
    tensors = (ids[found], at, outputs[found, at], outputs[other, at], ids[other])
    ids_, query_, target, foil, other_ids = (torch.from_numpy(np.ascontiguousarray(each)) for each in tensors)
    sources = candidates[found], reads[found], causes[found]
    return Questions(ids_, query_, target, foil, other_ids, *sources)


def ask(
    model: Transformer, questions: Questions, methods: dict[str, Method]
) -> dict[str, Float[np.ndarray, "question token"]]:
    """Methods' scores for each question's target against its foil; a query's questions share a batch."""
    found = {name: np.full(questions.ids.shape, np.nan) for name in methods}
    for query in questions.query.unique().tolist():
        rows = (questions.query == query).nonzero()[:, 0]
        given = questions.target[rows], questions.foil[rows], questions.counterfactual[rows]
        scores = attributions(model, questions.ids[rows], methods, None, query, *given)
        for name, each in scores.items():
            found[name][rows.numpy()] = each.detach().double().numpy()
    return found


def precision(
    scores: Float[np.ndarray, "question token"],
    truth: Bool[np.ndarray, "question token"],
    candidates: Bool[np.ndarray, "question token"],
) -> Float[np.ndarray, " question"]:
    """The average precision, 0 at chance and 1 at best; NaN where none or all candidates are sources."""
    within = np.where(candidates, scores, np.nan)
    largest = np.where(np.isfinite(within), np.abs(within), 0.0).max(1, keepdims=True)
    step = np.where(largest > 0, largest * ROUNDING, 1.0)
    rounded = np.where(candidates, np.round(within / step), 0.0)
    chance = average_precision_by_chance(truth, candidates)
    with np.errstate(invalid="ignore", divide="ignore"):
        rescaled = (average_precision(rounded, truth, candidates) - chance) / (1 - chance)
    return np.where(_some_not_all(truth, candidates), rescaled, np.nan)


def _some_not_all(
    truth: Bool[np.ndarray, "question token"], candidates: Bool[np.ndarray, "question token"]
) -> Bool[np.ndarray, " question"]:
    return truth.any(1) & (truth.sum(1) < candidates.sum(1))
