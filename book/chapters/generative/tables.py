"""The chapter's tables: how often methods find the needle or the name, and the rows of a record."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from attnlib.attribution.registry import METHODS
from attnlib.stats.comparisons import corrected
from attnlib.stats.summaries import summarise
from book.chapters.generative.measures import AMONG, CHANCE, Among, NeedleRun


def needle_table(run: NeedleRun, k: Collection[int] = (1, 5, 10), *, among: Among = "prompt") -> pd.DataFrame:
    r"""How often each method has a needle token among its top `k`, with Wilson's interval."""
    if run.ranks.empty:
        raise ValueError(
            f"the model answered none of the {len(run.items)} items, so there is nothing to find; ask for "
            "fewer facts, take a larger model, or call needle_ranks(..., only_answered=False) to try the code"
        )
    rank, count, keys = f"rank_{among}", f"candidates_{among}", ["method", "k"]
    ranks, items = run.ranks, run.ranks.drop_duplicates("item").assign(method=CHANCE)
    found = pd.concat([ranks.assign(k=each, found=ranks[rank] <= each) for each in k])
    drawn = {each: np.minimum(each, items[count]) for each in k}
    missed = [stats.hypergeom.pmf(0, items[count], items["needles"], drawn[each]) for each in k]
    blind = pd.concat([items.assign(k=each, value=1 - gone) for each, gone in zip(k, missed, strict=True)])
    blind = summarise(blind, keys)
    blind = blind.assign(low=blind["value"], high=blind["value"])
    return pd.concat([summarise(found, keys, "found"), blind], ignore_index=True)


def needle_comparison(
    run: NeedleRun, k: int = 5, *, among: Among = "prompt", reference: str | None = None
) -> pd.DataFrame:
    """Whether two methods differ in how often they have a needle token among their top `k`.

    By McNemar's exact test on items that both were run on, with Holm's correction over all pairs.
    """
    table = run.ranks.pivot(index="item", columns="method", values=f"rank_{among}")
    methods = [method for method in dict.fromkeys([*METHODS, *run.ranks["method"]]) if method in table]
    if reference is not None and reference not in methods:
        raise ValueError(f"reference should be one of {methods}; got {reference!r}")
    pairs = [pair for pair in itertools.combinations(methods, 2) if reference is None or reference in pair]
    rows = []
    for first, second in pairs:
        both = table[[first, second]].dropna() <= k
        only_first = int((both[first] & ~both[second]).sum())
        only_second = int((both[second] & ~both[first]).sum())
        apart, n = only_first + only_second, len(both)
        p = stats.binomtest(only_first, apart, 0.5).pvalue if apart else 1.0
        difference = (only_first - only_second) / n if n else float("nan")
        rows.append((first, second, only_first, only_second, difference, n, float(p)))
    names = ["first", "second", "only_first", "only_second", "difference", "n", "p"]
    found = pd.DataFrame(rows, columns=names)
    return found.assign(p_holm=corrected(found["p"].to_numpy(float)))


def chance_clause(found: Any, chance: Any) -> str:
    """How often something is found beside a blind draw, as a part of a sentence."""
    if found is None or chance is None:
        return "(not run)"
    if found["low"] > chance["value"]:
        return "more often than chance"
    return "less often than chance" if found["high"] < chance["value"] else "no more often than chance"


def names_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Shares of the items by form and measure, with intervals over items."""
    keys, blind = ["form", "asked", "method"], rows["method"].eq(CHANCE)
    flags = rows[~blind].melt(["form", "method"], ["answered", "first", "right"], "asked").dropna()
    means = rows.melt(["form", "method"], ["share"], "asked").dropna()
    even = rows[blind].melt(["form", "method"], ["first", "right"], "asked").dropna()
    found = pd.concat(
        [
            summarise(flags.astype({"value": bool}), keys),
            summarise(pd.concat([means, even]).astype({"value": float}), keys),
        ],
        ignore_index=True,
    )
    of_chance = found["method"].eq(CHANCE)
    return found.assign(**{end: found[end].where(~of_chance, found["value"]) for end in ("low", "high")})


def needle_shares(run: NeedleRun) -> pd.DataFrame:
    """`needle_table` for every set of candidates, `among`: the prompt, the facts, and each filtered."""
    sets: list[Any] = [*AMONG, *(f"{name}, filtered" for name in AMONG)]
    tables = {among: needle_table(run, among=among) for among in sets}
    return pd.concat(tables, names=["among"]).reset_index("among").reset_index(drop=True)


def measured(
    masses: pd.DataFrame, shares: pd.DataFrame | None, names: pd.DataFrame | None = None
) -> pd.DataFrame:
    """What is recorded: masses, a mean per model, kind and layer, and its ends; shares of needles and names.

    The ends are the least and the largest share of the first token, half-way through the layers: an interval
    of three prompts could say no more.
    """
    where = ["model", "kind", "layer"]
    kinds = summarise(masses, ["model", "layer", "kind"])
    parts = [
        kinds.assign(metric=kinds["model"] + ", " + kinds["kind"] + ", layer " + kinds["layer"].astype(str))
    ]
    middle = (masses["layer"].max() + 1) // 2
    ends = masses[masses["kind"].eq("first token") & masses["layer"].eq(middle)].groupby(where)["value"]
    for name, values in {"least": ends.min(), "most": ends.max()}.items():
        found = values.reset_index().assign(n=ends.size().to_numpy())
        metric = found["model"] + f", first token, layer {middle}, {name}"
        parts.append(found.assign(metric=metric, low=found["value"], high=found["value"]))
    if shares is not None:
        asked = "needle in top " + shares["k"].astype(str) + " of the " + shares["among"]
        parts.append(shares.assign(metric=asked + ": " + shares["method"]))
    if names is not None:
        parts.append(names.assign(metric=names["form"] + ", " + names["asked"] + ": " + names["method"]))
    return pd.concat(parts, ignore_index=True)[["metric", "value", "low", "high", "n"]]
