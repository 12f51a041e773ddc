"""Claims on random programs, compiled and trained: predictions from before the programs were drawn."""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import pandas as pd

from attnlib.benchmarking.metrics import published_metrics
from book.chapters.display import display_name
from book.chapters.findings.finding import Claim, NotRunError, Outcome, number
from book.chapters.programs.predictions import (
    LAST,
    MARGIN,
    MEAN,
    PREDICTIONS,
    ROLLOUT,
    SUPPORTED,
    TWICE,
    USUAL,
    Prediction,
    answer_of,
    pairs,
)
from book.chapters.programs.tables import TWICE_THE_SIZE, confirming, trained

LEAD = "on a scale from chance (0) to perfect (1)"

SAME_ORDER = 0.5
"""Kendall's tau above which two orders of methods are called the same."""


class Told(NamedTuple):
    """The name and further fields of the claim that a prediction becomes.

    Attributes:
        result: a description of the number.
        needs: the methods, or metrics, without which the verdict is "not run".
        bound: the bound of the verdict; see `Number`.
    """

    name: str
    result: str
    needs: tuple[str, ...]
    bound: float = 0.0


PATCHING = "activation patching"

TOLD = (
    Told("programs: rollout, raw attention", f"Lead of rollout by reads, {LEAD}", (ROLLOUT, LAST)),
    Told("programs: rollout, mean attention", f"Lead of rollout by reads, {LEAD}", (ROLLOUT, MEAN), MARGIN),
    Told(
        "programs: gradient norm, rollout",
        f"Lead of gradient norm by reads, {LEAD}",
        ("gradient norm", ROLLOUT),
    ),
    Told(
        "programs: the best by causes", "Lead of activation patching over the best other method", (PATCHING,)
    ),
    Told("programs: sign", "What absolute values add, by reads", ("gradient x embedding",), MARGIN),
    Told("programs: counting", "AttnLRP where programs count, minus where they do not", ("AttnLRP",)),
    Told("programs: rotation", "ALTI where the stream is rotated, minus where it is not", ("ALTI",)),
    Told("programs: metric, by causes", "Gain in Kendall's tau over the standard metric", (SUPPORTED, USUAL)),
    Told("programs: metric, by reads", "Gain in Kendall's tau over the standard metric", (SUPPORTED, USUAL)),
    Told("programs: log p", "Gain in Kendall's tau over the standard metric", (USUAL,)),
    Told("trained: the same order", "Kendall's tau of both orders of methods", (ROLLOUT, LAST), SAME_ORDER),
    Told("trained: rollout, raw attention", f"Lead of rollout by causes, {LEAD}", (ROLLOUT, LAST)),
    Told(
        "trained: the best by causes", "Lead of activation patching over the best other method", (PATCHING,)
    ),
    Told("twice the size: the same order", "Kendall's tau of both orders of methods", (ROLLOUT,), SAME_ORDER),
)
"""The fields of claims in the order of `ASKED`."""

ASKED = (*(each for each in PREDICTIONS if each.answer is not pairs), TWICE)
"""The predictions that are claims: all but the one on pairs of methods, whose number has no interval."""


@cache
def recorded() -> pd.DataFrame:
    """All recorded rows; the column `of` names their subject: "compiled", "metrics", "trained" or "twice"."""
    parts = {
        "compiled": confirming(),
        "metrics": published_metrics(),
        "trained": trained(),
        "twice": trained(TWICE_THE_SIZE),
    }
    named = {name: rows.rename(columns={"method": "metric"}) for name, rows in parts.items()}
    rows = pd.concat(named, names=["of"]).reset_index("of").reset_index(drop=True)
    return rows.assign(record="random programs")


def came_out(each: Prediction, told: Told, rows: pd.DataFrame) -> Outcome:
    """The result of a prediction as the outcome of a claim."""
    if not set(told.needs) <= set(rows.loc[rows["of"] == each.of, "metric"]):
        raise NotRunError
    by_kind = {
        str(name): part if name == "metrics" else part.rename(columns={"metric": "method"})
        for name, part in rows.groupby("of")
    }
    answer = answer_of(each, by_kind)
    signed = told.bound != SAME_ORDER
    return Outcome(answer.verdict, told.result, number(answer, answer.units, told.bound, signed=signed))


RULES = {
    "compiled": "Over programs, the 95 % confidence interval is on the side that the sentence says",
    "metrics": "Over programs, the 95 % confidence interval of the difference of Kendall's tau is above 0",
    "trained": "Over the programs that were learned, the 95 % confidence interval is on the side that the "
    "sentence says",
    "twice": "Over the programs that both sizes learned, the 95 % confidence interval is on the side that "
    "the sentence says",
}

CLAIMS = tuple(
    Claim(
        "programs",
        told.name,
        display_name(each.words),
        "random_programs",
        "Predictions vs results",
        f"{RULES[each.of]}, by the rule that was committed with it.",
        partial(came_out, each, told),
        before=True,
        rows=recorded,
    )
    for each, told in zip(ASKED, TOLD, strict=True)
)
