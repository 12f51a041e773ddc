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
from attnlib.stats.intervals import Estimate, interval, redrawn
from attnlib.stats.rank_measures import kendall_tau
from attnlib.stats.resampling import Statistic
from attnlib.stats.seeds import over_seeds

LEAST = 0.05
"""How far chance has to be from perfect, on average, for a normalised number."""

FLIPS = 50_000
"""Of signs, in a paired test: enough for Holm's correction over hundreds of pairs."""

_BLOCK = 5_000


def normalised(rows: pd.DataFrame, metric: str, by: Sequence[str] = ("setting", "method")) -> pd.DataFrame:
    """Normalised numbers of one metric, with intervals.

    Args:
        rows: see the module.
        metric: which.
        by: columns to split by; groups come in the order in which they appear.

    Returns:
        Columns `by`, `value`, `low`, `high`, `mean` (as it is, not normalised), `chance`, `n` (items) and
        `seeds`. The interval is by drawing items again; of several seeds, over the seeds, too (see
        `over_seeds`).

    Raises:
        ValueError: a column is missing.
    """
    part = _of_metric(rows, metric, by)
    table = []
    for key, group in part.groupby(list(by), sort=False, observed=True):
        found = _over_items(group)
        means = {"mean": group["value"].mean(), "chance": group["chance"].mean(), "n": len(group)}
        value, low, high = _estimate(found)
        numbers = {"value": value, "low": low, "high": high, **means, "seeds": len(found)}
        table.append(dict(zip(by, key, strict=True)) | numbers)
    return pd.DataFrame(table, columns=[*by, "value", "low", "high", "mean", "chance", "n", "seeds"])


def method_ranking(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Measures in the order of their normalised number, the mean over settings.

    Args:
        rows: see the module.
        metric: which.

    Returns:
        Columns `method`, `value`, `low`, `high` (items drawn again, within each setting and model; settings
        are what they are), `rank` and `rank_low`, `rank_high` (where it stands in 95 % of the draws) and
        `settings`, how many have a number. Measures that are not there for all settings have no rank, and
        stand last.
    """
    found: dict[str, list[Statistic]] = {}
    for (_, method), one in _over_seeds(_of_metric(rows, metric, ["setting", "method"])).items():
        found.setdefault(method, []).extend([one] if np.isfinite(one.value) else [])
    most = max((len(each) for each in found.values()), default=0)
    table = list[dict[str, Any]]()
    for method, parts in found.items():
        draws = np.mean([each.draws for each in parts], axis=0) if parts else np.full(1, np.nan)
        value = float(np.mean([each.value for each in parts])) if parts else np.nan
        low, high = interval(draws) if parts else (np.nan, np.nan)
        row = {"method": method, "value": value, "low": low, "high": high, "settings": len(parts)}
        table.append(row | {"draws": draws, "whole": bool(parts) and len(parts) == most})
    return _ranked(pd.DataFrame(table))


def method_differences(rows: pd.DataFrame, metric: str, pairs: Sequence[tuple[str, str]]) -> list[Estimate]:
    """How much higher one measure's normalised number is than another's, the mean over settings.

    Args:
        rows: see the module.
        metric: which.
        pairs: of measures.

    Returns:
        Of each pair the difference; its interval, by drawing items again, the same for both; and how many
        settings have both. NaN where none has.

    Raises:
        ValueError: a column is missing.
    """
    found = _over_seeds(_of_metric(rows, metric, ["setting", "method"]))
    settings = dict.fromkeys(setting for setting, _ in found)
    estimates = []
    for pair in pairs:
        both = [
            [found[setting, name] for name in pair]
            for setting in settings
            if all((setting, name) in found for name in pair)
        ]
        apart = [(a.value - b.value, a.draws - b.draws) for a, b in both if np.isfinite(a.value - b.value)]
        if not apart:
            estimates.append(Estimate(np.nan, np.nan, np.nan, 0))
            continue
        values, draws = zip(*apart, strict=True)
        ends = interval(np.mean(draws, axis=0))
        estimates.append(Estimate(float(np.mean(values)), *ends, len(apart)))
    return estimates


def method_comparisons(rows: pd.DataFrame, metric: str, reference: str | None = None) -> pd.DataFrame:
    r"""Whether two measures differ on the same items: sign flips, with Holm's correction within each setting.

    Under the hypothesis that it makes no difference which of two measures is which, every item's difference
    $d_i$ might as well be $-d_i$: $p$ is how often $|\sum_i \pm d_i| \ge |\sum_i d_i|$. Items are those of
    all seeds of a setting, and the hypothesis is about these models.

    Args:
        rows: see the module.
        metric: which.
        reference: compare only with this measure; all pairs by default.

    Returns:
        Columns `setting`, `first`, `second`, `difference` (of means, not normalised), `n`, `p`, `p_holm`.

    Raises:
        ValueError: a column is missing; or no row is of the reference.
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
        there = ~np.isnan(values[:, first] - values[:, second])
        apart = np.where(there, values[:, first] - values[:, second], 0.0)
        n, p = there.sum(0), _by_flips(apart)
        found = pd.DataFrame({"first": [names[i] for i in first], "second": [names[i] for i in second]})
        means = apart.sum(0) / np.maximum(n, 1)
        numbers = {"difference": means, "n": n, "p": p, "p_holm": corrected(p, "holm")}
        tables.append(found.assign(setting=setting, **numbers))
    columns = ["setting", "first", "second", "difference", "n", "p", "p_holm"]
    return pd.concat([pd.DataFrame(columns=columns), *tables][bool(tables) :], ignore_index=True)[columns]


def seed_stability(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Do models of other seeds rank measures alike? Kendall's tau of their normalised numbers, pair by pair.

    Returns:
        Columns `setting`, `value` (mean over pairs of seeds), `least`, `pairs` and `methods`, of settings
        with two seeds or more.
    """
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


def _over_items(group: pd.DataFrame) -> list[Statistic]:
    """The normalised number of every seed, and what it is when its items are drawn again."""
    found = []
    for _, items in group.groupby("seed", sort=False):
        parts = (items["value"] - items["chance"]).to_numpy(float)
        wholes = (items["perfect"] - items["chance"]).to_numpy(float)
        if abs(wholes.mean()) < LEAST:
            found.append(Statistic(np.nan, np.full(1, np.nan), len(items)))
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            draws = (_times(len(items)) @ parts) / (_times(len(items)) @ wholes)
        found.append(Statistic(float(parts.sum() / wholes.sum()), draws, len(items)))
    return found


def _over_seeds(part: pd.DataFrame) -> dict[tuple[str, str], Statistic]:
    """The mean over seeds, by setting and measure."""
    found = {}
    for (setting, method), group in part.groupby(["setting", "method"], sort=False, observed=True):
        seeds = _over_items(group)
        draws: np.ndarray = np.mean([each.draws for each in seeds], axis=0)
        found[str(setting), str(method)] = Statistic(
            float(np.mean([each.value for each in seeds])), draws, len(group)
        )
    return found


@lru_cache(maxsize=8)
def _times(n: int) -> Float[np.ndarray, "draw item"]:
    """How often each of n items is in each draw."""
    return np.concatenate([*redrawn(n)]).astype(np.float64)


def _estimate(found: Sequence[Statistic]) -> tuple[float, float, float]:
    defined = [each for each in found if np.isfinite(each.value)]
    if not defined:
        return np.nan, np.nan, np.nan
    draws = np.mean([each.draws for each in defined], axis=0)
    if len(defined) == 1:
        return (defined[0].value, *interval(draws))
    estimate = over_seeds([each.value for each in defined], draws)
    return estimate.value, estimate.low, estimate.high


def _ranked(table: pd.DataFrame) -> pd.DataFrame:
    """Ranks among those that are whole, in every draw."""
    whole = table[table["whole"]]
    draws = np.stack(list(whole["draws"])) if len(whole) else np.empty((0, 1))
    places = stats.rankdata(-draws.round(9), method="min", axis=0)
    ends = [interval(line.astype(float)) for line in places]
    ranks = whole.assign(
        rank=whole["value"].round(9).rank(ascending=False, method="min"),
        rank_low=[low for low, _ in ends],
        rank_high=[high for _, high in ends],
    )
    columns = ["method", "value", "low", "high", "rank", "rank_low", "rank_high", "settings"]
    rest = table[~table["whole"]].assign(rank=np.nan, rank_low=np.nan, rank_high=np.nan)
    parts = [each.sort_values("value", ascending=False) for each in (ranks, rest) if len(each)]
    return pd.concat(parts, ignore_index=True)[columns]


def _by_flips(apart: Float[np.ndarray, "item pair"], seed: int = 0) -> Float[np.ndarray, " pair"]:
    """How often flipped signs do as well; the one arrangement that was seen counts among them."""
    rng, as_large, small = np.random.default_rng(seed), np.zeros(apart.shape[1]), apart.astype(np.float32)
    seen = np.abs(small.sum(0)) - 1e-5  # rounding
    for _ in range(FLIPS // _BLOCK):
        signs = 2 * rng.integers(0, 2, (_BLOCK, len(apart)), dtype=np.int8) - 1
        as_large += (np.abs(signs.astype(np.float32) @ small) >= seen).sum(0)
    return (as_large + 1) / (FLIPS + 1)
