"""Claims on the question that none of the studies could ask: which attribution method finds the sources?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from book.chapters.attribution_benchmark.method_tables import over_settings
from book.chapters.attribution_benchmark.tables import (
    ahead_of,
    first_elsewhere,
    of_record,
    told_or_not,
    widest,
)
from book.chapters.findings.finding import Claim, Outcome, fraction, number, one, there
from book.chapters.findings.rules import ahead, no_less

ROLLOUT, UNTRAINED, LAST = "rollout", "rollout, untrained", "raw attention, last layer"

MARGIN = 0.1
"""Of the way from chance to perfect, or of tau: less of a lead would not matter."""

MASKED = "faithfulness"
"""The question whose answers mask tokens."""


def beats_raw_attention(rows: pd.DataFrame) -> Outcome:
    """How much further rollout is on the way from chance to perfect than the last layer's attention."""
    return more_than_raw_attention(*_numbers(rows, MASKED))


def is_no_worse_than_others(rows: pd.DataFrame) -> Outcome:
    """How far the measure that the other settings put first is ahead of rollout, by masking."""
    _, free = _numbers(rows, MASKED)
    ranking = there(over_settings(free))
    learned = ahead_of(free, ROLLOUT, UNTRAINED)
    whole = ranking[ranking["rank"].notna()]
    return as_much_as_any(free)._replace(
        more=f"Rollout is {fraction(one(whole, method=ROLLOUT))} of the way, {fraction(learned)} more than "
        f"in untrained models; the highest, {whole['method'].iloc[0]}, {fraction(one(whole[:1]))}."
    )


def more_than_raw_attention(told: pd.DataFrame, free: pd.DataFrame) -> Outcome:
    """How far rollout is ahead of the last layer's attention, setting by setting, with a margin."""
    lead = ahead_of(free, ROLLOUT, LAST)
    return Outcome(
        ahead(lead, MARGIN),
        "Lead, on a scale from chance (0) to perfect (1)",
        number(lead, "settings", 0, signed=True),
        more=where_told(told, partial(ahead_of, first=ROLLOUT, second=LAST), "it is"),
    )


def as_much_as_any(free: pd.DataFrame) -> Outcome:
    """How far the method that the other settings rank first is ahead of rollout, with the same margin."""
    lead = first_elsewhere(free, ROLLOUT)
    return Outcome(
        no_less(lead, MARGIN),
        "Lead of the method that other settings rank first",
        number(lead, "settings", MARGIN, signed=True),
    )


def where_told(told: pd.DataFrame, number_of: Callable[[pd.DataFrame], Any], words: str) -> str:
    """What the same number is where heads are a program's, or were told; nothing of no such settings."""
    said = " With heads that are a program's, or supervised, {} {}."
    return said.format(words, fraction(number_of(told))) if len(told) else ""


def _numbers(rows: pd.DataFrame, question: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers of settings whose heads were told where the sources are, and of the others."""
    tables, _ = of_record(widest(there(rows[rows["metric"].str.contains(": ")])))
    told, free = told_or_not(there(tables.get(question, pd.DataFrame())))
    return told, there(free)


CLAIMS = tuple(
    Claim(
        "all",
        name,
        words,
        "attribution_benchmark",
        "Which methods find the tokens that a model uses?",
        rule,
        answer,
    )
    for name, words, rule, answer in (
        (
            "masking, and raw attention",
            "Rollout shows better than raw attention which tokens change predictions when they are masked.",
            "In settings without supervised heads, rollout is ahead; it is not reproduced if less than "
            f"{MARGIN:g} of the way from chance to perfect.",
            beats_raw_attention,
        ),
        (
            "masking, and the best",
            "Rollout shows as well as any method which tokens change predictions when they are masked.",
            "In settings without supervised heads, the method that other settings rank first is less than "
            f"{MARGIN:g} ahead; it is not reproduced if it is ahead.",
            is_no_worse_than_others,
        ),
    )
)
