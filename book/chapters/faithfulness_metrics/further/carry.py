"""Weights of heads, learned from ablations: do they transfer to longer inputs, and to another seed?

The measure (`attnlib.attribution.learned`) has a weight for every head of a model. It is evaluated on
questions out of distribution that the model answers correctly, with weights that were learned in three ways:

    the like            from the other half of these questions, on the same model
    in distribution     from questions in distribution, on the same model
    another seed        from questions in distribution, on a model of the next seed, whose heads differ

They are compared with uniform weights, that is, mean attention, and with AttnLRP, which learns nothing.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from attnlib.attribution.learned import learned_heads
from attnlib.attribution.prompts import Method
from book.chapters.attribution_benchmark.measures import scored
from book.chapters.attribution_benchmark.questions import Questions
from book.chapters.attribution_benchmark.settings import SETTINGS
from book.chapters.faithfulness_metrics.further.tables import FEWEST, Prediction, by_measure
from book.chapters.faithfulness_metrics.measures import (
    BESIDE,
    PLAUSIBILITY,
    PROTOCOLS,
    Rated,
    cross_fitted,
    prompts_of,
    rate,
)
from book.chapters.faithfulness_metrics.perturbation import Case
from book.chapters.faithfulness_metrics.predictions import EXPECTED, RECORDED_SETTINGS

LIKE, NEAR, OTHER = "the like", "in distribution", "another seed"
MEAN, LEADER = "mean attention", "AttnLRP"

NAMES = {
    LIKE: "weights learned: longer inputs",
    **{name: f"weights learned: {name}" for name in (NEAR, OTHER)},
}
"""The page's names of the three ways."""

ASKED = tuple(name for name in RECORDED_SETTINGS if "compiled" not in name and name != "multiplication")
"""The settings of trained models, except one that no other chapter trains."""

PREDICTED = (
    Prediction(
        "Weights that were learned in distribution find the sources of longer inputs better than even ones",
        by_measure(PLAUSIBILITY, NEAR, MEAN),
    ),
    Prediction(
        "Those that were learned from the like find them better", by_measure(PLAUSIBILITY, LIKE, NEAR)
    ),
    Prediction(
        "Weights of another seed find them worse than the model's own",
        by_measure(PLAUSIBILITY, NEAR, OTHER),
    ),
)
"""Written before the first run of this part, in which three settings had models of three seeds. There, no
kind of weights was better than uniform ones; since then, all settings have models of three seeds."""


def near_and_far(questions: Questions) -> tuple[Questions, Questions]:
    """The correctly answered questions in the model's distribution, and those out of it."""
    near, right = questions.in_distribution, questions.right
    return questions.where(right & near), questions.where(right & ~near)


def rated(p: Any) -> list[Rated]:
    """Weights that were learned in each way, rated by the expected metric and by ground truth."""
    found = []
    for name in ASKED:
        seeds = SETTINGS[name].seeds(p)[: p.seeds]
        made = {seed: SETTINGS[name].make(p, seed, others=p.others) for seed in seeds}
        kinds = {seed: near_and_far(questions) for seed, (_, questions) in made.items()}
        learned = {
            seed: learned_heads(made[seed][0], prompts_of(near))
            for seed, (near, _) in kinds.items()
            if len(near) >= FEWEST
        }
        others = [*learned.values()][1:] + [*learned.values()][:1]
        for (seed, own), other in zip(learned.items(), others, strict=True):
            if other is own or len(far := kinds[seed][1]) < FEWEST:
                continue
            methods: dict[str, str | Method] = {NEAR: own, OTHER: other, MEAN: MEAN, LEADER: LEADER}
            model = made[seed][0].to(p.torch_device)
            scores = {LIKE: cross_fitted(model, far), **scored(model, far, methods).scores}
            case = Case(model, far, draws=p.draws, seed=seed)
            found.append(rate(name, seed, case, scores, {EXPECTED: PROTOCOLS[EXPECTED]}))
    return found


def by_method(measures: pd.DataFrame) -> pd.DataFrame:
    """Average precision by setting and method, of the second table of `recorded_tables`."""
    return measures[measures["judge"].eq(PLAUSIBILITY) & ~measures["method"].isin(BESIDE)]
