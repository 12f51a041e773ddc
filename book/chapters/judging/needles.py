"""Judges on a language model that nobody compiled: what is known is where the needle stands, and no more.

Two kinds of prompt, of which `book.chapters.generative` has more:

    a fact among four    The code of Mia is 5. The code of Omar is 8. ... Q: What is the code of Omar? A: The
                         code of Omar is                                                          8
    one of two names     My friend is Olga and my name is Luigi. I am from                        Italy

The needle is one token, the value in the fact that is asked for or the name that decides, so that taking the
first token away can take all of it. All prompts of a kind have the same words at the same places and as many
tokens, but for values and names, so that "the token of the same place in another prompt" is a value for a
value and a name for a name. Of what never varies, a judge that replaces tokens can say nothing: the same word
stands there again.

A prompt counts if its answer hinges on what was exchanged: the right answer is likelier than the foil, and in
the counterfactual the foil is the likelier one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool

from attnlib.attribution.registry import METHODS
from attnlib.generators.needle import NeedleGenerator
from attnlib.models.pretrained import TINY
from attnlib.stats.intervals import Estimate
from attnlib.stats.rank_measures import kendall_tau
from attnlib.stats.resampling import Statistic, resampled_means
from book.chapters.generative.names import MOST, items
from book.chapters.judging.judged import DIGITS, PLAUSIBILITY, RUNGS, Judged, judge
from book.chapters.judging.predictions import EXPECTED, MASKING, TODAY
from book.chapters.judging.protocols import PROTOCOLS
from book.chapters.judging.removal import Case
from book.chapters.tells.asked import about_facts
from book.chapters.tells.measured import scored
from book.chapters.tells.predictions import verdict
from book.chapters.tells.questions import Question, but, gathered, some
from book.chapters.tells.settings import chapter_with, language_model

FACT, NAME = "a fact among four", "one of two names"

FACTS, DRAWN = 4, 600
"""In a prompt, and of how many prompts those of one form are taken."""

COSTLY = (
    "flow",
    "value zeroing",
    "integrated gradients",
    "attention knockout",
    "ContextCite",
    "KernelSHAP",
)
"""Measures that take more than about sixty passes of such a model and prompt: they are left out."""

MEASURES = tuple(name for name in METHODS if name not in COSTLY)

JUDGES = (EXPECTED, MASKING, TODAY)
"""The judge that was confirmed (told how many sources there are or not: here there is one), the same with the
token masked, and the usual one."""

PREDICTED = {
    "The confirmed judge agrees better with the place of the needle than the usual one": "tau",
    "It puts fewer measures before the needle": "before",
}
"""Written before the first run of this part: sentence -> the number that it is about."""


def fact_questions(tokenizer: Any, seed: int = 0) -> Iterator[Question]:
    """Questions about facts of one digit; counterfactuals are prompts of their own."""
    generator, elsewhere = (NeedleGenerator(tokenizer, seed + more, FACTS, digits=1) for more in (0, 1))
    drawn, others = (islice(each.generate_samples(), DRAWN) for each in (generator, elsewhere))
    return about_facts(generator, drawn, others=others)


def name_questions(tokenizer: Any) -> Iterator[Question]:
    """Questions about countries that names are common in; in the counterfactual the names are exchanged."""
    for item in items(tokenizer, MOST, "two names"):
        query, ids = len(item.ids) - 1, item.ids
        candidates = but(~torch.isin(ids, torch.tensor(tokenizer.all_special_ids)), query)
        yield Question(
            ids, query, item.target, item.right, candidates, item.foil, item.exchanged, in_distribution=True
        )


def of_one_form(questions: Iterable[Question]) -> list[Question]:
    """Those that have as many tokens, and as many of the truth, as most of them."""
    every = [(len(each.ids), int(each.truth.sum()), each) for each in questions]
    ((form, _),) = Counter(each[:2] for each in every).most_common(1)
    return [each for *found, each in every if tuple(found) == form]


def hinging(case: Case) -> Bool[np.ndarray, " item"]:
    """Where the likelier of answer and foil is another one in the counterfactual."""
    both = np.stack([case.candidates, np.zeros_like(case.candidates)], 1)
    whole, exchanged = case.answers("resample", "margin", both).T
    return (whole > 0) & (exchanged < 0)


def cases(p: Any) -> dict[str, Case]:
    """The language model with prompts of every kind whose answer hinges on the needle.

    Args:
        p: the chapter's parameters, of which `models`, `questions` and `draws` count.

    Raises:
        ValueError: fewer than two prompts of a kind are left.
    """
    chapter, found = chapter_with("generative_rollout", p.models), dict[str, Case]()
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


def judged(p: Any) -> list[Judged]:
    """What `JUDGES` say of `MEASURES`, by kind of prompt."""
    return [
        judge(
            kind,
            0,
            case,
            scored(case.model, case.questions, MEASURES, batch_size=4).scores,
            {name: PROTOCOLS[name] for name in JUDGES},
        )
        for kind, case in cases(p).items()
    ]


def tables(kinds: Sequence[Judged]) -> dict[str, pd.DataFrame]:
    """What is recorded, by part; intervals are bootstraps over prompts.

    Returns:
        "needles": by `setting` (kind of prompt), `judge` and `number`: "tau", Kendall's with plausibility;
        "before", the share of measures before the needle itself.
        "needle measures": by `setting`, `judge` (or `PLAUSIBILITY`) and `method`, what they say.
        "needles expected": the difference behind every sentence of `PREDICTED`, and its `verdict`.
    """
    numbers, said, expected = [], [], []
    for kind in kinds:
        found = {name: _numbers(kind, name) for name in kind.numbers if name != PLAUSIBILITY}
        for name, each in found.items():
            numbers += [(kind.setting, name, what, *it.estimate()) for what, it in each.items()]
        for name in kind.numbers:
            means = resampled_means(kind.numbers[name])
            said += [
                (kind.setting, name, method, *means.column(m).estimate())
                for m, method in enumerate(kind.measures)
            ]
        for sentence, what in PREDICTED.items():
            first, second = found[EXPECTED][what], found[TODAY][what]
            sign = 1 if what == "tau" else -1
            gain = Statistic(
                sign * (first.value - second.value), sign * (first.draws - second.draws), first.n
            ).estimate()
            expected.append((kind.setting, sentence, verdict(gain.low, gain.high), *gain))
    ends = Estimate._fields
    return {
        "needles": pd.DataFrame(numbers, columns=["setting", "judge", "number", *ends]),
        "needle measures": pd.DataFrame(said, columns=["setting", "judge", "method", *ends]),
        "needles expected": pd.DataFrame(expected, columns=["setting", "prediction", "verdict", *ends]),
    }


def _numbers(kind: Judged, protocol: str) -> dict[str, Statistic]:
    names = [*kind.measures]
    measures = [m for m, name in enumerate(names) if name not in RUNGS]
    both = resampled_means(np.hstack([kind.numbers[PLAUSIBILITY], kind.numbers[protocol]]))
    rows = np.vstack([both.value, both.draws]).round(DIGITS)
    known, found = rows[:, : len(names)], rows[:, len(names) :]
    tau = np.nan_to_num(kendall_tau(known[:, measures], found[:, measures]))
    before = (found[:, measures] > found[:, [names.index(RUNGS[0])]]).mean(1)
    return {
        what: Statistic(float(each[0]), each[1:], len(kind.numbers[protocol]))
        for what, each in (("tau", tau), ("before", before))
    }
