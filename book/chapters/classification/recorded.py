"""What the records of classification and translation say, of test samples that chose nothing.

Rows are those of `records`: an agreement `metric` of a `task`, with an interval over documents (or sentences)
of the first model, or over models that differ by their seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from attnlib.stats import pooled
from book.chapters.records import made_alike

PREDICTED, CHANCE = "A(alpha, beta_uf)", "A_hat"
"""Agreement of attention with relevance under uniform attention, and the chance level."""

OF_ONE = ("documents", "sentences")
"""What is drawn again for intervals of one model."""

FIRST = 50
"""The checkpoint at which the two stages are compared; all data sets also have 10, 100, 150 and 200."""


MAY_DIFFER = ("seeds", "device", "uniform_seed")
"""Parameters in which runs may differ whose models are of one kind."""


def of_one_model(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the first model; a set that was trained again, in bf16 or with further seeds, counts once."""
    rows = _held_out(rows)
    rows = rows[rows["interval"].isin(OF_ONE)]
    return rows[rows["record"].eq(rows.groupby("task")["record"].transform("first"))]


def over_models(rows: pd.DataFrame) -> pd.DataFrame:
    """The agreement `PREDICTED` over models, records that differ in their seeds pooled, and `CHANCE`."""
    rows = _held_out(rows)
    of_models = rows[rows["interval"].eq("seeds") & rows["metric"].eq(PREDICTED)]
    if of_models["task"].duplicated().any():
        kinds = made_alike(of_models["record"], MAY_DIFFER)
        first = of_models.drop_duplicates("task").set_index("task")
        same = of_models["record"].map(kinds).eq(of_models["task"].map(first["record"].map(kinds)))
        found = pooled(of_models[same], ["task"]).set_index("task").combine_first(first)
        of_models = found.reset_index()[of_models.columns]
    chance = of_one_model(rows)
    return pd.concat([of_models, chance[chance["metric"].eq(CHANCE)]])


def at_one_step(rows: pd.DataFrame, step: int = FIRST) -> pd.DataFrame:
    """Relevance and attention of the first model, by their agreement with the uniform model's relevance."""
    rows, columns = of_one_model(rows), ["record", "task", "value", "low", "high", "n"]
    relevance, attention = (
        rows.loc[rows["metric"].eq(f"step {step}: A({score}_t, beta_uf)"), columns]
        for score in ("beta", "alpha")
    )
    return relevance.merge(attention, on=["record", "task"], suffixes=("", "_attention"))


def rises(rows: pd.DataFrame, step: int = FIRST) -> pd.DataFrame:
    """How much more relevance has risen by a step than attention."""
    key, names = ["record", "task"], ("value", "low", "high")
    now, before = (at_one_step(rows, at).set_index(key) for at in (step, 0))
    if now.empty or before.empty:
        return pd.DataFrame(columns=[*key, *names, "n"])
    parts = [(now, "", 1), (now, "_attention", -1), (before, "", -1), (before, "_attention", 1)]
    value = sum(sign * table[f"value{of}"] for table, of, sign in parts)
    reach: dict[str, Any] = {"low": 0.0, "high": 0.0}
    for table, of, sign in parts:
        middle = table[f"value{of}"]
        below, above = middle - table[f"low{of}"], table[f"high{of}"] - middle
        reach["low"] += (below if sign > 0 else above) ** 2
        reach["high"] += (above if sign > 0 else below) ** 2
    found = pd.DataFrame(
        {"value": value, "low": value - np.sqrt(reach["low"]), "high": value + np.sqrt(reach["high"])}
    )
    return found.assign(n=now["n"]).dropna().reset_index()


def sets_clause(shown: int, of: int, what: str = "data sets") -> str:
    """On how many data sets something is shown: "all 8 data sets", "4 of 8 data sets"."""
    return f"all {of} {what}" if shown == of else f"{shown or 'none'} of {of} {what}"


def paper_clause(ours: Any, theirs: float) -> str:
    """How a recorded number compares with the paper's, by its interval."""
    if ours is None:
        return "not run"
    if ours["low"] <= theirs <= ours["high"]:
        return "not significantly different from"
    return "significantly lower than" if ours["high"] < theirs else "significantly higher than"


def _held_out(rows: pd.DataFrame) -> pd.DataFrame:
    if "accuracy" in rows:
        rows = rows[rows["accuracy"] == "tokens"]
    rows = rows.query("measure == 'top match' and split == 'test' and checkpoints == 'held out'")
    again = rows["setting"].str.contains("bf16") & rows.groupby("task")["record"].transform("nunique").gt(1)
    return rows[~again]
