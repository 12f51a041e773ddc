"""Claims on which attribution method finds the sources, and predictions from before the first run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from attnlib.stats.intervals import Estimate
from book.chapters.attribution_benchmark.measures import (
    DIRECTLY,
    HOPS,
    OWN,
)
from book.chapters.attribution_benchmark.tables import (
    ANSWERED_BY,
    FAITHFULNESS,
    PLAUSIBILITY,
    ahead_of,
    difference_name,
    first_elsewhere,
    method_differences,
    of_record,
    over_settings,
    told_or_not,
    verdict,
    widest,
)
from book.chapters.findings.finding import Claim, Outcome, fraction, number, one, there
from book.chapters.findings.rules import ahead, no_less
from book.chapters.records import one_number

ROLLOUT, UNTRAINED, LAST = "rollout", "rollout, untrained", "raw attention, last layer"

MARGIN = 0.1
"""The smallest lead that matters, on the scale from chance (0) to perfect (1), or in Kendall's tau."""

MASKED = "faithfulness"
"""The question that is answered by masking tokens."""


def beats_raw_attention(rows: pd.DataFrame) -> Outcome:
    """The lead of rollout over the last layer's attention by masking, from chance (0) to perfect (1)."""
    return more_than_raw_attention(*_numbers(rows, MASKED))


def is_no_worse_than_others(rows: pd.DataFrame) -> Outcome:
    """The lead over rollout, by masking, of the method that the other settings rank first."""
    _, free = _numbers(rows, MASKED)
    ranking = there(over_settings(free))
    learned = ahead_of(free, ROLLOUT, UNTRAINED)
    whole = ranking[ranking["rank"].notna()]
    return as_much_as_any(free)._replace(
        more=f"Rollout is {fraction(one(whole, method=ROLLOUT))} of the way, {fraction(learned)} more than "
        f"in untrained models; the highest, {whole['method'].iloc[0]}, {fraction(one(whole[:1]))}."
    )


def more_than_raw_attention(told: pd.DataFrame, free: pd.DataFrame) -> Outcome:
    """The lead of rollout over the last layer's attention, paired by setting, with a margin."""
    lead = ahead_of(free, ROLLOUT, LAST)
    return Outcome(
        ahead(lead, MARGIN),
        "Lead, on a scale from chance (0) to perfect (1)",
        number(lead, "settings", 0, signed=True),
        more=where_told(told, partial(ahead_of, first=ROLLOUT, second=LAST), "it is"),
    )


def as_much_as_any(free: pd.DataFrame) -> Outcome:
    """The lead over rollout of the method that the other settings rank first, with the same margin."""
    lead = first_elsewhere(free, ROLLOUT)
    return Outcome(
        no_less(lead, MARGIN),
        "Lead of the method that other settings rank first",
        number(lead, "settings", MARGIN, signed=True),
    )


def where_told(told: pd.DataFrame, number_of: Callable[[pd.DataFrame], Any], words: str) -> str:
    """A sentence with the same number for compiled or supervised heads; "" if there are no such settings."""
    said = " With heads that are a program's, or supervised, {} {}."
    return said.format(words, fraction(number_of(told))) if len(told) else ""


def _numbers(rows: pd.DataFrame, question: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The numbers of settings with compiled or supervised heads, and those of the other settings."""
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


class Prediction(NamedTuple):
    """The prediction that the method `first` has a higher mean `metric` over settings than `second`."""

    words: str
    metric: str
    first: str
    second: str


_WRITTEN = {
    PLAUSIBILITY: {
        "Activation patching finds the sources better than blank-out": ("activation patching", "blank-out"),
        "AttnLRP finds them better than gradient x embedding": ("AttnLRP", "gradient x embedding"),
        "Mean attention finds them better than rollout, which is made of it": ("mean attention", "rollout"),
        "Rollout over null finds them better than rollout": ("rollout over null", "rollout"),
        "ALTI finds them better than rollout": ("ALTI", "rollout"),
        "Weighted by values, attention of the last layer finds them better than as it is": (
            "value-weighted attention",
            "raw attention, last layer",
        ),
        "Attention of the last layer finds them better than taking the nearest first": (
            "raw attention, last layer",
            "nearest first",
        ),
        "Rollout finds them better in a trained model than in an untrained one": (
            "rollout",
            "rollout, untrained",
        ),
    },
    FAITHFULNESS: {
        "Blank-out is more faithful than AttnLRP: it does to the model what the test does": (
            "blank-out",
            "AttnLRP",
        ),
        "AttnLRP is more faithful than ALTI": ("AttnLRP", "ALTI"),
        "Gradient x embedding is more faithful than attention of the last layer": (
            "gradient x embedding",
            "raw attention, last layer",
        ),
    },
}

PREDICTIONS = tuple(
    Prediction(words, metric, *pair) for metric, pairs in _WRITTEN.items() for words, pair in pairs.items()
)
"""Written before the first run, and not changed since."""


class HopPrediction(NamedTuple):
    """The prediction that a method finds more of the sources in the way `first` (of `WAYS`) than `second`."""

    words: str
    setting: str
    method: str
    first: str
    second: str


HOP_PREDICTIONS = (
    HopPrediction(
        "In walks, AttnLRP finds the sources better through hops, own token too, than directly",
        "walks",
        "AttnLRP",
        OWN,
        DIRECTLY,
    ),
    HopPrediction(
        "In walks, rollout finds them better through hops, own token too, than directly",
        "walks",
        "rollout",
        OWN,
        DIRECTLY,
    ),
    HopPrediction(
        "In walks, AttnLRP's hops find less without the token that predicts, which each step starts from",
        "walks",
        "AttnLRP",
        OWN,
        HOPS,
    ),
    HopPrediction(
        "In successor, AttnLRP finds the sources better through hops than directly: numbers are made of the "
        "number before",
        "successor",
        "AttnLRP",
        HOPS,
        DIRECTLY,
    ),
    HopPrediction(
        "In addition, AttnLRP finds them better directly than through hops, own token too: the two columns "
        "that most digits are made of stand in the prompt",
        "addition",
        "AttnLRP",
        DIRECTLY,
        OWN,
    ),
    HopPrediction(
        "In addition, rollout's hops find more without the token that predicts: the residual connection "
        "makes of that token most of what is passed on",
        "addition",
        "rollout",
        HOPS,
        OWN,
    ),
)
"""Written before the first run, and not changed since."""


def prediction_table(rows: pd.DataFrame, predictions: Sequence[Prediction] = PREDICTIONS) -> pd.DataFrame:
    """The result of each prediction, with its interval and verdict."""
    found: dict[Prediction, Estimate] = {}
    for metric in set(rows.loc[rows["value"].notna(), "metric"]):
        some = [each for each in predictions if each.metric == metric]
        pairs = [(each.first, each.second) for each in some]
        found |= zip(some, method_differences(rows, metric, pairs), strict=True)
    table = []
    for each in predictions:
        apart = found.get(each, Estimate(float("nan"), float("nan"), float("nan"), 0))
        table.append((each.words, verdict(apart.low, apart.high) if apart.n else "not asked", *apart))
    return pd.DataFrame(table, columns=["prediction", "came out", *Estimate._fields])


def recorded_outcomes(tables: Mapping[str, pd.DataFrame]) -> pd.Series:
    """The outcome of each prediction in a recorded run: "yes", "no", "not settled", or "not asked"."""
    found = {each.words: "not asked" for each in PREDICTIONS}
    for question, numbers in tables.items():
        of_it = [each for each in PREDICTIONS if each.metric == ANSWERED_BY[question]]
        for each in of_it:
            if {each.first, each.second} <= set(numbers["method"]):
                apart = ahead_of(numbers, each.first, each.second)
                found[each.words] = verdict(apart.low, apart.high)
    return pd.Series(found, dtype=object)


def hop_prediction_table(kept: pd.DataFrame) -> pd.DataFrame:
    """The result of each of `HOP_PREDICTIONS` over `n` models, in the columns of `prediction_table`."""
    table = list[tuple[Any, ...]]()
    for each in HOP_PREDICTIONS:
        for sign, pair in ((1, (each.first, each.second)), (-1, (each.second, each.first))):
            apart = one_number(kept, run=each.setting, metric=f"{difference_name(*pair)}: {each.method}")
            if apart is not None:
                low, high = sorted((sign * apart["low"], sign * apart["high"]))
                table.append((each.words, verdict(low, high), sign * apart["value"], low, high, apart["n"]))
    return pd.DataFrame(table, columns=["prediction", "came out", "value", "low", "high", "n"])
