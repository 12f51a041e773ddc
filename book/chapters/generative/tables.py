"""The chapter's tables: how often methods find the needle or the name, and the rows of a record."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from attnlib import plots
from attnlib.attribution.registry import METHODS
from attnlib.pieces import tokens_of
from attnlib.rollout import GenerativeRollout
from attnlib.stats.comparisons import corrected
from attnlib.stats.summaries import summarise
from book.chapters.generative.measures import AMONG, CHANCE, READINGS, Among, NeedleRun
from book.chapters.generative.study import filtered_by_study

TOP = (1, 5, 10)
"""How many of the highest tokens the needle is looked for among."""


def needle_table(run: NeedleRun, *, among: Among = "prompt") -> pd.DataFrame:
    r"""How often each method has a needle token among its top `TOP`, with Wilson's interval."""
    if run.ranks.empty:
        raise ValueError(
            f"the model answered none of the {len(run.items)} items, so there is nothing to find; ask for "
            "fewer facts, take a larger model, or call needle_ranks(..., only_answered=False) to try the code"
        )
    rank, count, keys = f"rank_{among}", f"candidates_{among}", ["method", "k"]
    ranks, items = run.ranks, run.ranks.drop_duplicates("item").assign(method=CHANCE)
    found = pd.concat([ranks.assign(k=each, found=ranks[rank] <= each) for each in TOP])
    drawn = {each: np.minimum(each, items[count]) for each in TOP}
    missed = [stats.hypergeom.pmf(0, items[count], items["needles"], drawn[each]) for each in TOP]
    blind = pd.concat([items.assign(k=each, value=1 - gone) for each, gone in zip(TOP, missed, strict=True)])
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


def needle_shares_table(shares: pd.DataFrame) -> pd.DataFrame:
    """`needle_shares` as a table: a row per method, and a column per set of candidates and `k`."""
    table = shares.pivot(index="method", columns=["among", "k"], values="value")
    table = table.loc[shares["method"].unique()]
    return table.set_axis([*map("top {0[1]} of the {0[0]}".format, table.columns)], axis=1)


CANDIDATES = ("facts", "facts, filtered", "prompt", "prompt, filtered")
"""Sets of candidates in the order of the page."""


def study_readouts(shares: pd.DataFrame) -> pd.DataFrame:
    """The rows of `needle_shares` for the top 5, by the three `READINGS` and by chance."""
    of_top = shares[shares["k"].eq(5) & shares["among"].isin(CANDIDATES)]
    parts = [of_top[of_top["method"] == name] for name in (*READINGS, CHANCE)]
    rows = pd.concat(parts)
    return rows.assign(among="top 5 of the " + rows["among"])


def study_readouts_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `study_readouts` as texts in percent, a column per set of candidates."""
    table = plots.in_cells(rows, ["method"], "among", unit="%")
    return table[[f"top 5 of the {name}" for name in CANDIDATES]]


def names_found(names: pd.DataFrame) -> pd.DataFrame:
    """The rows of `names_table` on finding the decisive name; `asked` holds the form and number of texts."""
    said = {"first": "named first", "right": "more than the other"}
    rows = names[names["asked"].isin(said) & names["method"].ne("model")]
    asked = rows["form"] + ": " + rows["asked"].map(said) + " (n = " + rows["n"].astype(str) + ")"
    return rows.assign(asked=asked)


def four_layers(kinds: pd.DataFrame) -> pd.DataFrame:
    """The share of rollout on each kind of token in the first, the last and two middle layers of a model."""
    last = kinds["layer"].max()
    rows = kinds[kinds["layer"].isin({1, (last + 1) // 3, (2 * last + 1) // 3, last})]
    return rows.pivot_table(index=["model", "layer"], columns="kind", values="value", sort=False)


def weather_statements(weather: GenerativeRollout, tokenizer: Any) -> pd.DataFrame:
    """The study's statements on its prompt about the weather, and whether this model shows them."""
    top = [
        plots.visible(token.text).strip("␣▁Ġ ") for token in weather.top(3, filtered_by_study, generated=0)
    ]
    peaks = {}
    for word in ("sunny", "weather"):
        layers = weather.of(0)[slice(*tokens_of(word, weather.prompt.tolist(), tokenizer))].sum(0)
        peaks[word] = float(layers.max() / layers.sum())
    largest = weather.top(1, (), generated=0)[0]
    rows = [
        (
            "the answer's three largest tokens are sunny, weather, How",
            ", ".join(top),
            top == ["sunny", "weather", "How"],
        ),
        (
            "weather spikes in one layer, sunny is spread over layers",
            f"peak of weather {peaks['weather']:.2f}, of sunny {peaks['sunny']:.2f}",
            peaks["weather"] > peaks["sunny"],
        ),
        (
            "common words and punctuation take the most, and have to be filtered out",
            f"the largest of all tokens is {plots.visible(largest.text)} ({largest.mass:.2f}), "
            f"place {largest.position} of the prompt",
            filtered_by_study(largest.text),
        ),
    ]
    table = pd.DataFrame(rows, columns=["the study says", "this model", "verdict"])
    return table.assign(verdict=table["verdict"].map({True: "shown", False: "not shown"}))


def measured(
    masses: pd.DataFrame, shares: pd.DataFrame | None, names: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The rows to record: mean masses per model, kind and layer, and extremes; shares of needles and names.

    The extremes are the least and the largest mass on the first token, half-way through the layers. They
    replace an interval, which three prompts do not support.
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
