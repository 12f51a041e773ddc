"""Where in the answer a model errs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from attnlib.stats.intervals import Estimate, proportion, ratio
from attnlib.stats.masses import group_rows
from attnlib.stats.significance import NOT_ENOUGH


def answer_accuracy(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Accuracy per token and exact match, with intervals.

    Args:
        rows: of `evaluate_rows` (every token predicted from the right ones before it) or `generate_answers`
            (from the model's own).
        by: columns to split by; their combinations without rows are shown as not enough data.

    Returns:
        Columns `by`, `metric` ("accuracy", whose interval draws samples again, and "exact match", with
        Wilson's interval), `value`, `low`, `high` and `n`, the number of samples.

    Raises:
        ValueError: a column of `by` is missing.
    """
    table = []
    for names, group in group_rows(rows, by):
        per_sample = group.groupby("sample")["correct"].agg(["sum", "size"]).to_numpy(float)
        right, asked = per_sample.T
        found: dict[str, Estimate | None] = {"accuracy": None, "exact match": None}
        if len(per_sample):
            found = {
                "accuracy": ratio(right, asked),
                "exact match": proportion(int((right == asked).sum()), len(asked)),
            }
        for metric, estimate in found.items():
            numbers = {"value": NOT_ENOUGH, "low": NOT_ENOUGH, "high": NOT_ENOUGH, "n": 0}
            table.append(names | {"metric": metric} | (estimate._asdict() if estimate else numbers))
    return pd.DataFrame(table, columns=[*by, "metric", "value", "low", "high", "n"])


def error_positions(rows: pd.DataFrame, *, from_end: bool = False, confidence: float = 0.95) -> pd.DataFrame:
    """Accuracy at each place of the answer, and where errors are.

    Args:
        rows: of `evaluate_rows` or `generate_answers`.
        from_end: count places from the answer's last token, which is 0.
        confidence: of the intervals, which are Wilson's: at one place every sample has one token, so these
            are independent.

    Returns:
        One row per place: `position`, `value`, `low`, `high`, `n` (answers that long), `errors`, and
        `first_errors`, answers whose first wrong token this is. Without rows, the table is empty.
    """
    place = rows["n_answer"] - 1 - rows["position"] if from_end else rows["position"]
    wrong = rows[~rows["correct"].astype(bool)]
    first = wrong.loc[wrong.groupby("sample")["position"].idxmin()] if len(wrong) else wrong
    counted = rows.groupby(place)["correct"].agg(["sum", "size"]).astype(int)
    right, n = counted["sum"].to_numpy(), counted["size"].to_numpy()
    low, high = proportion_confint(right, n, alpha=1 - confidence, method="wilson")
    places = counted.index
    return pd.DataFrame(
        {
            "position": places.to_numpy(int),
            "value": right / n,
            "low": low,
            "high": high,
            "n": n,
            "errors": n - right,
            "first_errors": place[first.index].value_counts().reindex(places, fill_value=0).to_numpy(int),
        }
    )


def error_summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Where errors are in the mean, with bootstrap intervals over samples.

    Returns:
        Rows `mean error position` (of all wrong tokens, counted from 0), `mean relative error position` (0 is
        the answer's first token, 1 its last) and `mean first error position` (of samples with an error);
        columns `value`, `low`, `high` and `n`, the samples with an error. Without at least 2 such samples,
        they show that there is not enough data.
    """
    wrong = rows[~rows["correct"].astype(bool)]
    relative: pd.Series = wrong["position"] / np.maximum(wrong["n_answer"] - 1, 1)
    by_sample = wrong.assign(relative=relative).groupby("sample")
    errors = by_sample.size().to_numpy(float)
    parts = {
        "mean error position": (by_sample["position"].sum(), errors),
        "mean relative error position": (by_sample["relative"].sum(), errors),
        "mean first error position": (by_sample["position"].min(), np.ones(len(errors))),
    }
    too_few = {"value": NOT_ENOUGH, "low": NOT_ENOUGH, "high": NOT_ENOUGH, "n": len(errors)}
    table = [
        ratio(part.to_numpy(float), whole)._asdict() if len(errors) > 1 else too_few
        for part, whole in parts.values()
    ]
    return pd.DataFrame(table, index=pd.Index(parts, name="metric"))
