"""Tables of the chapter `where_attention_tells`: what was asked, and what is to be used when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from attnlib.chapters.where_attention_tells import Asked
from attnlib.measures.costs import FORWARD


def setting_table(asked: Sequence[Asked]) -> pd.DataFrame:
    """What was asked: a row per setting, with means over its questions and models."""
    rows = []
    for each in asked:
        q = each.questions
        row: dict[str, Any] = {"setting": each.setting, "questions": len(q)}
        row["out of distribution"] = int((~q.in_distribution).sum())
        row["right"] = q.right.double().mean().item()
        row["candidates"] = q.candidates.sum(1).double().mean().item()
        row["sources"] = q.truth.sum(1).double().mean().item()
        rows.append(row)
    groups = pd.DataFrame(rows).groupby("setting", sort=False)
    return groups.mean().assign(models=groups.size()).reset_index()


def missing_table(asked: Sequence[Asked]) -> pd.DataFrame:
    """What could not be given, and why: `methods`, `settings` and `reason`."""
    rows = [(each.setting, reason, method) for each in asked for method, reason in each.missing.items()]
    found = pd.DataFrame(rows, columns=["settings", "reason", "methods"]).drop_duplicates()
    by_method = found.groupby(["methods", "reason"], sort=False, as_index=False).agg("; ".join)
    together = by_method.groupby(["settings", "reason"], sort=False, as_index=False).agg("; ".join)
    return together[["methods", "settings", "reason"]]


TOLD = ("activation patching", "attribution patching")
"""Measures that are told where the sources are, if the prompt that they compare with is the same but for
these, and what follows from them: they never name what is the same in both."""

LIMITS = {
    "attention of one pass": 1.5,
    "one pass there and back": 4.0,
    "as many passes as it takes": float("inf"),
}
"""How many forward passes a measure may cost."""


def untold(ranking: pd.DataFrame, others: bool = False) -> pd.DataFrame:
    """A ranking without measures that some settings lack, and without those that are `TOLD`.

    Args:
        ranking: of `stats.method_ranking`.
        others: whether they compare with prompts of their own: then they are told nothing, and stay.
    """
    told = ranking["method"].isin(() if others else TOLD)
    return ranking[ranking["rank"].notna() & ~told].reset_index(drop=True)


def decision_table(
    rankings: Mapping[str, pd.DataFrame], costs: pd.DataFrame, others: bool = False
) -> pd.DataFrame:
    """The first of every ranking among the measures within each of `LIMITS`, with the number behind it.

    Args:
        rankings: of `stats.method_ranking`, by the question that they answer.
        costs: of `measures.costs.cost_table`.
        others: see `untold`.
    """
    passes = costs.loc[costs["method"] != FORWARD, ["method", "passes"]]
    rows = []
    for question, ranking in rankings.items():
        there = untold(ranking, others).merge(passes, on="method")
        for words, limit in LIMITS.items():
            within = there[there["passes"] <= limit].nlargest(1, "value")
            rows.append(within.assign(question=question, cost=words))
    columns = ["question", "cost", "method", "value", "low", "high", "passes"]
    return pd.concat(rows, ignore_index=True)[columns]


def recorded(tables: Mapping[str, pd.DataFrame], rankings: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What is kept of a run: normalised numbers by setting and measure, and their means over settings.

    Args:
        tables: of `stats.normalised`, by metric.
        rankings: of `stats.method_ranking`, by metric.
    """
    parts = [table.assign(run=table["setting"], of=metric) for metric, table in tables.items()]
    for metric, ranking in rankings.items():
        parts.append(ranking.assign(run="all settings", of=metric, n=ranking["settings"]))
    found = pd.concat(parts, ignore_index=True).dropna(subset=["value"])
    found["metric"] = found["of"] + ": " + found["method"]
    ranks = ["rank", "rank_low", "rank_high"]
    return found[["run", "metric", "value", "low", "high", "n", "mean", "chance", "seeds", *ranks]]


def widest(rows: pd.DataFrame) -> pd.DataFrame:
    """Of all records of the chapter, the one that asked the most models; empty if there is none.

    Args:
        rows: of `attnlib.records.records`.
    """
    if rows.empty:
        return pd.DataFrame(columns=["run", "metric", "value", "seeds"])
    return rows[rows["record"] == rows.groupby("record")["seeds"].sum().idxmax()]


def of_record(rows: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """What `recorded` was given: the numbers by setting and measure, and the rankings, by question.

    Args:
        rows: of `widest`.
    """
    if rows.empty:
        return {}, {}
    split = rows["metric"].str.split(": ", n=1, expand=True)
    rows = rows.assign(of=split[0], method=split[1])
    whole = rows["run"] == "all settings"
    tables = {name: part.rename(columns={"run": "setting"}) for name, part in rows[~whole].groupby("of")}
    rankings = {
        name: part.sort_values("value", ascending=False).assign(settings=part["n"].astype(int))
        for name, part in rows[whole].groupby("of")
    }
    order = [name for name in ("plausibility", "faithfulness") if name in tables]
    return {name: tables[name] for name in order}, {name: rankings[name] for name in order}
