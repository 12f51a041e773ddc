"""What was expected of the chapter `attribution_benchmark` before it was run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from attnlib.stats.intervals import Estimate
from book.chapters.attribution_benchmark.faithfulness import COMPREHENSIVENESS
from book.chapters.attribution_benchmark.measured import AVERAGE_PRECISION
from book.chapters.attribution_benchmark.method_tables import method_differences

PLAUSIBILITY, FAITHFULNESS = AVERAGE_PRECISION, COMPREHENSIVENESS
"""The metrics that the two questions are answered by, where there is room for one each."""

ANSWERED_BY = {"plausibility": PLAUSIBILITY, "faithfulness": FAITHFULNESS}
"""They by question."""


class Prediction(NamedTuple):
    """The prediction that the measure `first` has a higher `metric` than `second`, as a mean of settings."""

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


DIRECTLY, HOPS, OWN = "directly", "through hops", "through hops, own token too"
"""How a measure is asked for the sources of an answer that is built step by step: see `tells.hops`."""


class HopPrediction(NamedTuple):
    """The prediction that a measure finds more of the sources, asked in the way `first`, than in `second`."""

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


def verdict(low: float, high: float) -> str:
    """What became of a prediction that a difference is above 0: "yes", "no", or "not settled"."""
    return "yes" if low > 0 else "no" if high < 0 else "not settled"
