r"""Measures beside each other: normalised numbers with intervals, paired differences, ranks, stability.

Rows have a `value` for every `setting`, `seed` (of the model), `item`, `method` and `metric`, and beside it
what is known of the item: the level of `chance` $c_i$, and the `perfect` number $p_i$. Of a measure's values
$v_i$ on items of one model,

$$\bar v = \frac{\sum_i (v_i - c_i)}{\sum_i (p_i - c_i)}$$

is 0 at chance and 1 at best, also where small numbers are better. Where chance is nearly perfect there is
nothing to find, and no number: see `LEAST`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from attnlib.stats.comparisons import corrected
from attnlib.stats.intervals import NOTHING, Estimate, interval, redrawn
from attnlib.stats.rank_measures import kendall_tau
from attnlib.stats.resampling import Statistic
from attnlib.stats.seeds import over_seeds

LEAST = 0.05
"""How far chance has to be from perfect, on average, for a normalised number."""

FLIPS = 50_000
"""Of signs, in a paired test: enough for Holm's correction over hundreds of pairs."""

QUESTIONS, MODELS, SETTINGS = "questions", "models and questions", "settings"
"""What was drawn again for an interval."""

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

    One says what to expect of other settings (see `over_settings`), one what to expect of other models and
    questions of these: with $x_{sm}$ the numbers of the $k_s$ models of each of $S$ settings, the models'
    part is Student's

    $$\pm t_{f} \sqrt{\sum_s v_s}, \quad v_s = \frac{\operatorname{var}_m x_{sm}}{S^2 k_s}, \quad
      f = \frac{(\sum_s v_s)^2}{\sum_s v_s^2 / (k_s - 1)},$$

    and the questions', drawn again in each setting, the same for its models, adds to it (see `over_seeds`).

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

    Those of means are Student's; those of ranks come of drawing settings again.
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
    """How much higher one measure's normalised number is than another's, the mean over settings."""
    numbers = _by_setting(_of_metric(rows, metric, ["setting", "method"]))
    wide = numbers.pivot(index="setting", columns="method", values="value")
    wide = wide.reindex(columns=list({name: None for pair in pairs for name in pair}))
    return [_student((wide[first] - wide[second]).dropna(), most=np.inf) for first, second in pairs]


def method_comparisons(rows: pd.DataFrame, metric: str, reference: str | None = None) -> pd.DataFrame:
    r"""Whether two measures differ on the same items: sign flips, with Holm's correction within each setting.

    With $d_i$ a question's difference, the mean over the models that were asked it, $p$ is how often
    $|\sum_i \pm d_i| \ge |\sum_i d_i|$. The hypothesis is about these models: one question to three models is
    one question.
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
    """The number of every model that has one, and with its items drawn again, the same for one `draw`."""
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
    """The mean over settings of the means of their models, its interval, and what was drawn again for it."""
    if not all(settings):
        return {"value": np.nan, "low": np.nan, "high": np.nan, "n": 0, "over": QUESTIONS}
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
    drawn = {"n": n, "over": MODELS if several else QUESTIONS}
    return {"value": mean, "low": float(low), "high": _at_most(high, mean), **drawn}


def _student(values: pd.Series, most: float) -> Estimate:
    """The mean over settings with Student's interval."""
    if values.empty:
        return NOTHING
    found = over_seeds(values.to_numpy(float))
    return found._replace(high=_at_most(found.high, found.value, most))


def _at_most(high: float, value: float, most: float = 1.0) -> float:
    """The end of an interval of what is at most perfect; as it is, of what is better (NaN stays NaN)."""
    return float(high) if value > most else float(np.minimum(high, most))


@lru_cache(maxsize=64)
def _times(n: int, seed: int = 0) -> Float[np.ndarray, "draw item"]:
    """How often each of n items is in each draw."""
    return np.concatenate([*redrawn(n, seed)]).astype(np.float64)


def _by_flips(apart: Float[np.ndarray, "item pair"], seed: int = 0) -> Float[np.ndarray, " pair"]:
    """How often flipped signs do as well; the one arrangement that was seen counts among them."""
    rng, as_large, small = np.random.default_rng(seed), np.zeros(apart.shape[1]), apart.astype(np.float32)
    seen = np.abs(small.sum(0)) - 1e-5  # rounding
    for _ in range(FLIPS // _BLOCK):
        signs = 2 * rng.integers(0, 2, (_BLOCK, len(apart)), dtype=np.int8) - 1
        as_large += (np.abs(signs.astype(np.float32) @ small) >= seen).sum(0)
    return (as_large + 1) / (FLIPS + 1)
