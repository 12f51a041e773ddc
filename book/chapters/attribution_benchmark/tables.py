"""Tables of the chapter `attribution_benchmark`: what was asked, and what is to be used when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from attnlib.stats.intervals import NOTHING, Estimate
from attnlib.stats.seeds import over_seeds
from book.chapters.attribution_benchmark.attribution_benchmark import TOLD, Asked
from book.chapters.attribution_benchmark.costs import FORWARD
from book.chapters.attribution_benchmark.method_tables import SETTINGS as OVER_SETTINGS
from book.chapters.attribution_benchmark.method_tables import method_ranking, normalised, over_settings
from book.chapters.attribution_benchmark.predictions import ANSWERED_BY, PLAUSIBILITY, PREDICTIONS, verdict
from book.chapters.attribution_benchmark.settings import SETTINGS, were_told

RAW = "raw attention, last layer"
"""What rollout is compared with."""

ALL, THESE = "all settings", "these settings"
"""The runs of a record that are means over settings: with intervals over settings, and of these settings."""

_ONE_MODEL = r", seed \d+$"


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


def ahead_table(comparisons: pd.DataFrame, leader: str) -> pd.DataFrame:
    """In how many settings a measure is `ahead` of each other one, or `behind`, by more than chance."""
    of = comparisons[(comparisons[["first", "second"]] == leader).any(axis=1)]
    mine, clear = of["first"] == leader, of["p_holm"] < 0.05
    ahead = of["difference"].where(mine, -of["difference"])
    counts = {"ahead": clear & (ahead > 0), "behind": clear & (ahead < 0), "settings": ahead.notna()}
    other = of["second"].where(mine, of["first"]).rename(f"{leader} against")
    return pd.DataFrame(counts).groupby(other, sort=False).sum()


LIMITS = {
    "one forward pass": 1.5,
    "one forward and one backward pass": 4.0,
    "any number of passes": float("inf"),
}
"""How many forward passes a measure may cost."""


def untold(ranking: pd.DataFrame, others: bool = False) -> pd.DataFrame:
    """A ranking without measures that some settings lack, and without those that are `TOLD`."""
    told = ranking["method"].isin(() if others else TOLD)
    return ranking[ranking["rank"].notna() & ~told].reset_index(drop=True)


def decision_table(
    rankings: Mapping[str, pd.DataFrame], costs: pd.DataFrame, others: bool = False
) -> pd.DataFrame:
    """The first of every ranking among the measures within each of `LIMITS`, with the number behind it."""
    passes = costs.loc[costs["method"] != FORWARD, ["method", "passes"]]
    rows = []
    for question, ranking in rankings.items():
        there = untold(ranking, others).merge(passes, on="method")
        for words, limit in LIMITS.items():
            within = there[there["passes"] <= limit].nlargest(1, "value")
            rows.append(within.assign(question=question, cost=words))
    columns = ["question", "cost", "method", "value", "low", "high", "passes"]
    return pd.concat(rows, ignore_index=True)[columns]


class Answers(NamedTuple):
    """What came out, by question (`ANSWERED_BY`), as `stats.normalised` and `stats.method_ranking` give it.

    Attributes:
        models: by model and measure, of settings with several models.
    """

    tables: dict[str, pd.DataFrame]
    rankings: dict[str, pd.DataFrame]
    models: dict[str, pd.DataFrame]


def answers(rows: pd.DataFrame, compared: Sequence[str]) -> Answers:
    """The answers to the questions that were asked."""
    asked = {name: metric for name, metric in ANSWERED_BY.items() if metric in set(rows["metric"])}
    means = rows[rows["setting"].isin(compared)]
    several = rows[rows.groupby("setting")["seed"].transform("nunique") > 1]
    by_model = ["setting", "seed", "method"]
    return Answers(
        {name: normalised(rows, metric) for name, metric in asked.items()},
        {name: method_ranking(means, metric) for name, metric in asked.items()},
        {name: normalised(several, metric, by_model) for name, metric in asked.items() if len(several)},
    )


def recorded(found: Answers) -> pd.DataFrame:
    """What is kept of a run, a row per number; `over` says what was drawn again for its interval, `n` of it.

    Runs are the settings, their models ("sort, seed 0") where there are several, and the means over settings:
    `ALL`, with intervals over settings and ranks, and `THESE`, with those of these settings.
    """
    parts = []
    for question, table in found.tables.items():
        models, ranking = found.models.get(question, table[:0]), found.rankings[question]
        named = models.assign(run=[f"{row.setting}, seed {row.seed}" for row in models.itertuples()])
        whole = ranking.assign(run=ALL, over=OVER_SETTINGS, n=ranking["settings"])
        ends = {name: ranking[f"these_{name}"] for name in ("low", "high", "over", "n")}
        these = ranking[["method", "value", "settings"]].assign(run=THESE, **ends)
        parts += [
            each.assign(of=question) for each in (table.assign(run=table["setting"]), named, whole, these)
        ]
    rows = pd.concat(parts, ignore_index=True).dropna(subset=["value"])
    rows = rows.assign(metric=rows["of"] + ": " + rows["method"], n=rows["n"].astype(int))
    counts = ["questions", "seeds", "settings"]
    ranks = ["rank", "rank_low", "rank_high"]
    return rows[["run", "metric", "value", "low", "high", "n", "over", "mean", "chance", *counts, *ranks]]


def recorded_apart(rows: pd.DataFrame) -> pd.DataFrame:
    """What is kept of plausibility apart for right and wrong answers, in distribution and out of it."""
    found = normalised(rows, PLAUSIBILITY, ["setting", "split", "right", "method"]).dropna(subset=["value"])
    answers = found["split"] + found["right"].map({True: ", right", False: ", wrong"})
    found = found.assign(run=found["setting"], metric="plausibility, " + answers + ": " + found["method"])
    numbers = ["value", "low", "high", "n", "over", "mean", "chance", "questions", "seeds"]
    return found[["run", "metric", *numbers]].astype({"n": int})


RIGHT = "plausibility, ID, right: "
"""How rows of `recorded_apart` begin that are of right answers in distribution."""


def right_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """Plausibility of right answers in distribution, of the rows of a record: by setting and measure."""
    found = rows[rows["metric"].astype(str).str.startswith(RIGHT)]
    found = found.assign(setting=found["run"], method=found["metric"].str.removeprefix(RIGHT))
    return found[["setting", "method", "value"]].reset_index(drop=True)


def told_or_not(numbers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers of transformers whose heads were told where the sources are, and of those that were not."""
    compared = numbers[numbers["setting"].map(lambda name: SETTINGS[name].transformer)]
    told = were_told(compared["setting"])
    return compared[told], compared[~told]


def ahead_of(numbers: pd.DataFrame, first: str, second: str) -> Estimate:
    """How much higher a measure's number is than another's, setting by setting, with Student's interval."""
    wide = numbers.pivot(index="setting", columns="method", values="value")
    return over_seeds((wide[first] - wide[second]).dropna().to_numpy(float))


def recorded_outcomes(tables: Mapping[str, pd.DataFrame]) -> pd.Series:
    """What came of each prediction in a recorded run: "yes", "no", "not settled", or "not asked"."""
    found = {each.words: "not asked" for each in PREDICTIONS}
    for question, numbers in tables.items():
        of_it = [each for each in PREDICTIONS if each.metric == ANSWERED_BY[question]]
        for each in of_it:
            if {each.first, each.second} <= set(numbers["method"]):
                apart = ahead_of(numbers, each.first, each.second)
                found[each.words] = verdict(apart.low, apart.high)
    return pd.Series(found, dtype=object)


def first_elsewhere(numbers: pd.DataFrame, than: str) -> Estimate:
    r"""How much more than one measure that has which the *other* settings put first, setting by setting.

    The highest mean of many measures is in part luck, so with $v_{ms}$ the number of measure $m$ in setting
    $s$

    $$d_s = v_{m_s s} - v_{\text{than}, s}, \qquad m_s = \arg\max_m \sum_{s' \ne s} v_{ms'}$$

    is of choices that do not know the setting by which they are judged.
    """
    wide = numbers.pivot(index="setting", columns="method", values="value").dropna(axis=1)
    if len(wide) < 2:
        return NOTHING
    chosen = wide.columns.get_indexer(pd.Index((wide.sum() - wide).idxmax(axis=1)))
    return over_seeds(wide.to_numpy()[np.arange(len(wide)), chosen] - wide[than].to_numpy())


def widest(rows: pd.DataFrame) -> pd.DataFrame:
    """Of all records of the chapter, the one that asked the most models; empty if there is none."""
    if rows.empty:
        return pd.DataFrame(columns=["run", "metric", "value", "seeds"])
    return rows[rows["record"] == rows.groupby("record")["seeds"].sum().idxmax()]


def of_record(rows: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """What `recorded` was given: the numbers by setting and measure, and the rankings, by question.

    Rankings are computed from the numbers of settings if a record does not say what its intervals are `over`.
    """
    if rows.empty:
        return {}, {}
    split = rows["metric"].str.split(": ", n=1, expand=True)
    rows = rows.assign(of=split[0], method=split[1])
    one = ~rows["run"].isin([ALL, THESE]) & ~rows["run"].str.contains(_ONE_MODEL)
    tables, rankings = dict[str, pd.DataFrame](), dict[str, pd.DataFrame]()
    for name in [name for name in ANSWERED_BY if name in set(rows["of"])]:
        of = rows["of"] == name
        tables[name] = rows[one & of].rename(columns={"run": "setting"})
        if "over" in rows:
            ranking = rows[of & (rows["run"] == ALL)].assign(settings=lambda found: found["n"].astype(int))
            these = rows[of & (rows["run"] == THESE)].set_index("method")[["low", "high", "over", "n"]]
            rankings[name] = ranking.join(these.add_prefix("these_"), on="method")
        else:
            compared = [title for title, setting in SETTINGS.items() if setting.transformer]
            rankings[name] = over_settings(tables[name][tables[name]["setting"].isin(compared)])
    return tables, rankings
