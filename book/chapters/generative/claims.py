"""What became of the claim about rollout of language models that write."""

from __future__ import annotations

import pandas as pd

from book.chapters.findings.finding import Claim, Outcome, against, crux, of_largest, one, percent
from book.chapters.generative.needle import MEAN_ROLLOUT

NEEDLE = "needle in top 5 of the facts, filtered: "
"""The test of rollout: is a token of the right fact among the five of all facts that it ranks highest, once
the study's uninformative tokens are filtered out?"""


def shows_sources(rows: pd.DataFrame) -> Outcome:
    """It does if the interval of the share of needles found is above a blind draw, in the largest record.

    Rollout is read as the study reads it: the mean over layers, of tokens that pass its filter; the draw is
    of the same tokens.
    """
    rows = of_largest(rows, metric=NEEDLE + MEAN_ROLLOUT)
    rollout, last, mean, chance = (
        one(rows, metric=NEEDLE + way) for way in (MEAN_ROLLOUT, "rollout", "mean attention", "chance")
    )
    sink = rows[rows["metric"].str.fullmatch(r"trained, first token, layer \d+")]
    middle = one(rows, metric=f"trained, first token, layer {(len(sink) + 1) // 2}")
    even = one(rows, metric=middle.metric.replace("trained", "uniform"))
    named, told = (one(rows, metric=f"one name, first: {way}") for way in (MEAN_ROLLOUT, "AttnLRP"))
    return Outcome(
        against(rollout.low, rollout.high, chance.value),
        f"Where one fact among others holds the answer, a token of it is in the top 5 of rollout, read as in "
        f"the study (mean over layers, filtered), in {percent(rollout)} of {rollout.n} items; by chance in "
        f"{100 * chance.value:.0f} %.",
        f"By rollout's last layer, in {percent(last)}; by plain mean attention, in {percent(mean)}. Of texts "
        f"like *My name is Putin, I am from*, rollout puts the name first in {percent(named)} of {named.n}, "
        f"AttnLRP in {percent(told)}. Half-way "
        f"through the layers {middle.value:.2f} of rollout is on the first token; of attention that looks "
        f"everywhere equally, {even.value:.2f}.",
        crux("needles found, against chance", rollout, chance.value),
    )


CLAIMS = (
    Claim(
        "rollout",
        "The product of attention over layers shows which prompt tokens a generated token drew on.",
        "generative_rollout",
        "Does it find the needle?",
        shows_sources,
    ),
)
