"""What was expected of the chapter `where_attention_tells` before it was run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from attnlib.stats.intervals import Estimate
from book.chapters.tells.faithfulness import COMPREHENSIVENESS
from book.chapters.tells.measured import AVERAGE_PRECISION
from book.chapters.tells.method_tables import method_differences

PLAUSIBILITY, FAITHFULNESS = AVERAGE_PRECISION, COMPREHENSIVENESS
"""The metrics that the two questions are answered by, where there is room for one each."""

ANSWERED_BY = {"plausibility": PLAUSIBILITY, "faithfulness": FAITHFULNESS}
"""They by question."""


class Prediction(NamedTuple):
    """One measure has a higher number than another, the mean over settings.

    Attributes:
        words: the sentence as it was written.
        metric: which number.
        first: the measure that should have the higher one.
        second: the other.
    """

    words: str
    metric: str
    first: str
    second: str


PREDICTIONS = (
    Prediction(
        "Activation patching finds the sources better than blank-out",
        PLAUSIBILITY,
        "activation patching",
        "blank-out",
    ),
    Prediction(
        "AttnLRP finds them better than gradient x embedding", PLAUSIBILITY, "AttnLRP", "gradient x embedding"
    ),
    Prediction(
        "Mean attention finds them better than rollout, which is made of it",
        PLAUSIBILITY,
        "mean attention",
        "rollout",
    ),
    Prediction(
        "Rollout over null finds them better than rollout", PLAUSIBILITY, "rollout over null", "rollout"
    ),
    Prediction("ALTI finds them better than rollout", PLAUSIBILITY, "ALTI", "rollout"),
    Prediction(
        "Weighted by values, attention of the last layer finds them better than as it is",
        PLAUSIBILITY,
        "value-weighted attention",
        "raw attention, last layer",
    ),
    Prediction(
        "Attention of the last layer finds them better than taking the nearest first",
        PLAUSIBILITY,
        "raw attention, last layer",
        "nearest first",
    ),
    Prediction(
        "Rollout finds them better in a trained model than in an untrained one",
        PLAUSIBILITY,
        "rollout",
        "rollout, untrained",
    ),
    Prediction(
        "Blank-out is more faithful than AttnLRP: it does to the model what the test does",
        FAITHFULNESS,
        "blank-out",
        "AttnLRP",
    ),
    Prediction("AttnLRP is more faithful than ALTI", FAITHFULNESS, "AttnLRP", "ALTI"),
    Prediction(
        "Gradient x embedding is more faithful than attention of the last layer",
        FAITHFULNESS,
        "gradient x embedding",
        "raw attention, last layer",
    ),
)
"""Written before the first run, and not changed since."""


def prediction_table(rows: pd.DataFrame, predictions: Sequence[Prediction] = PREDICTIONS) -> pd.DataFrame:
    """What came out.

    Args:
        rows: of plausibility and faithfulness, with `seed`.
        predictions: what was expected.

    Returns:
        Columns `prediction`; `came out`: "yes" or "no" where the interval leaves 0 out, which it does once in
        twenty if there is no difference, else "not settled", or "not asked"; and the difference of normalised
        numbers, the mean over the `n` settings that have both measures, with its interval over settings:
        `value`, `low`, `high`.
    """
    found: dict[Prediction, Estimate] = {}
    for metric in set(rows.loc[rows["value"].notna(), "metric"]):
        some = [each for each in predictions if each.metric == metric]
        pairs = [(each.first, each.second) for each in some]
        found |= zip(some, method_differences(rows, metric, pairs), strict=True)
    nowhere = Estimate(float("nan"), float("nan"), float("nan"), 0)
    table = [
        (each.words, _verdict(found.get(each, nowhere)), *found.get(each, nowhere)) for each in predictions
    ]
    return pd.DataFrame(table, columns=["prediction", "came out", "value", "low", "high", "n"])


def _verdict(apart: Estimate) -> str:
    if not apart.n:
        return "not asked"
    return "yes" if apart.low > 0 else "no" if apart.high < 0 else "not settled"
