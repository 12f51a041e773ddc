"""The claims of Snell et al. 2021 about classification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from book.chapters.classification.tables import (
    CHANCE,
    FIRST,
    PREDICTED,
    SINGLE_WORDS,
    WITH_ATTENTION,
    of_one_model,
    over_models,
    rises,
)
from book.chapters.findings.finding import (
    Answer,
    Claim,
    NotRunError,
    Outcome,
    each_of,
    number,
    one,
    percent,
    there,
)
from book.chapters.findings.rules import beside, every, within
from book.chapters.records import paper_figures

TABLE = "Approximating How Single Head Attention Learns Table 1"

MARGIN = 0.05
"""The largest distance from the authors' share at which ours still counts as equally large."""

SHARE = 0.9
"""The least fraction of the agreement with a second model's relevance that counts as "nearly as well"."""


def predicts_attention(units: str, learned: float = 0.0) -> Answer:
    """Return the rule that decides the claim for classification or for translation.

    Args:
        units: what the agreement counts, in words.
        learned: the least accuracy of a data set's models; data sets below it are left out.
    """

    def answer(rows: pd.DataFrame) -> Outcome:
        """The agreement of attention with the uniform model's relevance, over models, against chance."""
        rows = that_learned(rows, learned)
        cases = every(_against_chance(over_models(rows), PREDICTED), "chance")
        least = cases.least
        return Outcome(
            cases.verdict,
            f"Shown in {cases.shown} of {cases.n} data sets (chance {_range(over_models(rows), CHANCE)}). "
            f"Lowest, {least.task}",
            number(least, "models", least.chance, unit="%"),
            more=f"Over all sets it is so in {_range(over_models(rows), PREDICTED)} of the {units}.",
        )

    return answer


def is_as_large_as_published(task: str, table: str = TABLE) -> Answer:
    """Return the rule that decides the claim for a data set for which the authors report a number."""

    def answer(rows: pd.DataFrame) -> Outcome:
        """The agreement of attention with uniform relevance, over models, against the authors' number."""
        found, theirs = one(over_models(rows), task=task, metric=PREDICTED), published(task, PREDICTED, table)
        return Outcome(
            within(found, theirs, MARGIN),
            f"Agreement, where the authors report {100 * theirs:.0f} %",
            number(found, "models", theirs - MARGIN, unit="%"),
            beside(found, theirs),
            paper=f"{100 * theirs:.0f} %",
        )

    return answer


def predicts_nearly_as_well(rows: pd.DataFrame) -> Outcome:
    """Agreement with the uniform model's relevance, against `SHARE` of that with a second model's."""
    rows = of_one_model(rows)
    ours, ceiling = (
        there(rows[rows["metric"].eq(name)]).set_index("task") for name in (PREDICTED, WITH_ATTENTION)
    )
    both = ours.reset_index().merge(
        ceiling[["value", "low", "high"]].add_suffix("_ceiling").reset_index(), on="task"
    )
    cases = every(difference(both, "_ceiling", SHARE), seeds=False)
    least = cases.least
    return Outcome(
        cases.verdict,
        f"Shown in {cases.shown} of {cases.n} data sets. Agreement on the lowest, {least.task}, beside "
        f"{100 * least.other:.0f} %",
        number(one(ours.reset_index(), task=least.task), "documents", SHARE * least.other, unit="%"),
    )


def single_words_predict_relevance(units: str, learned: float = 0.0) -> Answer:
    """Return the rule that decides the claim; for the arguments see `predicts_attention`."""

    def answer(rows: pd.DataFrame) -> Outcome:
        """Agreement of single words' relevance with the uniform model's relevance, one model per data set."""
        rows = of_one_model(that_learned(rows, learned))
        cases = every(_against_chance(rows, SINGLE_WORDS), "chance", seeds=False)
        least = cases.least
        told = rows[rows["metric"].eq(SINGLE_WORDS)]
        compared = [
            f"{row.task} {percent(row)}, the authors {100 * theirs:.0f} %"
            for row in each_of(told)
            if (theirs := published(str(row.task), SINGLE_WORDS)) == theirs
        ]
        return Outcome(
            cases.verdict,
            f"Shown in {cases.shown} of {cases.n} data sets (chance {_range(rows, CHANCE)}). Lowest, "
            f"{least.task}",
            number(least, units, least.chance, unit="%"),
            more="; ".join([*compared, "Agreement by itself has no direction."]),
        )

    return answer


def relevance_comes_first(rows: pd.DataFrame) -> Outcome:
    """How much more the model's own relevance has risen since before training than its attention.

    Both are measured by their agreement with the uniform model's relevance. The interval treats the four
    shares as independent.
    """
    cases = every(there(rises(rows)), seeds=False)
    least = cases.least
    return Outcome(
        cases.verdict,
        f"Shown in {cases.shown} of {cases.n} data sets. Difference of rises, lowest on {least.task}",
        number(least, "documents", 0, unit="points", signed=True),
    )


def that_learned(rows: pd.DataFrame, least: float) -> pd.DataFrame:
    """Rows of data sets with a best accuracy of at least `least`; raises `NotRunError` if there are none."""
    right = rows[rows["metric"].eq("xi*") & rows["interval"].ne("seeds") & rows["measure"].eq("top match")]
    right = right[right["split"].eq("test") & right["checkpoints"].eq("held out")]
    if "accuracy" in right:
        right = right[right["accuracy"].eq("tokens")]
    tasks = right.loc[right["value"] >= least, "task"] if least else rows["task"]
    if not rows["task"].isin(tasks).any():
        raise NotRunError(f"No models get {100 * least:.0f} % right")
    return rows[rows["task"].isin(tasks)]


def published(task: str, metric: str, table: str = TABLE) -> float:
    """The share that the authors report for a task and metric; NaN where they report none."""
    figures = paper_figures().query("table == @table").set_index("task")["value"]
    return float(figures.get(f"{task}: {metric}", np.nan)) / 100


def difference(both: pd.DataFrame, other: str, times: float = 1.0) -> pd.DataFrame:
    """Each row's number minus `times` another number of the row, with an interval for independent estimates.

    Source:
        Zou and Donner 2008, *Construction of confidence limits about effect measures*.
    """
    value, low, high = (times * both[f"{name}{other}"] for name in ("value", "low", "high"))
    return both.assign(
        other=both[f"value{other}"],
        value=both["value"] - value,
        low=both["value"] - value - np.hypot(both["value"] - both["low"], high - value),
        high=both["value"] - value + np.hypot(both["high"] - both["value"], value - low),
    )


def _against_chance(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows of an agreement with its chance level, whose own interval is negligible."""
    chance = rows[rows["metric"].eq(CHANCE)].set_index("task")["value"]
    found = there(rows[rows["metric"].eq(metric)])
    return found.assign(chance=found["task"].map(chance))


def _range(rows: pd.DataFrame, metric: str) -> str:
    values: Any = 100 * rows.loc[rows["metric"].eq(metric), "value"]
    return f"{values.min():.0f} to {values.max():.0f} %"


PAPER, FIRSTS = "Paper vs ours", "Which is learned first?"
PREDICTS, SINGLE = "Does KTIW predict attention?", "Do single words suffice for KTIW?"

CLAIMS = tuple(
    Claim("snell2021approximating", name, words, "classification_dynamics", section, rule, answer)
    for name, words, section, rule, answer in (
        (
            "relevance, classification",
            "A classifier attends most to words that are relevant under uniform attention, more often than "
            "by chance.",
            PREDICTS,
            "In every data set, over models, the most attended word is among the 5 % most relevant more "
            "often than by chance.",
            predicts_attention("documents"),
        ),
        (
            "relevance, IMDB",
            "On IMDB reviews, relevance under uniform attention predicts attention as often as published.",
            PAPER,
            "The interval over models lies within 5 points of the authors' share.",
            is_as_large_as_published("IMDB"),
        ),
        (
            "relevance, uniform attention",
            "Relevance under uniform attention predicts attention nearly as well as relevance learned with "
            "attention.",
            PREDICTS,
            f"In every data set the first agrees with attention in more than {100 * SHARE:.0f} % of what "
            "the second does.",
            predicts_nearly_as_well,
        ),
        (
            "single words, classification",
            "In classification, the relevance of single words predicts relevance under uniform attention "
            "better than chance.",
            SINGLE,
            "In every data set, the most telling word is among the 5 % most relevant more often than by "
            "chance.",
            single_words_predict_relevance("documents"),
        ),
        (
            "what first, then where",
            "Early in training, relevance nears relevance under uniform attention faster than attention "
            "does, in every data set.",
            FIRSTS,
            "In one model of every set, agreement with the uniform model's relevance rises more by step "
            f"{FIRST}, since step 0.",
            relevance_comes_first,
        ),
    )
)
