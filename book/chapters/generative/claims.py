"""Claims about rollout in text generation."""

from __future__ import annotations

from typing import Any

import pandas as pd

from book.chapters.findings.finding import Claim, NotRunError, Outcome, number, one, percent, there
from book.chapters.findings.rules import above, every
from book.chapters.generative.measures import MEAN_ROLLOUT

NEEDLE = "needle in top 5 of the facts, filtered: "
"""The test of rollout: is a token of the right fact among the five of all facts that it ranks highest, once
the study's uninformative tokens are filtered out?"""

MODEL = "SmolLM2-135M-Instruct"

MODELS = 3
"""The least number of language models for a claim about language models."""


def finds_the_needle(rows: pd.DataFrame) -> Outcome:
    """How often rollout, read as in the study, finds the fact that the question is about, against chance."""
    rows = _of(rows, MODEL)
    rollout, last, mean, chance = (
        one(rows, metric=NEEDLE + way) for way in (MEAN_ROLLOUT, "rollout", "mean attention", "chance")
    )
    sink = rows[rows["metric"].str.fullmatch(r"trained, first token, layer \d+")]
    middle = one(rows, metric=f"trained, first token, layer {(len(sink) + 1) // 2}")
    even = one(rows, metric=middle.metric.replace("trained", "uniform"))
    return Outcome(
        above(rollout, chance.value),
        f"Share of facts found ({100 * chance.value:.0f} % by chance)",
        number(rollout, "items", chance.value, unit="%"),
        more=f"By rollout's last layer, in {percent(last)}; by plain mean attention, in {percent(mean)}. "
        f"Half-way through the layers {middle.value:.2f} of rollout is on the first token; of "
        f"attention that looks everywhere equally, {even.value:.2f}.",
    )


def names_the_name(rows: pd.DataFrame) -> Outcome:
    """How often rollout ranks a token of the decisive name first, against chance."""
    rows = _of(rows, MODEL)
    named, told, chance = (
        one(rows, metric=f"one name, first: {way}") for way in (MEAN_ROLLOUT, "AttnLRP", "chance")
    )
    return Outcome(
        above(named, chance.value),
        f"Share of names ranked first ({100 * chance.value:.0f} % by chance)",
        number(named, "texts", chance.value, unit="%"),
        more=f"Texts are like *My name is Putin, I am from*. AttnLRP puts the name first in {percent(told)}.",
    )


def finds_it_in_language_models(rows: pd.DataFrame) -> Outcome:
    """`finds_the_needle` for every recorded model that answers, of which there must be at least `MODELS`."""
    found = [(model, _of(rows, model)) for model in _models(rows)]
    cases = [_above_chance(part).assign(model=model) for model, part in found if _answers(part)]
    if len(cases) < MODELS:
        raise NotRunError(f"Recorded of {len(cases)} language model that answers, of {MODELS} needed")
    judged = every(pd.concat(cases, ignore_index=True), "chance", seeds=False)
    least = judged.least
    return Outcome(
        judged.verdict,
        f"Shown in {judged.shown} of {judged.n} models. Share of facts found by the weakest, {least.model}",
        number(least, "items", least.chance, unit="%"),
    )


def _models(rows: pd.DataFrame) -> list[str]:
    """The language models that are recorded: a record is named after its model, and a hash."""
    named = rows.loc[rows["metric"].eq(NEEDLE + MEAN_ROLLOUT), "record"]
    return list(dict.fromkeys(named.map(_model_of)))


def _model_of(record: str) -> str:
    return record.partition(" [")[0].rpartition("-")[0]


def _of(rows: pd.DataFrame, model: str) -> pd.DataFrame:
    """The rows of a model's record with the most items; smaller records repeat some, so are not pooled."""
    rows = there(rows[rows["record"].map(_model_of).eq(model)])
    items = there(rows[rows["metric"].eq(NEEDLE + MEAN_ROLLOUT)])
    largest = items.sort_values(["n", "recorded"], kind="stable")["record"].iloc[-1]
    return rows[rows["record"].eq(largest)]


def _above_chance(rows: pd.DataFrame) -> pd.DataFrame:
    chance: Any = one(rows, metric=NEEDLE + "chance")
    return rows[rows["metric"].eq(NEEDLE + MEAN_ROLLOUT)].assign(chance=chance.value)


def _answers(rows: pd.DataFrame) -> bool:
    """Whether there are items that the model answers, since only those count."""
    return bool(rows.loc[rows["metric"].eq(NEEDLE + MEAN_ROLLOUT), "n"].gt(0).any())


CLAIMS = (
    Claim(
        "rollout",
        "rollout, needle",
        f"In {MODEL}, rollout shows which of several facts an answer was taken from.",
        "generative_rollout",
        "Which methods find the needle?",
        "More often than five random tokens, the five that rollout ranks highest (mean over layers, "
        "the study's filter) hold one of the right fact.",
        finds_the_needle,
    ),
    Claim(
        "rollout",
        "rollout, names",
        f"In {MODEL}, rollout shows the name from which the model infers a country.",
        "generative_rollout",
        "Which methods find the name?",
        "More often than a random token, the one that rollout ranks highest is of the name.",
        names_the_name,
    ),
    Claim(
        "rollout",
        "rollout, language models",
        "In language models, rollout shows which prompt tokens a generated word depends on.",
        "generative_rollout",
        "Which methods find the needle?",
        f"As of the needle, in each of at least {MODELS} language models.",
        finds_it_in_language_models,
    ),
)
