"""The claims of Snell et al. 2021 about translation."""

from __future__ import annotations

import pandas as pd

from book.chapters.classification.claims import (
    MARGIN,
    TABLE,
    is_as_large_as_published,
    predicts_attention,
    single_words_predict_relevance,
    that_learned,
)
from book.chapters.findings.finding import Answer, Claim, NotRunError, Outcome

THEIRS = f"{TABLE}, translation"

LEARNED = 0.25
"""The least token accuracy for a model that counts as translating at all."""

GOOD = 0.5
"""The least token accuracy for a model that is compared with the authors'."""


def only_if_learned(task: str) -> Answer:
    """Return the rule for a language pair with an authors' number, for models with an accuracy of `GOOD`."""

    def answer(rows: pd.DataFrame) -> Outcome:
        try:
            rows = that_learned(rows[rows["task"].eq(task)], GOOD)
        except NotRunError as error:
            raise NotRunError(
                "Models here get too few tokens right, having seen too few sentences"
            ) from error
        return is_as_large_as_published(task, THEIRS)(rows)

    return answer


PAPER, PREDICTS = "Paper vs ours", "Does KTIW predict attention?"

CLAIMS = tuple(
    Claim("snell2021approximating", name, words, "translation_dynamics", section, rule, answer)
    for name, words, section, rule, answer in (
        (
            "relevance, translation",
            "A translator attends most to source words that are relevant under uniform attention, more often "
            "than by chance.",
            PREDICTS,
            f"In every pair whose models get {100 * LEARNED:.0f} % of the tokens right, over models, the "
            "most attended word is among the 5 % most relevant more often than by chance.",
            predicts_attention("target tokens", LEARNED),
        ),
        (
            "relevance, Multi30k",
            "On Multi30k, relevance under uniform attention predicts attention as often as published.",
            PAPER,
            f"The interval over models lies within {100 * MARGIN:.0f} points of the authors' share.",
            is_as_large_as_published("multi30k", THEIRS),
        ),
        (
            "relevance, IWSLT14",
            "On IWSLT14, relevance under uniform attention predicts attention as often as published.",
            PAPER,
            f"The same, of models that get {100 * GOOD:.0f} % of the tokens right.",
            only_if_learned("iwslt14 de-en"),
        ),
        (
            "single words, translation",
            "In translation, the relevance of single words predicts relevance under uniform attention better "
            "than chance.",
            PREDICTS,
            "In every pair whose models translate, the most telling word is among the 5 % most relevant "
            "more often than by chance.",
            single_words_predict_relevance("target tokens", LEARNED),
        ),
    )
)
