"""Recorded tables of the further experiments: numbers of metrics and of methods, and results of predictions.

The questions of one model are resampled together (bootstrap). If a metric has numbers for some questions only
(ROAR for its test questions), it uses these, and the ground truth uses all. If a setting has several models,
intervals are over models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from attnlib.stats.intervals import Estimate
from attnlib.stats.rank_measures import kendall_tau
from attnlib.stats.resampling import Statistic, resampled_means
from attnlib.stats.seeds import table_over_seeds
from book.chapters.attribution_benchmark.tables import verdict
from book.chapters.faithfulness_metrics.measures import (
    BESIDE,
    DIGITS,
    PLAUSIBILITY,
    RUNGS,
    Rated,
    difference,
)
from book.chapters.faithfulness_metrics.tables import ESTIMATE, PART, widest

TAU, BEFORE = "tau", "before the truth"
"""Kendall's rank correlation with plausibility; the share of measures that are ranked before the ground truth
with randomly broken ties."""

LOWEST = {TAU: -1.0, BEFORE: 0.0}
"""The smallest possible value of each number; both are at most 1. Intervals are cut at these bounds."""

FEWEST = 8
"""The fewest questions of a kind for which a model is evaluated, or weights are learned."""

TABLES = {
    "": ["setting", "judge", "number"],
    ", by measure": ["setting", "judge", "method"],
    ", expected": ["setting", "prediction"],
}
"""Suffix of a table's name, which follows the name of the part -> the columns that identify a row."""


class Prediction(NamedTuple):
    """The prediction that a model's `gain` is above 0, in the named settings (in all, if none is named)."""

    words: str
    gain: Callable[[Rated], Statistic]
    settings: tuple[str, ...] = ()


def numbers(rated: Rated, metric: str) -> dict[str, Statistic]:
    """`TAU` and `BEFORE` of a metric, computed from means over questions.

    Resampling questions adds noise to both rankings, so bootstrap draws of tau tend to lie below its value.
    """
    names = [*rated.measures]
    measures = [m for m, name in enumerate(names) if name not in BESIDE]
    both = resampled_means(np.hstack([rated.numbers[PLAUSIBILITY], rated.numbers[metric]]))
    rows = np.vstack([both.value, both.draws]).round(DIGITS)
    known, found = rows[:, : len(names)], rows[:, len(names) :]
    tau = np.nan_to_num(kendall_tau(known[:, measures], found[:, measures]))
    before = (found[:, measures] > found[:, [names.index(RUNGS[0])]]).mean(1)
    n = int(both.n.min())
    return {name: Statistic(float(each[0]), each[1:], n) for name, each in ((TAU, tau), (BEFORE, before))}


def by_metric(number: str, first: str, second: str) -> Callable[[Rated], Statistic]:
    """A function that returns a model's difference of `number` between the first and the second metric."""
    return lambda rated: _less(*(numbers(rated, each)[number] for each in (first, second)))


def by_measure(metric: str, first: str, second: str) -> Callable[[Rated], Statistic]:
    """A function that returns a model's difference by `metric` between the first and the second measure."""

    def gain(rated: Rated) -> Statistic:
        means = resampled_means(rated.numbers[metric])
        return _less(*(means.column(rated.measures.index(each)) for each in (first, second)))

    return gain


def _less(first: Statistic, second: Statistic) -> Statistic:
    return Statistic(first.value - second.value, first.draws - second.draws, min(first.n, second.n))


def part_tables(
    part: str, models: Sequence[Rated], predictions: Sequence[Prediction]
) -> dict[str, pd.DataFrame]:
    """The tables to record of a part; see `TABLES`."""
    rows: dict[str, list[tuple]] = {name: [] for name in TABLES}
    of_metrics, of_measures, expected = rows.values()
    for each in models:
        about = each.setting, each.seed
        for metric in each.numbers:
            if metric != PLAUSIBILITY:
                found = numbers(each, metric).items()
                of_metrics += [(*about, metric, name, *number.estimate()) for name, number in found]
            means = resampled_means(each.numbers[metric])
            of_measures += [
                (*about, metric, name, *means.column(m).estimate()) for m, name in enumerate(each.measures)
            ]
        for words, gain, settings in predictions:
            if not settings or each.setting in settings:
                expected.append((*about, words, *gain(each).estimate()))
    return {
        part + name: table_over_seeds(
            pd.DataFrame(rows[name], columns=["setting", "seed", *texts[1:], *Estimate._fields]),
            texts,
            of_one=True,
        )
        for name, texts in TABLES.items()
    }


def recorded_tables(rows: pd.DataFrame, part: str) -> list[pd.DataFrame]:
    """The inverse of `part_tables` from the chapter's records; predictions have a column `came out`."""
    metrics, measures, expected = (part_table(rows, part + name, texts) for name, texts in TABLES.items())
    metrics["low"] = metrics["low"].clip(lower=metrics["number"].map(LOWEST))
    metrics["high"] = metrics["high"].clip(upper=1.0)
    return [metrics, measures, _with_verdicts(expected)]


def expected_over_settings(expected: pd.DataFrame) -> pd.DataFrame:
    """The result of each prediction: its mean over settings, with Student's interval."""
    groups = expected.groupby("prediction", sort=False)["value"]
    rows = [(words, *difference(values)) for words, values in groups]
    return _with_verdicts(pd.DataFrame(rows, columns=["prediction", *Estimate._fields]))


def _with_verdicts(expected: pd.DataFrame) -> pd.DataFrame:
    ends = zip(expected["low"], expected["high"], strict=True)
    return expected.assign(**{"came out": [verdict(*each) for each in ends]})


def part_table(rows: pd.DataFrame, part: str, texts: Sequence[str]) -> pd.DataFrame:
    """One table of `part_rows`, from the record with the most settings among those that contain it."""
    columns = [*texts, "usual", *ESTIMATE]
    if rows.empty or not (of_part := rows["metric"].str.startswith(f"{PART} {part}: ")).any():
        return pd.DataFrame(columns=columns)
    there = widest(rows[rows["record"].isin(rows.loc[of_part, "record"])])
    found = there[of_part[there.index]]
    parts = found["metric"].str.removeprefix(f"{PART} {part}: ").str.split("; ", expand=True)
    found = found.assign(**{name: parts[i] for i, name in enumerate(texts)})
    usual = there.loc[there["metric"].str.startswith(f"{PART} {part}, usual: "), "value"].to_numpy()
    found = found.assign(usual=usual) if len(usual) else found
    return found[[name for name in columns if name in found]].reset_index(drop=True)
