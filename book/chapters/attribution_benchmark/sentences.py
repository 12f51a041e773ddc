"""Numbers that the sentences of the page quote: recorded ones, and the outcome of this run's predictions."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from book.chapters.attribution_benchmark.claims import (
    PREDICTIONS,
    hop_prediction_table,
    recorded_outcomes,
)
from book.chapters.attribution_benchmark.measures import BUILT, DIRECTLY, OWN
from book.chapters.attribution_benchmark.settings import SETTINGS
from book.chapters.attribution_benchmark.tables import (
    RAW,
    ahead_of,
    by_way,
    difference_name,
    first_elsewhere,
    over_settings,
    right_answers,
    told_or_not,
    widest,
)
from book.chapters.display import display_name, significance, standing, tally_clause
from book.chapters.faithfulness_metrics.tables import CHOSEN, Kept, beside_the_first
from book.chapters.records import came_with_the_book, one_number
from book.chapters.telling import tell, tell_in_words

CHAPTER = "attribution_benchmark"

IN_EXERCISES = {
    "successor": {
        "plausibility": ("nearest first", "rollout over null"),
        "faithfulness": ("nearest first", "AttnLRP"),
    },
    "string reversal": {"plausibility": (RAW, "AttnLRP")},
    "string reversal, supervised": {"plausibility": (RAW, "AttnLRP")},
    "hist, compiled": {
        "plausibility": (RAW, "value-weighted attention"),
        "faithfulness": (RAW, "value-weighted attention"),
    },
}
"""The methods that solutions quote, by setting and question."""


def tell_recorded(rows: pd.DataFrame, numbers: Mapping[str, pd.DataFrame]) -> None:
    """All recorded numbers but those of the oracle metric.

    Args:
        rows: the rows of all runs that came with the book.
        numbers: the numbers of the largest run by setting and method, for each question.
    """
    tell_recurrent()
    tell_tasks(numbers["plausibility"])
    right = right_answers(widest(rows))
    tell_methods({**numbers, "right": right} if len(right) else numbers)
    tell_outcomes(numbers)
    tell_hops(rows)
    tell_exercises()


def tell_recurrent() -> None:
    """The plausibility of attention in recurrent models."""
    rows = _of_three_models()
    runs = ("documents", "translation")
    found = {run: one_number(rows, run=run, metric=f"plausibility: {RAW}") for run in runs}
    tell_in_words(found, "attention, {}")


def tell_tasks(plausibility: pd.DataFrame) -> None:
    """How many settings and tasks there are, and two methods if each task counts once."""
    compared = [name for name, setting in SETTINGS.items() if setting.transformer]
    rows = plausibility[plausibility["setting"].isin(compared)]
    tasks = rows["setting"].str.split(", ").str[0]
    tell({"asked in settings": rows["setting"].nunique(), "asked in tasks": tasks.nunique()})
    by_task = rows.assign(setting=tasks).groupby(["setting", "method"], sort=False)["value"].mean()
    means = _means(by_task.reset_index())
    tell_in_words({name: one_number(means, method=name) for name in ("rollout", "AttnLRP")}, "by task: {}")


def tell_methods(numbers: Mapping[str, pd.DataFrame]) -> None:
    """Rollout and the best method by every question, and how they compare."""
    for question, rows in numbers.items():
        pointed, free = told_or_not(rows)
        _tell_means(free, f"free {question}")
        leads = {
            "best elsewhere": first_elsewhere(free, "rollout")._asdict(),
            "over raw attention": ahead_of(free, "rollout", RAW)._asdict(),
        }
        tell_in_words({"best elsewhere": leads["best elsewhere"]}, f"free {question}, lead {{}}")
        tell({name: standing(lead) for name, lead in leads.items()}, f"free {question}, standing {{}}")
        if question == "plausibility":
            _tell_means(pointed, "supervised plausibility")
            _tell_means(pd.concat([pointed, free]), "all plausibility")


def tell_outcomes(numbers: Mapping[str, pd.DataFrame]) -> None:
    """How many predictions the recorded run confirmed, and how many it refuted."""
    came_out = recorded_outcomes(numbers)
    tell({"recorded": len(PREDICTIONS)} | _verdicts(came_out, "recorded: {}"))


def tell_predictions(predictions: pd.DataFrame) -> None:
    """How many predictions this run confirmed or refuted, as a clause."""
    tell({"predictions here": tally_clause(predictions["came out"])})


def tell_metrics(whole: Kept, by_oracle: pd.DataFrame, by_masking: pd.DataFrame) -> None:
    """How well two metrics agree with ground truth, and who leads by the better one.

    Args:
        whole: the recorded results of the chapter on metrics.
        by_oracle: the ranking of methods by the oracle metric.
        by_masking: the same by the standard metric.
    """
    for name in ("usual", "chosen"):
        tell_in_words({f"metric {name}": one_number(whole.halves, judge=name, settings="confirmed on")})
    measured = whole.measured.get(CHOSEN, pd.DataFrame(columns=["setting", "method", "value"]))
    lead = one_number(beside_the_first(measured), settings="free", place="ahead of rollout")
    tell_in_words({"oracle lead": lead})
    tell({"oracle lead, said": significance(lead)})
    for place in (1, 2):
        row = one_number(by_oracle, rank=place)
        tell({f"by the oracle metric {place}": "not run" if row is None else display_name(row["method"])})
        tell({f"oracle score {place}": "not run" if row is None else row["value"]})
    first = by_masking["method"].iloc[0]
    row = one_number(by_oracle, method=first)
    tell({"masking 1": display_name(first), "its place": None if row is None else row["rank"]})
    tell({"places": int(by_oracle["rank"].notna().sum())})


def tell_hops(rows: pd.DataFrame) -> None:
    """AttnLRP's gain through hops in every task, and how many predictions about hops were confirmed."""
    for task in BUILT:
        gained = one_number(rows, run=task, metric=f"{difference_name(OWN, DIRECTLY)}: AttnLRP")
        tell_in_words({f"hops: {task}, gained": gained})
        tell({f"hops: {task}, significance": significance(gained)})
    ways = by_way(rows)
    found = {way: one_number(ways, run="walks", way=way, method="AttnLRP") for way in (DIRECTLY, OWN)}
    tell_in_words(found, "hops: walks, {}")
    came_out = hop_prediction_table(rows)["came out"]
    tell({"hops: asked": len(came_out)} | _verdicts(came_out, "hops: {}"))


def tell_exercises() -> None:
    """Numbers that the solutions quote."""
    rows = _of_three_models()
    for run, questions in IN_EXERCISES.items():
        for question, methods in questions.items():
            found = {name: one_number(rows, run=run, metric=f"{question}: {name}") for name in methods}
            tell_in_words(found, f"exercise {run}, {question}, {{}}")


def _of_three_models() -> pd.DataFrame:
    """Rows of the recorded run with three models of each setting."""
    return came_with_the_book(CHAPTER, seeds=3, train_more=True)


def _means(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over settings, with their number as `n`."""
    means = over_settings(rows)
    return means.assign(n=means["settings"])


def _tell_means(rows: pd.DataFrame, called: str) -> None:
    """The means of rollout, of rollout in untrained models, and of the best method."""
    means = _means(rows)
    quoted = {name: one_number(means, method=name) for name in ("rollout", "rollout, untrained")}
    tell_in_words(quoted | {"best": means.iloc[0]}, f"{called}, {{}}")
    tell({f"{called}, the best": display_name(means["method"].iloc[0])})


def _verdicts(came_out: pd.Series, called: str) -> dict[str, int]:
    """How many predictions came out "yes" and "no"."""
    return {called.format(said): int((came_out == said).sum()) for said in ("yes", "no")}
