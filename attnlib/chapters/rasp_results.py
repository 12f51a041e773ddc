"""What comes of the RASP languages: the rows of a record."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from torch import nn

from attnlib.chapters.rasp_languages import RaspLanguages
from attnlib.measures import sample_scores
from attnlib.models.compiled import Compiled
from attnlib.stats import summarise

RECORDED = ["run", "metric", "value", "low", "high", "n", "uniform"]


def program_rows(p: RaspLanguages, agreement: pd.DataFrame, replaced: pd.DataFrame) -> pd.DataFrame:
    """What was found by `RaspLanguages.matches`.

    Args:
        p: the chapter.
        agreement: the mean by `run` and `program of`.
        replaced: the accuracy by these and `attention`.
    """
    of = " of " + replaced["program of"] + " in its heads"
    put = "accuracy, " + replaced["attention"].replace("the program's", "attention") + of
    rows = [
        agreement.assign(metric="agreement with " + agreement["program of"]),
        replaced.assign(metric=put),
    ]
    return pd.concat(rows)[RECORDED].merge(p.run_table(), on="run")


def length_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """Accuracy per token of every model on unseen sequences of each range of lengths, up to `p.longest`.

    Returns:
        Columns `run`, `metric`, `value`, `low`, `high`, `n` (sequences), and `up_to`, the longest of a range.
    """
    languages = {run.language.name: run.language for run in p.runs()}
    tests = {name: p.tests_by_length(lang) for name, lang in languages.items()}
    found = [
        sample_scores(models[run.name], batches).assign(run=run.name, low=low, up_to=high)
        for run in p.runs()
        for (low, high), batches in tests[run.language.name].items()
    ]
    rows = pd.concat(found)
    rows["metric"] = "accuracy, length " + rows.pop("low").astype(str) + " to " + rows["up_to"].astype(str)
    return summarise(rows, ["run", "metric", "up_to"], "right", whole="asked")


def exact_rows(exact: Sequence[Compiled], built: pd.DataFrame, sources: pd.DataFrame) -> pd.DataFrame:
    """What was found of compiled models.

    Args:
        exact: the models.
        built: the rows of `measures.known_sources.exactness`.
        sources: the mean of `sources_found` by `run`, `among` and `method`, with `chance`.
    """
    right = summarise(built, ["run"], "right", whole="asked").assign(metric="accuracy, compiled")
    apart = built.groupby("run", sort=False)["apart"].max()
    largest = right.assign(
        metric="largest difference of attention", **dict.fromkeys(["low", "high"], float("nan"))
    )
    largest["value"] = largest["run"].map(apart)
    found = sources.assign(metric="source found, " + sources["method"] + ", " + sources["among"])
    rows = pd.concat([right, largest, found.rename(columns={"chance": "uniform"})])
    settings = {
        each.run: f"compiled, BOS, {len(each.language.alphabet)} symbols, length up to {each.longest}"
        for each in exact
    }
    task = rows["run"].str.removesuffix(", compiled")
    return rows[RECORDED].assign(task=task, supervised=False, seed=0, setting=rows["run"].map(settings))
