r"""Tables of attribution methods: normalised numbers with intervals, paired differences, ranks, stability.

Rows have a `value` for every `setting`, `seed` (of the model), `item`, `method` and `metric`, and with it the
item's level of `chance` $c_i$ and the `perfect` number $p_i$. The normalised number of a measure's values
$v_i$ on the items of one model,

$$\bar v = \frac{\sum_i (v_i - c_i)}{\sum_i (p_i - c_i)}$$

is 0 at chance and 1 at best, also for metrics whose small values are better. If chance is nearly perfect, the
number is not defined: see `LEAST`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from attnlib.benchmarking.costs import FORWARD
from attnlib.stats.comparisons import corrected
from attnlib.stats.intervals import NOTHING, Estimate, interval, redrawn
from attnlib.stats.rank_measures import kendall_tau
from attnlib.stats.resampling import Statistic
from attnlib.stats.seeds import over_seeds
from book.chapters.attribution_benchmark.attribution_benchmark import TOLD, Asked
from book.chapters.attribution_benchmark.measures import (
    AVERAGE_PRECISION,
    COMPREHENSIVENESS,
    WAYS,
)
from book.chapters.attribution_benchmark.settings import SETTINGS, were_told

PLAUSIBILITY, FAITHFULNESS = AVERAGE_PRECISION, COMPREHENSIVENESS
"""The main metric of each of the two questions."""

ANSWERED_BY = {"plausibility": PLAUSIBILITY, "faithfulness": FAITHFULNESS}
"""Question -> its main metric."""

RAW = "raw attention, last layer"
"""The method that rollout is compared with."""

ALL, THESE = "all settings", "these settings"
"""Runs of a record that are means over settings, with intervals for other settings, and for these only."""

_ONE_MODEL = r", seed \d+$"


def setting_table(asked: Sequence[Asked]) -> pd.DataFrame:
    """The questions and models: a row per setting, with means over its models."""
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
    """The missing scores: the columns `methods`, `settings` and `reason`."""
    rows = [(each.setting, reason, method) for each in asked for method, reason in each.missing.items()]
    found = pd.DataFrame(rows, columns=["settings", "reason", "methods"]).drop_duplicates()
    by_method = found.groupby(["methods", "reason"], sort=False, as_index=False).agg("; ".join)
    together = by_method.groupby(["settings", "reason"], sort=False, as_index=False).agg("; ".join)
    return together[["methods", "settings", "reason"]]


def ahead_table(comparisons: pd.DataFrame, leader: str) -> pd.DataFrame:
    """In how many settings `leader` is significantly `ahead` of each other measure, or `behind`."""
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
    """A ranking without measures that some settings lack, and, unless `others`, without those of `TOLD`."""
    told = ranking["method"].isin(() if others else TOLD)
    return ranking[ranking["rank"].notna() & ~told].reset_index(drop=True)


def decision_table(
    rankings: Mapping[str, pd.DataFrame], costs: pd.DataFrame, others: bool = False
) -> pd.DataFrame:
    """The best measure by every ranking within each of the cost `LIMITS`, with its number and its passes."""
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
    """The results by question (`ANSWERED_BY`): `tables` from `normalised`, `rankings` from `method_ranking`.

    Attributes:
        models: the numbers by model and measure, for settings with several models.
    """

    tables: dict[str, pd.DataFrame]
    rankings: dict[str, pd.DataFrame]
    models: dict[str, pd.DataFrame]


def answers(rows: pd.DataFrame, compared: Sequence[str]) -> Answers:
    """The results of all questions whose metric `rows` has; rankings are over the settings `compared`."""
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
    """The rows to record, one per number; `over` names the unit of its interval, and `n` is their number.

    The column `run` has settings, their models ("sort, seed 0") if there are several, and the means:
    `ALL`, with ranks and intervals for other settings, and `THESE`, with intervals for these settings only.
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
    """The rows to record of plausibility by right and wrong answers, in and out of distribution."""
    found = normalised(rows, PLAUSIBILITY, ["setting", "split", "right", "method"]).dropna(subset=["value"])
    answers = found["split"] + found["right"].map({True: ", right", False: ", wrong"})
    found = found.assign(run=found["setting"], metric="plausibility, " + answers + ": " + found["method"])
    numbers = ["value", "low", "high", "n", "over", "mean", "chance", "questions", "seeds"]
    return found[["run", "metric", *numbers]].astype({"n": int})


RIGHT = "plausibility, ID, right: "
"""The beginning of metrics in `recorded_apart` for right answers in distribution."""


def right_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """The recorded plausibility for right answers in distribution, by setting and measure."""
    found = rows[rows["metric"].astype(str).str.startswith(RIGHT)]
    found = found.assign(setting=found["run"], method=found["metric"].str.removeprefix(RIGHT))
    return found[["setting", "method", "value"]].reset_index(drop=True)


def told_or_not(numbers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers of transformers with compiled or supervised heads, and those of all other transformers."""
    compared = numbers[numbers["setting"].map(lambda name: SETTINGS[name].transformer)]
    told = were_told(compared["setting"])
    return compared[told], compared[~told]


def ahead_of(numbers: pd.DataFrame, first: str, second: str) -> Estimate:
    """The mean difference of two measures' numbers, paired by setting, with Student's interval."""
    wide = numbers.pivot(index="setting", columns="method", values="value")
    return over_seeds((wide[first] - wide[second]).dropna().to_numpy(float))


def first_elsewhere(numbers: pd.DataFrame, than: str) -> Estimate:
    r"""The lead over the measure `than` of the measure that the *other* settings rank first, by setting.

    The highest mean of many measures is partly due to chance. So with $v_{ms}$ the number of measure $m$ in
    setting $s$

    $$d_s = v_{m_s s} - v_{\text{than}, s}, \qquad m_s = \arg\max_m \sum_{s' \ne s} v_{ms'}$$

    compares measures in a setting that had no part in their choice.
    """
    wide = numbers.pivot(index="setting", columns="method", values="value").dropna(axis=1)
    if len(wide) < 2:
        return NOTHING
    chosen = wide.columns.get_indexer(pd.Index((wide.sum() - wide).idxmax(axis=1)))
    return over_seeds(wide.to_numpy()[np.arange(len(wide)), chosen] - wide[than].to_numpy())


def widest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the chapter's record with the most models; empty if there is no record."""
    if rows.empty:
        return pd.DataFrame(columns=["run", "metric", "value", "seeds"])
    return rows[rows["record"] == rows.groupby("record")["seeds"].sum().idxmax()]


def of_record(rows: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """The inverse of `recorded`: the numbers by setting and measure, and the rankings, both by question."""
    if rows.empty:
        return {}, {}
    split = rows["metric"].str.split(": ", n=1, expand=True)
    rows = rows.assign(of=split[0], method=split[1])
    one = ~rows["run"].isin([ALL, THESE]) & ~rows["run"].str.contains(_ONE_MODEL)
    tables, rankings = dict[str, pd.DataFrame](), dict[str, pd.DataFrame]()
    for name in [name for name in ANSWERED_BY if name in set(rows["of"])]:
        of = rows["of"] == name
        tables[name] = rows[one & of].rename(columns={"run": "setting"})
        ranking = rows[of & (rows["run"] == ALL)].assign(settings=lambda found: found["n"].astype(int))
        these = rows[of & (rows["run"] == THESE)].set_index("method")[["low", "high", "over", "n"]]
        rankings[name] = ranking.join(these.add_prefix("these_"), on="method")
    return tables, rankings


def rankings_table(rankings: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The rankings of all questions as one table, with both intervals."""
    columns = ["question", "method", "value", "low", "high", "rank", "rank_low", "rank_high", "settings"]
    columns += ["these_low", "these_high", "these_n"]
    ranked = [table.assign(question=name) for name, table in rankings.items()]
    return pd.concat([pd.DataFrame(columns=columns), *ranked])[columns]


RECOMMENDED = ("AttnLRP", "activation patching", "blank-out", "rollout", RAW)
"""The methods that the page compares before it says which one to use."""


def which_method(tables: Mapping[str, pd.DataFrame], by_oracle: pd.DataFrame) -> pd.DataFrame:
    """Means of `RECOMMENDED` over settings, a column per question and group of settings.

    Args:
        tables: numbers by setting and method, for each question.
        by_oracle: the ranking by the oracle metric.
    """
    pointed, alone = told_or_not(tables["plausibility"])
    columns = {
        "plausibility, trained on answers alone": over_settings(alone),
        "plausibility, pointed at the sources": over_settings(pointed),
        "standard metric, trained on answers alone": over_settings(told_or_not(tables["faithfulness"])[1]),
        "oracle metric": by_oracle,
    }
    means = pd.DataFrame({name: each.set_index("method")["value"] for name, each in columns.items()})
    return means.reindex([*RECOMMENDED]).rename_axis("method").reset_index()


def every_metric(rows: pd.DataFrame) -> pd.DataFrame:
    """Normalised numbers, means over the settings that have them: a row per method, a column per metric."""
    metrics = list(rows["metric"].unique())
    found = pd.concat({metric: normalised(rows, metric) for metric in metrics}, names=["metric"])
    found = found.reset_index("metric").pivot_table("value", index="method", columns="metric", sort=False)
    return found.reindex(columns=metrics)


def verdict(low: float, high: float) -> str:
    """The verdict on the prediction that a difference is above 0: "yes", "no", or "not settled"."""
    return "yes" if low > 0 else "no" if high < 0 else "not settled"


LEAST = 0.05
"""The smallest mean distance of chance from perfect for which a normalised number is defined."""

FLIPS = 50_000
"""The number of random sign flips in a paired test: enough for Holm's correction over hundreds of pairs."""

OVER_QUESTIONS, OVER_MODELS, OVER_SETTINGS = "questions", "models and questions", "settings"
"""The units that are resampled for a confidence interval."""

_BLOCK = 5_000


def normalised(rows: pd.DataFrame, metric: str, by: Sequence[str] = ("setting", "method")) -> pd.DataFrame:
    """Normalised numbers of one metric, with intervals."""
    part = _of_metric(rows, metric, by)
    table = []
    for key, group in part.groupby(list(by), sort=False, observed=True):
        found = _models(group)
        questions = max((each.n for each in found), default=0)
        means = {"mean": group["value"].mean(), "chance": group["chance"].mean()}
        counts = means | {"questions": questions, "seeds": len(found)}
        table.append(dict(zip(by, key, strict=True)) | _of_these([found]) | counts)
    names = ["value", "low", "high", "n", "over", "mean", "chance", "questions", "seeds"]
    return pd.DataFrame(table, columns=[*by, *names])


def method_ranking(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    r"""Measures in the order of their normalised number, the mean over settings, with two intervals.

    One interval holds for other settings (see `over_settings`), one for other models and questions of these
    settings: with $x_{sm}$ the numbers of the $k_s$ models of each of $S$ settings, the models' part is
    Student's

    $$\pm t_{f} \sqrt{\sum_s v_s}, \quad v_s = \frac{\operatorname{var}_m x_{sm}}{S^2 k_s}, \quad
      f = \frac{(\sum_s v_s)^2}{\sum_s v_s^2 / (k_s - 1)},$$

    and the part of the questions, resampled in each setting jointly for its models, is added in quadrature.

    Source:
        Satterthwaite 1946, *An approximate distribution of estimates of variance components*: f.
    """
    part = _of_metric(rows, metric, ["setting", "method"])
    number = {name: place for place, name in enumerate(part["setting"].unique())}
    found: dict[str, list[list[Statistic]]] = {}
    for (setting, method), group in part.groupby(["setting", "method"], sort=False, observed=True):
        if models := _models(group, number[setting]):
            found.setdefault(str(method), []).append(models)
    these = [
        {"method": method, **{f"these_{name}": each for name, each in _of_these(models).items()}}
        for method, models in found.items()
    ]
    columns = ["method", "these_low", "these_high", "these_over", "these_n"]
    return over_settings(_by_setting(part)).merge(pd.DataFrame(these, columns=columns), how="left")


def over_settings(numbers: pd.DataFrame, most: float = 1.0) -> pd.DataFrame:
    """Means of normalised numbers over settings, and ranks, with intervals that hold for other settings.

    Intervals of means are Student's; intervals of ranks are from resampling settings (bootstrap).
    """
    wide = numbers.pivot(index="setting", columns="method", values="value")
    wide = wide[list(dict.fromkeys(numbers["method"]))].astype(float)
    there = wide.notna().to_numpy()
    count = there.sum(0)
    whole = (count > 0) & (count == count.max(initial=0))
    means = [_student(wide[name].dropna(), most) for name in wide]
    table = pd.DataFrame(means, columns=["value", "low", "high", "settings"]).assign(method=wide.columns)
    table = table.assign(rank=np.nan, rank_low=np.nan, rank_high=np.nan)
    table.loc[whole, "rank"] = table.loc[whole, "value"].round(9).rank(ascending=False, method="min")
    if whole.any() and count.max() > 1:
        times = _times(len(wide))
        draws = (times @ wide.fillna(0).to_numpy()[:, whole]) / (times @ there[:, whole])
        places = stats.rankdata(-draws.round(9), method="min", axis=1).astype(float)
        table.loc[whole, ["rank_low", "rank_high"]] = [interval(column) for column in places.T]
    table = table.assign(part=~whole).sort_values(["part", "value"], ascending=[True, False], kind="stable")
    columns = ["method", "value", "low", "high", "rank", "rank_low", "rank_high", "settings"]
    return table[columns].reset_index(drop=True)


def method_differences(rows: pd.DataFrame, metric: str, pairs: Sequence[tuple[str, str]]) -> list[Estimate]:
    """The mean difference over settings of two measures' normalised numbers, for each pair."""
    numbers = _by_setting(_of_metric(rows, metric, ["setting", "method"]))
    wide = numbers.pivot(index="setting", columns="method", values="value")
    wide = wide.reindex(columns=list({name: None for pair in pairs for name in pair}))
    return [_student((wide[first] - wide[second]).dropna(), most=np.inf) for first, second in pairs]


def method_comparisons(rows: pd.DataFrame, metric: str, reference: str | None = None) -> pd.DataFrame:
    r"""Sign-flip tests of two measures on the same items, with Holm's correction within each setting.

    With $d_i$ a question's difference, the mean over models, $p$ is the share of random signs with
    $|\sum_i \pm d_i| \ge |\sum_i d_i|$. The hypothesis is about these models: one question to three models
    counts as one question.
    """
    part = _of_metric(rows, metric, ["setting", "method"])
    if reference is not None and reference not in set(part["method"]):
        raise ValueError(f"reference should be one of {sorted(set(part['method']))}; got {reference!r}")
    tables = []
    for setting, group in part.groupby("setting", sort=False, observed=True):
        wide = group.pivot_table(index=["seed", "item"], columns="method", values="value", sort=False)
        names, values = [*wide], wide.to_numpy(float)
        pairs = [
            pair
            for pair in itertools.combinations(range(len(names)), 2)
            if reference in (None, *(names[i] for i in pair))
        ]
        if not pairs:
            continue
        first, second = (list(side) for side in zip(*pairs, strict=True))
        differences = pd.DataFrame(values[:, first] - values[:, second], index=wide.index)
        apart = differences.groupby("item", sort=False).mean().to_numpy()
        n, apart = (~np.isnan(apart)).sum(0), np.nan_to_num(apart)
        p = _by_flips(apart)
        found = pd.DataFrame({"first": [names[i] for i in first], "second": [names[i] for i in second]})
        means = apart.sum(0) / np.maximum(n, 1)
        numbers = {"difference": means, "n": n, "p": p, "p_holm": corrected(p)}
        tables.append(found.assign(setting=setting, **numbers))
    columns = ["setting", "first", "second", "difference", "n", "p", "p_holm"]
    return pd.concat([pd.DataFrame(columns=columns), *tables][bool(tables) :], ignore_index=True)[columns]


def seed_stability(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Do models of other seeds rank methods alike? Kendall's tau of normalised numbers, pair by pair."""
    numbers = normalised(rows, metric, ["setting", "seed", "method"])
    table = []
    for setting, group in numbers.groupby("setting", sort=False, observed=True):
        wide = group.pivot(index="method", columns="seed", values="value").dropna()
        pairs = list(itertools.combinations(wide, 2))
        if pairs and len(wide) > 1:
            taus = np.array([kendall_tau(wide[a].to_numpy(), wide[b].to_numpy()) for a, b in pairs])
            table.append((setting, float(taus.mean()), float(taus.min()), len(pairs), len(wide)))
    return pd.DataFrame(table, columns=["setting", "value", "least", "pairs", "methods"])


def _of_metric(rows: pd.DataFrame, metric: str, by: Sequence[str]) -> pd.DataFrame:
    needed = [*by, "seed", "item", "metric", "value", "chance", "perfect"]
    if missing := [name for name in needed if name not in rows]:
        raise ValueError(f"rows should have the columns {missing}; got {list(rows.columns)}")
    part = rows[(rows["metric"] == metric) & rows["value"].notna()]
    if part.empty:
        raise ValueError(f"metric should be one of {sorted(set(rows['metric']))}; got {metric!r}")
    return part


def _by_setting(part: pd.DataFrame) -> pd.DataFrame:
    """The number of every `setting` and `method`, as `value`: the mean over those of its models."""
    sums = part.assign(found=part["value"] - part["chance"], whole=part["perfect"] - part["chance"])
    by = ["setting", "method"]
    means = sums.groupby([*by, "seed"], sort=False, observed=True)[["found", "whole"]].mean()
    numbers = (means["found"] / means["whole"]).where(means["whole"].abs() >= LEAST)
    return numbers.groupby(by, sort=False, observed=True).mean().rename("value").reset_index()


def _models(group: pd.DataFrame, draw: int = 0) -> list[Statistic]:
    """Every model's number with its bootstrap over items (seed `draw`), without models that have none."""
    found = []
    for _, items in group.groupby("seed", sort=False):
        parts = (items["value"] - items["chance"]).to_numpy(float)
        wholes = (items["perfect"] - items["chance"]).to_numpy(float)
        if abs(wholes.mean()) >= LEAST:
            times = _times(len(items), draw)
            with np.errstate(invalid="ignore", divide="ignore"):
                draws = (times @ parts) / (times @ wholes)
            found.append(Statistic(float(parts.sum() / wholes.sum()), draws, len(items)))
    return found


def _of_these(settings: Sequence[Sequence[Statistic]]) -> dict[str, Any]:
    """The mean over settings of their models' means, with its interval and the interval's units."""
    if not all(settings):
        return {"value": np.nan, "low": np.nan, "high": np.nan, "n": 0, "over": OVER_QUESTIONS}
    values = [[model.value for model in models] for models in settings]
    mean = float(np.mean([np.mean(each) for each in values]))
    draws = np.mean([np.mean([model.draws for model in models], axis=0) for models in settings], axis=0)
    several = [each for each in values if len(each) > 1]
    parts = np.array([np.var(each, ddof=1) / len(each) for each in several]) / len(settings) ** 2
    half = 0.0
    if parts.sum() > 0:
        freedom = parts.sum() ** 2 / sum(parts**2 / [len(each) - 1 for each in several])
        half = stats.t.ppf(0.975, freedom) * np.sqrt(parts.sum())
    least, most = interval(draws)
    low, high = mean - np.hypot(half, mean - least), mean + np.hypot(half, most - mean)
    n = sum(map(len, settings)) if several else sum(model.n for models in settings for model in models)
    drawn = {"n": n, "over": OVER_MODELS if several else OVER_QUESTIONS}
    return {"value": mean, "low": float(low), "high": _at_most(high, mean), **drawn}


def _student(values: pd.Series, most: float) -> Estimate:
    """The mean over settings with Student's interval."""
    if values.empty:
        return NOTHING
    found = over_seeds(values.to_numpy(float))
    return found._replace(high=_at_most(found.high, found.value, most))


def _at_most(high: float, value: float, most: float = 1.0) -> float:
    """The upper end of an interval, cut at `most` unless the value itself is above it (NaN stays NaN)."""
    return float(high) if value > most else float(np.minimum(high, most))


@lru_cache(maxsize=64)
def _times(n: int, seed: int = 0) -> Float[np.ndarray, "draw item"]:
    """How often each bootstrap draw contains each of n items."""
    return np.concatenate([*redrawn(n, seed)]).astype(np.float64)


def _by_flips(apart: Float[np.ndarray, "item pair"], seed: int = 0) -> Float[np.ndarray, " pair"]:
    """The p-value of each pair by random sign flips; the observed signs count as one of them."""
    rng, as_large, small = np.random.default_rng(seed), np.zeros(apart.shape[1]), apart.astype(np.float32)
    seen = np.abs(small.sum(0)) - 1e-5  # rounding
    for _ in range(FLIPS // _BLOCK):
        signs = 2 * rng.integers(0, 2, (_BLOCK, len(apart)), dtype=np.int8) - 1
        as_large += (np.abs(signs.astype(np.float32) @ small) >= seen).sum(0)
    return (as_large + 1) / (FLIPS + 1)


def difference_name(first: str, second: str) -> str:
    """The name of the difference of two ways."""
    return f"{first}, more than {second}"


def recorded_ways(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows to record of whole answers: average precision in every way, and the differences of two ways.

    Runs are tasks; a metric is a way, or the difference of two, and a measure: "directly: rollout".
    """
    if rows.empty:
        return pd.DataFrame()
    keys = ["setting", "seed", "item", "method"]
    ways = {str(way): part.set_index(keys) for way, part in rows.groupby("way", sort=False)}
    parts = dict(ways)
    for second, first in combinations(ways, 2):
        apart = ways[first]["value"] - ways[second]["value"]
        parts[difference_name(first, second)] = ways[first].assign(value=apart + ways[first]["chance"])
    found = {way: normalised(part.reset_index(), AVERAGE_PRECISION) for way, part in parts.items()}
    kept = pd.concat(found, names=["way"]).reset_index("way")
    kept = kept.assign(run=kept["setting"], metric=kept["way"] + ": " + kept["method"])
    columns = ["run", "metric", "value", "low", "high", "n", "over", "mean", "chance", "questions", "seeds"]
    return kept[columns].reset_index(drop=True)


def by_way(kept: pd.DataFrame) -> pd.DataFrame:
    """The rows of `recorded_ways` without differences, with columns `way` and `method`."""
    names = kept["metric"].str.split(": ", n=1, expand=True).set_axis(["way", "method"], axis=1)
    return kept.join(names)[names["way"].isin([*WAYS])]
