"""Metrics on a pretrained language model, whose ground truth is only the position of the needle.

There are two kinds of prompts; `book.chapters.generative` has more:

    a fact among four    The code of Mia is 5. The code of Omar is 8. ... Q: What is the code of Omar? A: The
                         code of Omar is                                                          8
    one of two names     My friend is Olga and my name is Luigi. I am from                        Italy

The needle is one token, the value in the queried fact or the deciding name, so that removing a single token
can remove all of it. All prompts of a kind have the same length and the same words at the same places, except
values and names. So the token at the same place in another prompt is a value for a value and a name for a
name. A metric that replaces tokens cannot test words that are the same in all prompts.

A prompt counts if its answer depends on the exchanged tokens: the right answer is more probable than the
foil, and in the counterfactual the foil is more probable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool

from attnlib.attribution.registry import METHODS
from attnlib.generators.needle import NeedleGenerator
from attnlib.models.pretrained import TINY
from book.chapters.attribution_benchmark.measures import scored
from book.chapters.attribution_benchmark.questions import Question, about_facts, but, gathered, some
from book.chapters.attribution_benchmark.settings import chapter_with, language_model
from book.chapters.faithfulness_metrics.further.tables import BEFORE, TAU, Prediction, by_metric
from book.chapters.faithfulness_metrics.measures import PROTOCOLS, Rated, rate
from book.chapters.faithfulness_metrics.perturbation import Case
from book.chapters.faithfulness_metrics.predictions import EXPECTED, MASKING, TODAY
from book.chapters.generative.names import MOST, items

FACT, NAME = "a fact among four", "one of two names"

FACTS, DRAWN = 4, 600
"""Facts in a prompt, and the number of prompts that are drawn, of which those of one form are used."""

COSTLY = (
    "flow",
    "value zeroing",
    "integrated gradients",
    "attention knockout",
    "ContextCite",
    "KernelSHAP",
    "ReAGent",
)
"""Measures that are left out, since they need more than about sixty passes of the model per prompt."""

MEASURES = tuple(name for name in METHODS if name not in COSTLY)

METRICS = (EXPECTED, MASKING, TODAY)
"""The selected metric (with one source, the oracle metric is the same), the same with the token masked, and
the standard metric."""

PREDICTED = (
    Prediction(
        "The confirmed judge agrees better with the place of the needle than the usual one",
        by_metric(TAU, EXPECTED, TODAY),
    ),
    Prediction("It puts fewer measures before the needle", by_metric(BEFORE, TODAY, EXPECTED)),
)
"""Written before the first run of this part."""


def fact_questions(tokenizer: Any) -> Iterator[Question]:
    """Questions about facts of one digit; counterfactuals are prompts of their own."""
    generator, elsewhere = (NeedleGenerator(tokenizer, seed, FACTS, digits=1) for seed in (0, 1))
    drawn, others = (islice(each.generate_samples(), DRAWN) for each in (generator, elsewhere))
    return about_facts(generator, drawn, others=others)


def name_questions(tokenizer: Any) -> Iterator[Question]:
    """Questions about countries that names are common in; in the counterfactual the names are exchanged."""
    for item in items(tokenizer, MOST, "two names"):
        query, ids = len(item.ids) - 1, item.ids
        special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
        candidates = but(~special | item.right, query)
        yield Question(
            ids, query, item.target, item.right, candidates, item.foil, item.exchanged, in_distribution=True
        )


def of_one_form(questions: Iterable[Question]) -> list[Question]:
    """The questions with the most frequent combination of length and number of sources."""
    every = [(len(each.ids), int(each.truth.sum()), each) for each in questions]
    ((form, _),) = Counter(each[:2] for each in every).most_common(1)
    return [each for *found, each in every if tuple(found) == form]


def hinging(case: Case) -> Bool[np.ndarray, " item"]:
    """Whether the answer is more probable than the foil, and less probable in the counterfactual."""
    both = np.stack([case.candidates, np.zeros_like(case.candidates)], 1)
    whole, exchanged = case.answers("resample", "margin", both).T
    return (whole > 0) & (exchanged < 0)


def cases(p: Any) -> dict[str, Case]:
    """The language model with prompts of every kind whose answer depends on the needle."""
    chapter: Any = chapter_with("generative_rollout", p.models)
    found = dict[str, Case]()
    model, tokenizer = language_model(chapter.model, p.device)
    for kind, asked in ((FACT, fact_questions(tokenizer)), (NAME, name_questions(tokenizer))):
        questions = gathered(kind, model, some(2 * p.questions, of_one_form(asked)))
        right = torch.from_numpy(hinging(Case(model, questions))) | (chapter.model == TINY)
        left = questions.where(right.nonzero()[: p.questions, 0])
        if len(left) < 2:
            raise ValueError(
                f"{kind}: the answers of at least two prompts should hinge on the needle; got {len(left)} of "
                f"{len(questions)}. Ask more, or take a larger model."
            )
        found[kind] = Case(model, left, draws=p.draws, batch_size=32)
    return found


def rated(p: Any) -> list[Rated]:
    """The numbers of `MEASURES` by `METRICS`, for each kind of prompt."""
    return [
        rate(
            kind,
            0,
            case,
            scored(case.model, case.questions, MEASURES, batch_size=4).scores,
            {name: PROTOCOLS[name] for name in METRICS},
        )
        for kind, case in cases(p).items()
    ]
