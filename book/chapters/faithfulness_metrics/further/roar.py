r"""ROAR: remove the token that a measure ranks first, train the model again, and count the lost answers.

In every sequence, also in training, the candidate that a measure ranks first is removed: a symbol that occurs
nowhere else replaces it. The better the measure, the more answers should be lost. Three metrics differ in the
model that is tested on these sequences:

    as it was           the original model, which was never trained with that symbol
    ROAR                trained again with this measure's tokens removed: one model per measure
    random places       trained again once, with tokens removed at random places: one model for all measures

Under ROAR the place of a removed token can reveal the token: a model that counts, and is trained with one of
the counted symbols missing from every sequence, learns to add one. Random places reveal nothing about the
tokens that a measure ranks first.

All three are protocols as in `book.chapters.faithfulness_metrics.measures`. They train on three of four
questions and test on the others, so their numbers for the training questions are NaN. Training continues from
the model's weights for `STEPS` steps, on the one answer of each question.

References:
    Hooker et al. 2019, *A Benchmark for Interpretability Methods in Deep Neural Networks*: remove and retrain
    (ROAR); there from random weights, of images. Rong et al. 2022, *A Consistent and Efficient Evaluation
    Strategy for Attribution Methods*: the place of what was removed can tell the class.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attnlib.generators.base import IGNORE, Batch
from attnlib.generators.tokenizer import UNK_ID
from attnlib.training import Plan, fit, token_loss
from book.chapters.attribution_benchmark.measures import scored
from book.chapters.attribution_benchmark.questions import Question, about_programs, gathered, some
from book.chapters.attribution_benchmark.settings import SETTINGS
from book.chapters.faithfulness_metrics.further.tables import BEFORE, TAU, Prediction, by_measure, by_metric
from book.chapters.faithfulness_metrics.measures import (
    PLAUSIBILITY,
    RUNGS,
    Numbers,
    Protocol,
    Rated,
    Scores,
    first_tokens,
    rate,
)
from book.chapters.faithfulness_metrics.perturbation import Case

AS_IT_WAS, ROAR, RANDOM = "as it was", "ROAR", "random places"

ASKED = ("reverse", "sort", "hist, supervised")
"""Settings whose models retrain in seconds: one source, one source found by its rank, several sources."""

MEASURES = (
    "raw attention, last layer",
    "rollout",
    "gradient x embedding",
    "AttnLRP",
    "blank-out",
    "activation patching",
)

QUESTIONS, LENGTH, TESTED = 4000, 12, 4
"""The number of sequences, their length, and the interval of test sequences (every `TESTED`th)."""

STEPS, BATCH, RATE = 300, 128, 1e-3

PREDICTED = (
    Prediction(
        "Trained again measure by measure, the truth loses less than random places where symbols are counted",
        by_measure(ROAR, RUNGS[-1], RUNGS[0]),
        ("hist, supervised",),
    ),
    Prediction(
        "Random places, trained once, agree better with the known answers than ROAR does",
        by_metric(TAU, RANDOM, ROAR),
    ),
    Prediction("They put fewer measures before the truth than ROAR does", by_metric(BEFORE, ROAR, RANDOM)),
)
"""Written before the first run of this part."""


@dataclass(frozen=True)
class Drawn:
    """Batches of rows that are drawn anew at every step; a batch depends only on the seed and the step."""

    rows: Batch
    seed: int

    def __call__(self, step: int) -> Batch:
        """The batch of a step."""
        some = np.random.default_rng([self.seed, step]).integers(len(self.rows), size=BATCH)
        return _rows(self.rows, torch.from_numpy(some))


def _rows(batch: Batch, rows: Tensor) -> Batch:
    return Batch(batch.input_ids[rows], batch.target_ids[rows], batch.attention_mask[rows])


def tested(n: int) -> Bool[Tensor, " item"]:
    """A mask of the test questions among `n` questions."""
    return torch.arange(n) % TESTED == 0


def without(case: Case, taken: Bool[np.ndarray, "item token"]) -> Batch:
    """The questions with the tokens `taken` removed, as one batch with one target per question."""
    q = case.questions
    targets = torch.full_like(q.input_ids, IGNORE)
    targets[torch.arange(len(q)), q.query] = q.target
    return Batch(q.input_ids.masked_fill(torch.from_numpy(taken), UNK_ID), targets, q.attention_mask)


def trained_again(case: Case, batch: Batch) -> nn.Module:
    """The case's model, trained further on the questions that are not for testing."""
    model = copy.deepcopy(case.model)
    plan = Plan(
        steps=STEPS,
        learning_rate=RATE,
        schedule="onecycle",
        evaluate_every=STEPS,
        seed=case.seed,
        device=str(next(model.parameters()).device),
    )
    fit(model, Drawn(_rows(batch, ~tested(len(batch))), case.seed), token_loss(), plan, progress=False)
    return model


@torch.no_grad()
def lost(model: nn.Module, batch: Batch) -> Numbers:
    """1 where the answer is wrong, 0 where it is right, and NaN for the training questions."""
    device, asked = next(model.parameters()).device, batch.target_ids != IGNORE
    found = model(**batch.to(device).inputs).logits.argmax(-1).cpu()
    wrong = (found[asked] != batch.target_ids[asked]).double()
    return np.where(tested(len(batch)), wrong, np.nan)


Again = Callable[[Case, Batch], nn.Module]


def _rated_by(choose: Callable[[Case, Scores], Again]) -> Protocol:
    """The protocol that removes each measure's first token and tests the model that `choose` returns."""

    def protocol(case: Case, scores: Scores) -> Numbers:
        model_for, once = choose(case, scores), np.ones((len(scores), 1), dtype=int)
        first = first_tokens(case, scores, once)[:, :, 0]
        batches = [without(case, first[:, m]) for m in range(scores.shape[1])]
        return np.stack([lost(model_for(case, batch), batch) for batch in batches], 1)

    return protocol


def _once(case: Case, scores: Scores) -> Again:
    coins = np.random.default_rng([case.seed, STEPS]).random((len(scores), 1, scores.shape[-1]))
    taken = first_tokens(case, coins, np.ones((len(scores), 1), dtype=int))[:, 0, 0]
    model = trained_again(case, without(case, taken))
    return lambda case, batch: model


METRICS: dict[str, Protocol] = {
    AS_IT_WAS: _rated_by(lambda case, scores: lambda case, batch: case.model),
    ROAR: _rated_by(lambda case, scores: trained_again),
    RANDOM: _rated_by(_once),
}
"""Name -> protocol; see the module."""


def questions_of(p: Any, name: str) -> list[Question]:
    """Questions about sequences of one length, the same for models of every seed."""
    chapter = SETTINGS[name].chapter(p)
    lang, length = chapter.lang(name.removesuffix(", supervised")), min(LENGTH, chapter.length)
    drawn = lang.sequences(QUESTIONS, split="test", min_length=length, max_length=length)
    return [*some(QUESTIONS, about_programs(lang, drawn, others=p.others))]


def rated(p: Any) -> list[Rated]:
    """The numbers of `MEASURES` and of the ladder by the three metrics, for every model."""
    found = []
    for name in ASKED:
        asked = questions_of(p, name)
        for seed in SETTINGS[name].seeds(p)[: p.seeds]:
            model, _ = SETTINGS[name].make(p, seed, others=p.others)
            whole = gathered(name, model, asked)
            case = Case(model.to(p.torch_device), whole.where(whole.right), seed=seed)
            scores = scored(case.model, case.questions, MEASURES, batch_size=256).scores
            found.append(rate(name, seed, case, scores, METRICS))
    return found


def within_bounds(lost: pd.DataFrame) -> pd.DataFrame:
    """The table by measure, with intervals of shares cut at 0 and 1; plausibility may be below 0."""
    lowest = np.where(lost["judge"] == PLAUSIBILITY, -np.inf, 0.0)
    return lost.assign(low=lost["low"].clip(lower=lowest), high=lost["high"].clip(upper=1.0))
