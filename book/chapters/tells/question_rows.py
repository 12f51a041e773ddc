"""Rows of numbers about questions, measure by measure: what plausibility and faithfulness have in common."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float

from book.chapters.tells.questions import ID, OOD, Questions

COLUMNS = ("setting", "split", "right", "item", "method", "metric", "value", "chance", "perfect")


def row_table(
    questions: Questions,
    method: str,
    metric: str,
    value: Float[np.ndarray, " item"],
    chance: Float[np.ndarray, " item"] | float,
    perfect: Float[np.ndarray, " item"] | float,
) -> pd.DataFrame:
    """A row per question, of one measure and one metric.

    Args:
        questions: which `setting`, `split` (`ID` or `OOD`) and `right` are of.
        method: the measure.
        metric: what the numbers are.
        value: of every question.
        chance: what a ranking that knows nothing gets.
        perfect: what the best gets.
    """
    split = np.where(questions.in_distribution.cpu().numpy(), ID, OOD)
    right = questions.right.cpu().numpy()
    columns = (
        questions.setting,
        split,
        right,
        np.arange(len(questions)),
        method,
        metric,
        value,
        chance,
        perfect,
    )
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
