"""Is attention the cause of a failure? Effects of changed attention on answers, and verdicts.

Gains are recorded; a verdict is computed from the records whenever they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from attnlib.generators.algorithmic import TASKS
from attnlib.measures import evaluate_rows
from attnlib.measures.returned import is_followed
from attnlib.stats import corrected, p_over_seeds, pooled, summarise, table_over_seeds
from book.chapters.reasoning import intervention
from book.chapters.reasoning.algorithmic_reasoning import AlgorithmicReasoning, ReasoningRun
from book.chapters.reasoning.intervention import RANDOM, REFERENCE
from book.chapters.records import learned_best, made_alike

CAUSE, PART, NONE, NO_LOSS = "cause", "part of the cause", "not significant", "no significant loss"
"""What attention may be of a failure; the last where there is no failure to explain."""

HALF = 0.5
"""So much of what is lost out of distribution should come back for attention to be the cause."""

LEVEL = 0.05
"""Of the verdicts of one table together."""

NOTHING = "no change"
"""Of attention: a model as it is."""

RIGHT = "right tokens {split}, {change}, {heads} heads"
"""What accuracy under changed attention is recorded as."""

GAIN, GAIN_OF_ONE = "gain, by {change}", "gain of one seed, by {change}"
"""What the gain of the best change is recorded as, and what each seed adds to one over seeds."""

BESIDE_GAINS = ("heads", "ID", "OOD", "changed", "control", "closed", "closed in", "seeds")
"""Numbers of `best_gains` that are recorded, too."""

OVER_SEEDS = ", over seeds"
"""Stands behind the kind of models where a row is of all seeds together."""

_GAIN = r"^(?:gain|verdict: .+), by (?P<change>.+)$"  # older records froze a verdict in the name

MAY_DIFFER = (
    *("tasks", "seeds", "supervised", "positions", "strengths", "further", "text", "longest", "device"),
)
"""Parameters in which runs may differ whose models of one kind are trained and tested alike."""

_APART = r"OOD length (?:1-10$|100-130)"


def losses(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """What models lose out of distribution: their accuracy in it less that out of it."""
    inside, outside = (
        rows[rows["metric"].eq(RIGHT.format(split=split, change=NOTHING, heads=0))]
        .set_index([*by, "seed"])[["value", "low", "high"]]
        .astype(float)
        for split in ("ID", "OOD")
    )
    lost = inside["value"] - outside["value"]
    down = np.hypot(inside["value"] - inside["low"], outside["high"] - outside["value"])
    up = np.hypot(inside["high"] - inside["value"], outside["value"] - outside["low"])
    each = pd.DataFrame({"value": lost, "low": lost - down, "high": lost + up}).reset_index()
    found = table_over_seeds(each, by)
    alone = each.groupby(list(by), sort=False)[["low", "high"]].first().reset_index(drop=True)
    found = found.fillna({name: alone[name] for name in ("low", "high")}).drop(columns="n")
    return found.rename(columns={"value": "lost", "low": "lost low", "high": "lost high"})


def judged(gains: pd.DataFrame, level: float = LEVEL, enough: float = HALF) -> pd.DataFrame:
    """Verdicts of one table: does attention cause the failure out of distribution?

    There is no loss if its interval is not above 0. Attention is the cause if a change of it has a gain that
    is shown (an interval above 0, and p below the level by Holm's method over all rows with a loss) and
    enough of what was lost comes back; it is a part if less does.
    """
    loses = gains["lost low"] > 0
    found = gains.assign(p_holm=corrected(np.where(loses, p_over_seeds(gains), np.nan)))
    shown = (found["low"] > 0) & (found["p_holm"] < level)
    cases = [~loses, ~shown, found["closed"] >= enough]
    return found.assign(verdict=np.select(cases, [NO_LOSS, NONE, CAUSE], PART))


def recorded_gains(rows: pd.DataFrame, seeds: int = 2) -> pd.DataFrame:
    """What the best change of attention gains, of all that is recorded with several seeds; not judged yet.

    Records that differ in their seeds only are taken together, though each chose its change by its own.
    """
    by = ["way", "kind", "ranges"]
    columns = ["kind", "ranges", "change", "value", "low", "high", "n", *BESIDE_GAINS]
    if "closed in" not in rows:
        return pd.DataFrame(columns=[*columns, "lost", "lost low", "lost high"], dtype=float)
    rows = with_ways(rows)
    gains = rows.assign(change=rows["metric"].str.extract(_GAIN)["change"])
    gains = gains[gains["change"].notna() & gains["seeds"].ge(seeds)]
    gains = gains.astype(dict.fromkeys(("n", "heads", "closed in", "seeds"), int))
    return (
        together(of_other_seeds(gains, rows, by), by)[["way", *columns]]
        .merge(losses(rows, by), on=by)
        .drop(columns="way")
    )


def with_ways(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with a column `way`: the first record of runs that differ in no more than `MAY_DIFFER`."""
    return rows.assign(way=rows["record"].map(made_alike(rows["record"].unique(), MAY_DIFFER)))


def of_other_seeds(gains: pd.DataFrame, rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Of several lots of one kind, those that share no seed, the largest first: a seed counts once."""
    of = rows.dropna(subset=["seed"]).groupby(["record", "kind"])["seed"].agg(frozenset)
    taken: dict[tuple[Any, ...], frozenset[float]] = {}
    kept: list[Any] = []
    for place, row in gains.sort_values("seeds", ascending=False, kind="stable").iterrows():
        key, seeds = tuple(row[[*by]]), of.get((row["record"], row["kind"]), frozenset())
        before = taken.get(key, frozenset())
        if not before & seeds:
            taken[key] = before | seeds
            kept.append(place)
    return gains[gains.index.isin(kept)]


def together(gains: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Gains of several sets of seeds, pooled (`attnlib.stats.pooled`); other numbers are means."""
    weights = gains["seeds"]
    means = {name: gains[name] * weights for name in ("ID", "OOD", "changed", "control")}
    sums = gains.assign(**means).groupby(list(by), sort=False)
    whole = sums[["seeds", "closed in", *means]].sum()
    whole[[*means]] = whole[[*means]].div(whole["seeds"], axis=0)
    whole["change"], whole["heads"] = sums["change"].agg(_listed), sums["heads"].max()
    whole["closed"] = (whole["changed"] - whole["OOD"]) / (whole["ID"] - whole["OOD"]).replace(0, np.nan)
    alone = gains.drop_duplicates(list(by)).set_index(list(by))
    single = sums.size().eq(1)  # as it was recorded, bit for bit
    names = ["value", "low", "high", "n"]
    numbers = pooled(gains, by).set_index(list(by))
    whole[names] = numbers[names].where(~single, alone[names], axis=0)
    whole = whole.assign(**{name: whole[name].where(~single, alone[name]) for name in (*means, "closed")})
    numbers_of = dict.fromkeys((*means, "closed", "value", "low", "high"), float)
    return whole.astype(numbers_of | dict.fromkeys(("n", "heads", "closed in", "seeds"), int)).reset_index()


def _listed(changes: pd.Series) -> str:
    return " or ".join(dict.fromkeys(changes))


def verdict_tables(rows: pd.DataFrame, **rule: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The verdicts over seeds of all recorded models from random weights, corrected table by table."""
    found = recorded_gains(of_seeds(rows))
    own = own_positions(found)
    several, by_positions = (
        judged(part, **rule).reset_index(drop=True) for part in (found[~own], found[own])
    )
    return several, by_positions


def of_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Of models from random weights, of several seeds; of a kind trained in several ways, the best."""
    if rows.empty:
        return rows
    named = rows["run"].str.contains(rf", seed \d|{OVER_SEEDS}$")
    of_several = rows[named & rows["setting"].str.contains("from scratch")]
    by_way = with_ways(of_several)
    return learned_best(by_way, ["kind", "ranges"], "teacher-forced exact match ID", "way").drop(
        columns="way"
    )


def shares_of_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `of_seeds` of single models that are shares: without gains, which may be below 0."""
    found = of_seeds(rows).dropna(subset=["seed"])
    return found[~found["metric"].str.startswith("gain")]


def own_positions(rows: pd.DataFrame) -> pd.Series:
    """Whether models are of those that differ in nothing but their positions."""
    return rows["kind"].astype(str).str.endswith(" positions")


def apart(rows: pd.DataFrame) -> pd.Series:
    """Whether ranges are other than those of all tasks, towards longer texts.

    Such are those of reversal tested on shorter strings, and of flip-flop tested on ten times as many
    commands.
    """
    return rows["ranges"].astype(str).str.contains(_APART)


ENLARGED, OWN = "the enlarged reference", "as in distribution"
"""Other changes of attention: redirected to the reference and what the study leaves out of it; and shared
among kinds of keys as the model itself does in distribution."""

CONTROL = {REFERENCE: RANDOM, ENLARGED: f"{RANDOM}, as many", OWN: NOTHING}
"""The control of each change: redirected to as many random keys, where there is a reference."""


def ranked_heads(p: AlgorithmicReasoning, run: ReasoningRun, model: nn.Module) -> pd.DataFrame:
    """The heads of a model by how much attention they have on the reference (on validation texts)."""
    found = intervention.head_masses(model, p.batches(run.task, "valid"))
    table = summarise(found, ["layer", "head", "name"], "mass", whole="rows", beside=["uniform"])
    return table.sort_values("value", ascending=False, kind="stable").reset_index(drop=True)


def changeable(p: AlgorithmicReasoning, models: Mapping[str, nn.Module]) -> list[ReasoningRun]:
    """Runs whose attention is to be changed: none without `strengths`, or of a module of an unknown kind."""
    return [run for run in p.runs() if p.strengths and is_followed(models[run.name])]


def changed_attention(p: AlgorithmicReasoning, models: Mapping[str, nn.Module]) -> pd.DataFrame | None:
    """Accuracy out of distribution while attention is changed, wholly, in some heads or in all."""
    found = list[pd.DataFrame]()
    for run in changeable(p, models):
        model, table = models[run.name], ranked_heads(p, run, models[run.name])
        heads = list(zip(table["layer"], table["head"], strict=True))
        shares = intervention.kind_shares(model, p.batches(run.task, "valid"))
        onto = {REFERENCE: p.batches(run.task, "ood")}
        if TASKS[run.task].ENLARGES:
            onto[ENLARGED] = p.batches(run.task, "ood", enlarged=True)
        about: dict[str, Any] = {"run": run.name, "kind": run.kind, "seed": run.seed}
        for split in ("id", "ood"):
            alone = evaluate_rows(model, p.batches(run.task, split), follow=())
            found.append(_right(alone).assign(**about, split=split.upper(), heads=0, change=NOTHING))
        for number in sorted({1, p.reinforced_heads, len(heads)}):
            rows = {OWN: intervention.shared_rows(model, onto[REFERENCE], heads[:number], shares)}
            for change, batches in onto.items():
                pushed = intervention.reinforcement_rows(model, batches, heads[:number], [1.0])
                rows[change] = pushed[pushed["onto"] == REFERENCE]
                rows[CONTROL[change]] = pushed[pushed["onto"] == RANDOM]
            for change, part in rows.items():
                found.append(_right(part).assign(**about, split="OOD", heads=number, change=change))
    return pd.concat(found, ignore_index=True) if found else None


def best_gains(rows: pd.DataFrame) -> pd.DataFrame:
    """What the best change of attention gains out of distribution, for each kind of model.

    A gain is over the better of its control and no change. The change, and in how many heads, is chosen by
    that on the even texts; numbers are of the odd ones.
    """
    found = list[dict[str, Any]]()
    for kind, own in rows.groupby("kind", sort=False):
        even, odd = own[own["sample"] % 2 == 0], own[own["sample"] % 2 == 1]
        tried = own.loc[own["change"].isin(CONTROL), ["change", "heads"]].drop_duplicates()
        possible = list(zip(tried["change"].tolist(), tried["heads"].tolist(), strict=True))
        change, number = max(possible, key=lambda way: _gain(even, _rival(even, *way), *way)["value"].mean())
        gain = _gain(odd, _rival(even, change, number), change, number)
        ways = {"OOD": NOTHING, "changed": change, "control": CONTROL[change]}
        texts = {"ID": odd[odd["split"] == "ID"]}
        texts |= {name: _outside(odd, way, number) for name, way in ways.items()}
        by_seed = pd.DataFrame({name: each.groupby("seed")["value"].mean() for name, each in texts.items()})
        means = by_seed.mean()
        lost = means["ID"] - means["OOD"]
        closed = (means["changed"] - means["OOD"]) / lost if lost else np.nan
        of_each = (by_seed["changed"] - by_seed["OOD"]) / (by_seed["ID"] - by_seed["OOD"])
        several = len(by_seed) > 1
        over_texts = summarise(gain, bounds=(-1.0, 1.0))
        interval = table_over_seeds(gain.assign(of="seeds"), ["of"]) if several else over_texts
        (numbers,) = interval[["value", "low", "high", "n"]].to_dict("records")
        run = f"{kind}{OVER_SEEDS}" if several else own["run"].iloc[0]
        row = {"run": run, "kind": kind, "change": change, "heads": number, **means, **numbers}
        row |= {"of": "seeds" if several else "texts", "closed": closed, "seeds": len(by_seed)}
        found.append(row | {"closed in": int((of_each >= HALF).sum())})
    return pd.DataFrame(found)


def gains_by_seed(rows: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """What the change of each gain over seeds gains in each of them."""
    found = [pd.DataFrame(columns=["run", "kind", "seed", "change", "value", "low", "high", "n"])]
    best: Any
    for best in gains[gains["of"].eq("seeds")].itertuples():
        odd = rows[rows["kind"].eq(best.kind) & (rows["sample"] % 2 == 1)]
        gain = _gain(odd, _rival(odd, best.change, best.heads), best.change, best.heads)
        runs = odd.drop_duplicates("seed").set_index("seed")["run"]
        each = summarise(gain, ["seed"], bounds=(-1.0, 1.0))
        found.append(each.assign(run=each["seed"].map(runs), kind=best.kind, change=best.change))
    return pd.concat(found[1:] or found)


def right_tokens(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of tokens that are right under every change, as it is recorded."""
    table = summarise(rows, ["run", "kind", "seed", "split", "change", "heads"])
    metric = [RIGHT.format_map(row) for row in table.to_dict("records")]
    return table.assign(metric=metric).drop(columns=["split", "change", "heads"])


def _right(rows: pd.DataFrame) -> pd.DataFrame:
    """The share of tokens that are right, by text."""
    shares = rows.groupby("sample")["correct"].mean()
    return shares.rename("value").reset_index()


def _outside(rows: pd.DataFrame, change: str, number: int) -> pd.DataFrame:
    """Texts out of distribution under a change in so many heads."""
    heads = 0 if change == NOTHING else number
    return rows[(rows["split"] == "OOD") & (rows["change"] == change) & (rows["heads"] == heads)]


def _rival(rows: pd.DataFrame, change: str, number: int) -> str:
    """What does better: a change's control, or no change."""
    both = [NOTHING, CONTROL[change]]
    return max(both, key=lambda each: _outside(rows, each, number)["value"].mean())


def _gain(rows: pd.DataFrame, rival: str, change: str, number: int) -> pd.DataFrame:
    """What a change adds to a rival, by seed and text."""
    before = _outside(rows, rival, number)[["seed", "sample", "value"]]
    both = _outside(rows, change, number).merge(before, on=["seed", "sample"], suffixes=("", " before"))
    return both.assign(value=both["value"] - both["value before"])[["seed", "sample", "value"]]
