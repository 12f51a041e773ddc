"""Tables over every recorded model of the algorithmic tasks, and numbers over the seeds of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from attnlib.stats import Estimate, table_over_seeds
from book.chapters.reasoning.rank_correlation import rank_correlation

ACCURACY = "teacher-forced accuracy"
MASS = "rollout"


def over_seeds(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """`table_over_seeds` of shares; of a single seed, its own numbers and intervals over texts.

    Args:
        rows: columns `by`, `seed`, `value`, `low`, `high`, `n`; groups without enough data are left out.
        by: what tells numbers apart, but for the seed.

    Returns:
        Columns `by`, `value`, `low`, `high`, `n` and `of`: what there are n of, "seeds" or "texts".
    """
    numbers = {name: pd.to_numeric(rows[name], errors="coerce") for name in ("value", "low", "high")}
    rows = rows.assign(**numbers).dropna(subset=["value"])
    of = "seeds" if rows["seed"].nunique() > 1 else "texts"
    return table_over_seeds(rows, by, share=True, of_one=True).assign(of=of)


def recorded(table: pd.DataFrame, form: str, *more: str) -> pd.DataFrame:
    """Rows of a table as they are recorded: those that have a number.

    Args:
        table: columns `run`, `value`, `low`, `high`, `n`.
        form: the metric's name, in which columns stand in braces.
        more: further columns of numbers to keep.
    """
    named = table.assign(metric=[form.format_map(row) for row in table.to_dict("records")])
    named = named[pd.to_numeric(named["value"], errors="coerce").notna()]
    numbers = {"value": float, "low": float, "high": float, "n": int} | dict.fromkeys(more, float)
    return named[["run", "metric", *numbers]].astype(numbers)


def extrapolation(rows: pd.DataFrame) -> pd.DataFrame:
    """What every recorded model looks at, and how well it does, out of distribution: a row per model.

    Args:
        rows: `records("algorithmic_reasoning")`; models whose record has no mass over all rows of a split (of
            older records) are left out.

    Returns:
        Columns `record`, `run`, `task`, `model`, `seed`, `accuracy` (per token, OOD), `mass` (rollout on the
        reference, OOD), `above uniform` (less what even attention would score) and `mass ID`.
    """
    about = ["record", "run", "task", "model", "seed"]
    names = {"accuracy": f"{ACCURACY} OOD", "mass": f"{MASS}, OOD", "mass ID": f"{MASS}, ID"}
    if any(name not in rows for name in (*about, "metric", "uniform")):
        return pd.DataFrame(columns=[*about, *names, "above uniform"])
    even = rows.loc[rows["metric"] == names["mass"], [*about, "uniform"]]
    table = even.rename(columns={"uniform": "above uniform"})
    for name, metric in names.items():
        found = rows.loc[rows["metric"] == metric, [*about, "value"]]
        table = table.merge(found.rename(columns={"value": name}), on=about)
    table["above uniform"] = table["mass"] - table["above uniform"]
    # The page's run is the first of several seeds, too: a model that is in two records counts once.
    return table.drop_duplicates(["task", "model", "seed", *names], ignore_index=True)


def correlations(models: pd.DataFrame) -> pd.DataFrame:
    """Does attention on the reference go with accuracy out of distribution, across models?

    Args:
        models: `extrapolation`.

    Returns:
        Spearman's correlation with accuracy, of each way to measure attention: over `all models` (masses of
        different tasks are hardly comparable), `within tasks`, and of each task alone. Columns `attention`,
        `over`, `value`, `low`, `high`, `n` (models).
    """
    found = list[dict[str, Any]]()
    for name in ("mass", "above uniform", "mass ID"):
        estimates: dict[str, Estimate] = {
            "all models": rank_correlation(models[name], models["accuracy"]),
            "within tasks": rank_correlation(models[name], models["accuracy"], models["task"].tolist()),
        }
        for task, part in models.groupby("task", sort=False):
            estimates[str(task)] = rank_correlation(part[name], part["accuracy"])
        found += [{"attention": name, "over": over} | each._asdict() for over, each in estimates.items()]
    return pd.DataFrame(found, columns=["attention", "over", "value", "low", "high", "n"])
