"""Numbers and clauses that the sentences of the page quote.

Recorded numbers are of the first classifier of a data set, unless their name says `models`: those are means
over several classifiers.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from attnlib.stats.agreement_runs import UNIFORM
from book.chapters.classification.claims import SHARE, TABLE, published
from book.chapters.classification.tables import (
    CHANCE,
    FIRST,
    PREDICTED,
    SINGLE_WORDS,
    WITH_ATTENTION,
    ClassificationResults,
    agreement_over_steps,
    of_one_model,
    over_models,
    rises,
)
from book.chapters.records import one_number, paper_figures
from book.chapters.telling import side_clause, tell, tell_in_words
from book.chapters.this_run import if_learned

NEARLY_UNIFORM = 0.98
"""Attention with a larger spread than this counts as nearly uniform."""

BY_CHANCE = 0.5
"""The accuracy of a guess between two classes."""


def tell_recorded(rows: pd.DataFrame) -> None:
    """Tell all numbers of the runs that came with the book."""
    first = of_one_model(rows)
    tell_agreements(first)
    tell_predicted(first, over_models(rows))
    tell_first(rises(rows))
    tell_keywords(first)
    tell_as_published(rows)
    tell_checkpoints(first)
    tell_exercises(first)


def tell_agreements(first: pd.DataFrame) -> None:
    """Tell the agreements on IMDB and AG News, and the numbers of the box that opens the page."""
    keyword = one_number(first, task="planted", metric="largest alpha on keyword for the label")
    by_chance = one_number(first, task="IMDB", metric=CHANCE)
    predicted = one_number(first, task="IMDB", metric=PREDICTED)
    tell_in_words({"IMDB": predicted, "chance IMDB": by_chance, "keyword": keyword}, "minute {}", "%")
    of_imdb = first[first["task"].eq("IMDB")]
    tell_in_words(of_imdb[of_imdb["metric"].isin(["xi(alpha, beta_uf)", "xi*"])], "IMDB {metric}", "%")
    quoted = [PREDICTED, WITH_ATTENTION, SINGLE_WORDS, "A(delta, beta_uf)", "xi*"]
    quoted += [f"step {FIRST}: A({score}, beta_uf)" for score in ("alpha_t", "beta_t")]
    told = first[first["task"].isin(["IMDB", "AG News"]) & first["metric"].isin(quoted)]
    told = told.assign(called=told["metric"].str.replace(":", ","))
    tell_in_words(told, "told {task}, held out, {called}", "%")


def tell_predicted(first: pd.DataFrame, models: pd.DataFrame) -> None:
    """Tell how well KTIW predicts attention, beside chance, a second classifier, and the paper's numbers."""
    chance, predicted = by_task(models, CHANCE)["value"], by_task(models, PREDICTED)
    single = by_task(first, SINGLE_WORDS)
    reached = by_task(first, PREDICTED)["value"] / by_task(first, WITH_ATTENTION)["value"]
    below = reached.sort_index() < SHARE
    told = {
        "above chance": sets_clause(predicted["low"] > chance[predicted.index]),
        "single above chance": sets_clause(single["low"] > chance[single.index]),
        "least": predicted["value"].idxmin(),
        "most": predicted["value"].idxmax(),
        "below nine tenths": sets_clause(below),
        "below nine tenths, names": ", ".join(below.index[below]) or "no data set",
    }
    tell(told, "predicted: {}")
    tell_in_words({"models IMDB": predicted.loc["IMDB"]}, unit="%")
    against = {
        task: paper_clause(predicted.loc[task], published(task, PREDICTED)) for task in ("IMDB", "Amazon")
    }
    tell(against, "against theirs {}")
    figures = paper_figures()
    tell(figures[figures["table"].eq(TABLE)], "theirs {task}")


def tell_first(risen: pd.DataFrame) -> None:
    """Tell on which data sets relevance has risen more than attention."""
    shown = risen["low"] > 0
    told = {"how many": sets_clause(shown), "names": ", ".join(risen.loc[shown, "task"]) or "none"}
    tell(told, "first: {}")


def tell_keywords(first: pd.DataFrame) -> None:
    """Tell in how many synthetic documents the largest score is on a keyword for the label."""
    scores = {
        "any token": "any token",
        "delta": "delta",
        "uniform": "beta_uf, as chosen for alpha",
        "uniform, last": "beta_uf, last step",
        "single": "beta, embedding",
    }
    metrics = {name: f"largest {score} on keyword for the label" for name, score in scores.items()}
    found = {name: one_number(first, task="planted", metric=metric) for name, metric in metrics.items()}
    tell_in_words(found, "planted keyword, {}", "%")


def tell_as_published(rows: pd.DataFrame) -> None:
    """Tell the agreements on IMDB as the released code computes them."""
    rows = rows.query("measure == 'top match' and split == 'test' and interval == 'documents'")
    rows = rows.query("checkpoints == 'as published' and task == 'IMDB'")
    pairs = ("alpha, beta_uf", "delta, beta_uf")
    tell_in_words({pair: one_number(rows, metric=f"A({pair})") for pair in pairs}, "as published, {}", "%")


def tell_checkpoints(first: pd.DataFrame) -> None:
    """Tell by which step every agreement is highest, and the highest and the last one on IMDB."""
    curve = agreement_over_steps(first)
    highest = curve.loc[curve.groupby("task")["value"].idxmax()]
    last = curve.loc[curve.groupby("task")["step"].idxmax()]
    tell({"highest by": highest["step"].max()})
    for name, found in {"highest": highest, "last": last}.items():
        tell(found[found["task"].eq("IMDB")], name + ": {task}", "%")


def tell_exercises(first: pd.DataFrame) -> None:
    """Tell what the solutions of the exercises quote."""
    quoted = [WITH_ATTENTION, "A(beta_uf, beta_px)", "A(beta_uf, beta_logistic)"]
    for name, task in {"imdb": "IMDB", "sms": "SMS Spam"}.items():
        of_set = first[first["task"].eq(task)]
        tell_in_words(of_set[of_set["metric"].isin(quoted)], f"exercise {name}, {{metric}}", "%")
        tell_in_words(of_set[of_set["metric"].eq(CHANCE)], f"exercise {name}, {{metric}}", "%", 1)


def tell_this_run(found: ClassificationResults) -> None:
    """Tell the accuracies of this run, and how far relevance and attention agree with KTIW early on."""
    right = {name: found.here[run].accuracy for name, run in {"uniform": UNIFORM, "gold": found.gold}.items()}
    last = {name: each[-1] for name, each in right.items() if each is not None}
    tell(last, "{} accuracy")
    tell({"two stages": if_learned(last["gold"], BY_CHANCE, early_clause(found.stages))})


def early_clause(stages: pd.DataFrame) -> str:
    """Give both agreements at the last step at which attention is nearly uniform."""
    by_step = stages.pivot(index="step", columns="metric", values="value")
    early = by_step[by_step["spread of alpha_t"] > NEARLY_UNIFORM].iloc[-1]
    return (
        f"attention is still nearly uniform at step {early.name}, where relevance agrees with KTIW in "
        f"{100 * early['A(beta_t, beta_uf)']:.0f} % of the documents and attention in "
        f"{100 * early['A(alpha_t, beta_uf)']:.0f} %"
    )


def by_task(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Take the numbers of one metric, a row per task."""
    return rows[rows["metric"].eq(metric)].set_index("task")


def sets_clause(shown: pd.Series, what: str = "data sets") -> str:
    """Say on how many data sets something is shown: "all 8 data sets", "4 of 8 data sets"."""
    count, of = int(shown.sum()), len(shown)
    return f"all {of} {what}" if count == of else f"{count or 'none'} of {of} {what}"


def paper_clause(ours: Any, theirs: float) -> str:
    """Say how a recorded number compares with the paper's, by its interval."""
    words = ("significantly lower than", "not significantly different from", "significantly higher than")
    return side_clause(ours, *words, bound=theirs)
