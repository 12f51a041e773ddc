"""What comes of heads that were drawn, graded and put together: tables, and the numbers of the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from attnlib import stats
from book.chapters.copying import learning
from book.chapters.copying.measures import PREFERENCES


@dataclass(frozen=True)
class Graded:
    """Heads, and how models with one of them learned, as `learning` grades their runs and the heads.

    Attributes:
        curves: columns `head`, `order`, `step`, `n` and `accuracy`.
    """

    curves: pd.DataFrame
    runs: pd.DataFrame
    heads: pd.DataFrame

    def of(self, grade: str) -> list[int]:
        """The heads of a grade."""
        return self.heads.loc[self.heads["grade"] == grade, "head"].tolist()

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each grade."""
        return {grade: len(self.of(grade)) for grade in ("good", "bad", "neither")}

    def __str__(self) -> str:
        """How many there are of each grade, in words."""
        said = ", ".join(f"{count} {grade}" for grade, count in self.counts.items())
        return f"{len(self.heads)} heads drawn: {said}"

    def over_training(self) -> pd.DataFrame:
        """The mean accuracy of the heads of each grade over training, with Student's interval over heads.

        Columns `task` (how many heads, of which grade), `metric`, `step`, `value`, `low`, `high` and `n`. A
        head's own is the mean of its runs.
        """
        if not len(self.heads):
            return pd.DataFrame()
        means = self.curves.groupby(["head", "step"], as_index=False)[["accuracy", "n"]].mean()
        named = self.heads.assign(
            task=self.heads["grade"].map(lambda grade: f"{len(self.of(grade))} {grade}"),
            place=self.heads["grade"].map({"good": 0, "neither": 1, "bad": 2}),
        )
        rows = means.merge(named, on="head").sort_values(["place", "head", "step"])
        return learning.curves_over_seeds(rows.rename(columns={"head": "seed"}), ["accuracy"])


SECOND = "good, share of second runs after a {} first"
"""The metrics of a record that say whether a head stays good."""

OF_BASES = {
    SECOND.format("good"): "second run good, after a good first one",
    SECOND.format("bad"): "second run good, after a bad first one",
    "AUC of on it, good against bad": "AUC: attention on the symbol",
    "AUC of beyond place, good against bad": "AUC: content-specific attention",
    "learned, several heads, less 4 bad": "learned: 1 good of 4, minus 4 bad",
    "the good head leads": "the good head leads",
}
"""What is asked of every base, by the metric of a record."""

AT_SIZE = {
    "good, share of heads": "good heads",
    "bad, share of heads": "bad heads",
    SECOND.format("good"): OF_BASES[SECOND.format("good")],
    SECOND.format("bad"): OF_BASES[SECOND.format("bad")],
    "AUC of beyond place, good against not good": "AUC: good against all others",
}
"""What is asked of bases of the study's own size, where hardly any head is bad."""

SIZE = 256
"""Size of the hidden states of the study's own models."""


STAYS_GOOD = "stays good"
"""How much more often a second run is good after a good first one than after a bad one."""

DIFFERENCES = (STAYS_GOOD, OF_BASES["learned, several heads, less 4 bad"])
"""Of what is asked of bases, those that are no shares."""


def of_bases(rows: pd.DataFrame, hidden: int = 32, asked: Mapping[str, str] = OF_BASES) -> pd.DataFrame:
    """What the records of one size, by default the chapter's own, say of heads, base by base."""
    rows = rows.reindex(columns=["setting", "task", "metric", *stats.Estimate._fields])
    base = rows["setting"].astype(str).str.extract(rf"hidden {hidden},.*base (\d+)\b")[0]
    kind = rows["task"].isin(["heads", "3 bad, 1 good"])
    found = rows[base.notna() & kind & rows["metric"].isin(asked)].assign(base=base)
    found = found.assign(asked=found["metric"].map(asked)).sort_values("base", kind="stable")
    return found.drop_duplicates(["base", "asked"])[["base", "asked", "value", "low", "high", "n"]]


def over_bases(found: pd.DataFrame) -> pd.DataFrame:
    """Means over bases with Student's interval over them, each of which is a draw of all but the heads."""
    wide = found.pivot(index="base", columns="asked", values="value").reindex(columns=[*OF_BASES.values()])
    good, bad = (OF_BASES[SECOND.format(first)] for first in ("good", "bad"))
    wide = wide.assign(**{STAYS_GOOD: wide[good] - wide[bad]})
    means = {
        str(name): stats.over_seeds(column.dropna().to_numpy(), share=name not in DIFFERENCES)
        for name, column in wide.items()
        if column.notna().any()
    }
    return pd.DataFrame(means, index=[*stats.Estimate._fields]).T


@dataclass(frozen=True)
class HeadResults:
    """Heads, what they preferred before training, and models of several of them.

    Attributes:
        together: of models of several heads, columns `task`, `seed`, `step` and `accuracy`.
        times: of the same; see `learning.learned_at`.
        leads: in what share of models with one good head that one looks at the right place most.
        budget: steps of models of several heads.
    """

    graded: Graded
    preferences: pd.DataFrame
    together: pd.DataFrame
    times: pd.DataFrame
    leads: stats.Estimate | None
    budget: int

    @cached_property
    def shares(self) -> pd.DataFrame:
        """How many heads are good and bad: see `learning.grade_shares`."""
        return learning.grade_shares(self.graded.runs, self.graded.heads)

    @cached_property
    def predicted(self) -> pd.DataFrame:
        """Whether preferences tell good heads from others: see `learning.predictions`."""
        return learning.predictions(self.preferences, self.graded.heads, PREFERENCES)

    @cached_property
    def learned(self) -> pd.DataFrame:
        """How many models of several heads learn, when, and how they end: a row per kind and metric."""
        if not len(self.times):
            return pd.DataFrame(columns=["task", "metric", "value", "low", "high", "n", "count"])
        last = self.together[self.together["step"] == self.budget]
        tables = {
            "learned": learning.shares_learned(self.times, [self.budget]),
            "median step": learning.median_steps(self.times),
            "accuracy at the end": learning.curves_over_seeds(last, ["accuracy"]),
        }
        named = [table.assign(metric=f"{metric}, several heads") for metric, table in tables.items()]
        return pd.concat(named, ignore_index=True).drop(columns="step")

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Of every two kinds of models of several heads, how they differ: see `learning.pairs_learned`."""
        return learning.pairs_learned(self.times, self.budget) if len(self.times) else pd.DataFrame()

    def rows(self) -> pd.DataFrame:
        """What is recorded, all with intervals; a median that is never reached has no row."""
        share = self.shares["grade"] + ", share of " + self.shares["metric"]
        auc = "AUC of " + self.predicted["metric"] + ", good against " + self.predicted["against"]
        of_heads = (self.shares.assign(metric=share), self.predicted.assign(metric=auc))
        tables = [*(table.assign(task="heads") for table in of_heads), self.learned]
        if len(self.pairs):
            tables.append(self.pairs.assign(metric="learned, several heads, less " + self.pairs["than"]))
        if self.leads:
            leads = {"metric": "the good head leads", "task": "heads"} | self.leads._asdict()
            tables.append(pd.DataFrame([leads]))
        columns = ["metric", "task", "budget", "value", "low", "high", "n", "count", "p", "p_holm"]
        found = pd.concat([table for table in tables if len(table)] or [pd.DataFrame(columns=columns)])
        return found.reindex(columns=columns)[found["value"].abs() < float("inf")].reset_index(drop=True)

    def quoted(self) -> pd.DataFrame:
        """The numbers that the text quotes, by `name`; of what there is not, they are NaN, and counts 0."""
        good = self.shares[self.shares["grade"] == "good"].set_index("metric")
        kinds = self.learned[self.learned["metric"] == "learned, several heads"]
        auc = self.predicted[(self.predicted["metric"] == "on it") & (self.predicted["against"] == "bad")]
        rows = {"auc": auc, "leads": pd.DataFrame([self.leads] if self.leads else [])}
        for first in ("good", "bad"):
            rows[f"good after {first}"] = good[good.index == f"second runs after a {first} first"]
        for name, ending in {"all bad": " bad", "one good": " good", "random": "graded"}.items():
            rows[name] = kinds[kinds["task"].str.endswith(ending)]
        table = pd.DataFrame(
            [{"name": name, **next(iter(r.to_dict("records")), {})} for name, r in rows.items()]
        )
        table = table.reindex(columns=["name", "value", "low", "high", "n", "count"])
        return table.fillna({"n": 0, "count": 0}).astype({"n": int, "count": int})
