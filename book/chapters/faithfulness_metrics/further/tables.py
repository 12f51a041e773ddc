"""What is kept of the further experiments: numbers of metrics, of methods, and what predictions became.

Questions of one model are drawn again together (the bootstrap). If a metric asks only some of them (ROAR asks
those that nothing was trained on), its numbers are of these, and those of the ground truth of all. Where
there are several models of a setting, intervals are over these.
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
"""Kendall's rank correlation with plausibility; the share of measures that are ranked before the truth, whose
ties a coin breaks."""

LOWEST = {TAU: -1.0, BEFORE: 0.0}
"""What they can be at least; both are 1 at most, and no interval ends beyond."""

FEWEST = 8
"""Questions of a kind, below which none of a model is asked, and nothing learned from them."""

TABLES = {
    "": ["setting", "judge", "number"],
    ", by measure": ["setting", "judge", "method"],
    ", expected": ["setting", "prediction"],
}
"""What is kept of a part, behind its name; and the columns that tell rows apart."""


class Prediction(NamedTuple):
    """A sentence that says that a model's `gain` is above 0, in some settings (all, if there are none)."""

    words: str
    gain: Callable[[Rated], Statistic]
    settings: tuple[str, ...] = ()


def numbers(rated: Rated, metric: str) -> dict[str, Statistic]:
    """`TAU` and `BEFORE` of a metric, of the mean over questions.

    Questions drawn again add noise to both rankings, so that draws of tau lie below its value.
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
    """How much more a number is by the first metric than by the second."""
    return lambda rated: _less(*(numbers(rated, each)[number] for each in (first, second)))


def by_measure(metric: str, first: str, second: str) -> Callable[[Rated], Statistic]:
    """How much more a metric says of the first measure than of the second."""

    def gain(rated: Rated) -> Statistic:
        means = resampled_means(rated.numbers[metric])
        return _less(*(means.column(rated.measures.index(each)) for each in (first, second)))

    return gain


def _less(first: Statistic, second: Statistic) -> Statistic:
    return Statistic(first.value - second.value, first.draws - second.draws, min(first.n, second.n))


def part_tables(
    part: str, models: Sequence[Rated], predictions: Sequence[Prediction]
) -> dict[str, pd.DataFrame]:
    """What is recorded of a part; see `TABLES`."""
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
    """`part_tables` again, of the chapter's records; of predictions also what `came out`."""
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
    """The table of `part_rows` again, of the record that asked the most settings of those that have it."""
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
