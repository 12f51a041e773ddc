"""What the records of classification and translation say, of test samples that chose nothing.

Rows are those of `records`: an agreement `metric` of a `task`, with an interval over documents (or sentences)
of the first model, or over models that differ by their seed.
"""

from __future__ import annotations

import pandas as pd

PREDICTED, CHANCE = "A(alpha, beta_uf)", "A_hat"
"""Agreement of attention with the even model's relevance, and with attention that was shuffled."""

OF_ONE = ("documents", "sentences")
"""What is drawn again for intervals of one model."""

FIRST = 50
"""The checkpoint at which the two stages are compared; all data sets also have 10, 100, 150 and 200."""


def of_one_model(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the first model; a set that was trained again in bf16 counts once."""
    rows = _held_out(rows)
    return rows[rows["interval"].isin(OF_ONE)]


def over_models(rows: pd.DataFrame) -> pd.DataFrame:
    """The agreement `PREDICTED` with its interval over models, and `CHANCE`, of which there is one."""
    rows = _held_out(rows)
    of_models = rows["interval"].eq("seeds") & rows["metric"].eq(PREDICTED)
    return rows[of_models | (rows["interval"].isin(OF_ONE) & rows["metric"].eq(CHANCE))]


def which_comes_first(rows: pd.DataFrame, step: int = FIRST) -> pd.DataFrame:
    """Relevance beside attention of the first model, by their agreement with the even model's relevance.

    Args:
        rows: of `records`.
        step: the checkpoint at which the two are compared.

    Returns:
        A row per `record` and `task`: `value`, `low`, `high`, `n` of relevance, and the same of attention
        with `_attention` behind; `ahead`, whether the intervals do not touch, relevance the higher; `half`
        and `half_attention`, the first checkpoint at which each has half of its own rise (from step 0 to the
        end), which no difference in height between the two decides; `sooner`, if relevance has it first.
    """
    named = (rows := of_one_model(rows))["metric"].str.extract(r"^step (\d+): A\((alpha|beta)_t, beta_uf\)$")
    curves = rows.assign(step=named[0], of=named[1]).dropna(subset="step")
    curves = curves.astype({"step": int}).sort_values("step", ignore_index=True)
    each = ["record", "task"]
    values = curves.groupby(["of", *each])["value"]
    risen = curves["value"] >= (values.transform("first") + values.transform("last")) / 2
    halves = curves[risen].groupby(["of", *each])["step"].min().rename("half")
    at_step = curves[curves["step"] == step].join(halves, on=["of", *each])
    columns = [*each, "value", "low", "high", "n", "half"]
    relevance, attention = (at_step.loc[at_step["of"] == of, columns] for of in ("beta", "alpha"))
    both = relevance.merge(attention, on=each, suffixes=("", "_attention"))
    return both.assign(
        ahead=both["low"] > both["high_attention"], sooner=both["half"] < both["half_attention"]
    )


def _held_out(rows: pd.DataFrame) -> pd.DataFrame:
    if "accuracy" in rows:
        rows = rows[rows["accuracy"] == "tokens"]
    rows = rows.query("measure == 'top match' and split == 'test' and checkpoints == 'held out'")
    again = rows["setting"].str.contains("bf16") & rows.groupby("task")["record"].transform("nunique").gt(1)
    return rows[~again]
