"""How often a model is right."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from torch import nn

from attnlib.generators.base import Batch
from attnlib.stats.intervals import proportion, ratio
from attnlib.training.objectives import score_samples


def accuracy_table(model: nn.Module, batches: Iterable[Batch]) -> pd.DataFrame:
    """Accuracy per token and exact match, with intervals.

    Returns:
        Rows `accuracy` (right tokens of all tokens asked for; the interval draws samples again, since the
        tokens of one sample stand or fall together) and `exact match` (samples right throughout; Wilson's
        interval); columns `value`, `low`, `high` and `n`, the number of samples.
    """
    right, asked = score_samples(model, batches).numpy().T
    right, asked = right[asked > 0], asked[asked > 0]
    rows = {
        "accuracy": ratio(right, asked),
        "exact match": proportion(int((right == asked).sum()), len(asked)),
    }
    return pd.DataFrame(rows.values(), index=pd.Index(rows, name="metric"))
