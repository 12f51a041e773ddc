"""What comes of the RASP languages: the rows of a record."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from torch import nn

from attnlib.generators.rasp import language
from attnlib.measures import sample_scores
from attnlib.models.compiled import PROGRAMS, Compiled, compiled
from attnlib.stats import answer_accuracy, summarise
from book.chapters.rasp.known_sources import sources_found
from book.chapters.rasp.rasp_languages import RaspLanguages
from book.chapters.rasp.target_mass import target_masses

KINDS_OF_MATCH = ["run", "program of", "heads"]
"""What tells a model beside a program from another."""

RECORDED = ["run", "metric", "value", "low", "high", "n", "uniform"]


def accuracy_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """Accuracy per token and exact match of every model, on unseen sequences."""
    scores = [sample_scores(models[run.name], p.tests(run.language)).assign(run=run.name) for run in p.runs()]
    return answer_accuracy(pd.concat(scores), ["run"])


def mass_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> pd.DataFrame:
    """The share of each head's attention where the program looks, of the chapter's own language."""
    lang = p.lang()
    test = p.tests(lang, target_attention=True)
    mass = [target_masses(models[run.name], test).assign(run=run.name) for run in p.of_full_size(lang)]
    return summarise(pd.concat(mass), ["run", "metric"], beside=["uniform"])


def match_rows(p: RaspLanguages, models: dict[str, nn.Module]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`RaspLanguages.matches`, by `KINDS_OF_MATCH`: agreement, and accuracy with another attention there."""
    agreement, replaced = p.matches(models)
    return (
        summarise(agreement, KINDS_OF_MATCH, "agreement", unit="sample", beside=["uniform"]),
        summarise(replaced, [*KINDS_OF_MATCH, "attention"], "right", whole="asked"),
    )


def exact_models() -> list[Compiled]:
    """The compiled programs that are recorded."""
    return [compiled(language(name, alphabet_size=10, bos=True), length=12) for name in PROGRAMS]


def found_rows(exact: Sequence[Compiled]) -> pd.DataFrame:
    """How often each method's largest score is on a source, by compiled model and kind of candidates."""
    by = ["run", "among", "method"]
    return summarise(sources_found(exact), by, "found", unit="sample", beside=["chance"])


def all_rows(
    p: RaspLanguages, of_models: Sequence[pd.DataFrame], of_programs: pd.DataFrame, of_exact: pd.DataFrame
) -> pd.DataFrame:
    """The rows of a record.

    Args:
        p: the chapter.
        of_models: `accuracy_rows`, `mass_rows` and `length_rows`.
        of_programs: `program_rows`.
        of_exact: `exact_rows`.
    """
    return pd.concat([pd.concat(of_models).merge(p.run_table(), on="run"), of_programs, of_exact])


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
