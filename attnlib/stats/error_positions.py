"""Accuracy of answers, and the positions of errors in the answer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from attnlib.checks import check
from attnlib.stats.summaries import check_columns, check_groups, summarise, truths


def answer_accuracy(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Accuracy per token and exact match, with intervals.

    Args:
        rows: of `sample_scores`, a row per sample; or, a row per token, of `evaluate_rows` (every token
            predicted from the right ones before it) or `generate_answers` (from the model's own).
        by: columns to split by; combinations of values without rows are shown as "not enough data".

    Returns:
        Columns `by`, `metric` ("accuracy", with a bootstrap interval over samples, and "exact match", with
        Wilson's interval), `value`, `low`, `high` and `n`, the number of samples with at least one target.
    """
    if "asked" not in rows:
        _check_once(rows, by)
        tokens = rows.assign(right=truths(rows, "correct"), asked=1)
        keys = [*by, "sample"]
        rows = tokens.groupby(keys, sort=False, observed=True)[["right", "asked"]].sum().reset_index()
    samples = rows[rows["asked"] > 0].assign(exact=lambda each: each["right"] == each["asked"])
    accuracy = summarise(samples, by, "right", whole="asked", every=True).assign(metric="accuracy")
    exact = summarise(samples, by, "exact", every=True).assign(metric="exact match")
    table = pd.concat([accuracy, exact]).sort_index(kind="stable").reset_index(drop=True)
    return table[[*by, "metric", "value", "low", "high", "n"]]


def error_positions(rows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Accuracy and number of errors at each position of the answer.

    Args:
        rows: of `evaluate_rows` or `generate_answers`.
        confidence: confidence level of the intervals. They are Wilson's, since tokens at one position are of
            different samples, and so independent.

    Returns:
        One row per position: `position`, `value`, `low`, `high`, `n` (answers that long), `errors`, and
        `first_errors`, the answers whose first error is here. Without rows, the table is empty.
    """
    _check_once(rows)
    rows = rows.reset_index(drop=True)  # concatenated tables may have index values twice
    correct = truths(rows, "correct")
    first = rows.index.isin(rows[~correct].groupby("sample")["position"].idxmin())
    placed = rows[["position"]].assign(correct=correct).sort_values("position", kind="stable")
    counts = pd.DataFrame({"errors": ~correct, "first_errors": first}).groupby(rows["position"]).sum()
    table = summarise(placed, ["position"], "correct", confidence=confidence)
    return table.merge(counts.astype(int), left_on="position", right_index=True)


def _check_once(rows: pd.DataFrame, by: Sequence[str] = ()) -> None:
    check_columns(rows, by, "sample", "position", "correct")
    check_groups(rows, *by, "sample", "position")
    twice = int(rows.duplicated([*by, "sample", "position"]).sum())
    check(not twice, f"each ({', '.join([*by, 'sample', 'position'])}) must occur once", twice)
