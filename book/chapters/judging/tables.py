"""Tables of the chapter `judging_measures`, and what is kept of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from book.chapters.judging.judged import over_settings
from book.chapters.judging.predictions import EXPECTED, GROUPS, LADDER, TODAY, chosen, halves
from book.chapters.judging.removal import Case

COLUMNS = ("tau", "somers", "ladder", "above", "halves", "known halves")
"""What `judged.agreement` says of a protocol in a setting."""

ALL = "all settings"

CHOSEN, UNTOLD = "chosen", "chosen, not told R"
"""What the text calls the judge of the rule, and that of the same rule among those that are not told R."""

TOLD = "without the first R"
"""The form that is told how many sources there are, which nobody knows where the answer is not known."""

ALONE = "tau without measures that do the same"
"""What rows of a record are called that leave out the measures of `SHARED`."""

SHARED = {
    "mask": ("blank-out", "AtMan", "attention knockout"),
    "resample": ("activation patching", "attribution patching"),
    "replace": ("activation patching", "attribution patching"),
}
"""Measures that do to the model what an operator does: a protocol with it may favour them."""


def same_as_a_judge(judges: Mapping[str, str]) -> list[str]:
    """The measures that do to the model what one of these protocols does."""
    operators = {operator for operator in SHARED for judge in judges.values() if f", {operator}, " in judge}
    return sorted({measure for operator in operators for measure in SHARED[operator]})


def case_table(cases: Mapping[tuple[str, int], Case]) -> pd.DataFrame:
    """What was asked, a row per setting: models, questions of each, candidates and sources per question."""
    rows = [
        {
            "setting": setting,
            "models": 1,
            "questions": len(case.questions),
            "candidates": case.candidates.sum(1).mean(),
            "sources": case.truth.sum(1).mean(),
        }
        for (setting, _), case in cases.items()
    ]
    groups = pd.DataFrame(rows).groupby("setting", sort=False)
    return groups.mean().assign(models=groups.size()).reset_index()


def named_judges(table: pd.DataFrame) -> dict[str, str]:
    """The protocols that the text speaks of, by what it calls them; the best one if none is there."""
    untold = table[~table["protocol"].str.startswith(TOLD)]
    found = {CHOSEN: chosen(table), UNTOLD: chosen(untold), "expected": EXPECTED, "usual": TODAY}
    asked = set(table["protocol"])
    named = {name: judge for name, judge in found.items() if judge is not None and judge in asked}
    return named or {"best here": str(over_settings(table)["protocol"].iloc[0])}


def protocol_table(table: pd.DataFrame) -> pd.DataFrame:
    """Every protocol, a row each, the best first: means over settings, and tau's interval over them."""
    others = table.groupby("protocol", sort=False)[list(COLUMNS[1:])].mean().reset_index()
    return over_settings(table).merge(others, on="protocol").assign(out=lambda rows: rows["ladder"] < LADDER)


def grid(table: pd.DataFrame) -> pd.DataFrame:
    """Mean tau over settings: a row per form, a column per operator and reading."""
    means = over_settings(table)
    parts = means["protocol"].str.rsplit(", ", n=2, expand=True)
    means = means.assign(form=parts[0], operator=parts[1], reading=parts[2])
    return means.pivot_table(index="form", columns=["operator", "reading"], values="value", sort=False)


def by_setting(table: pd.DataFrame) -> pd.DataFrame:
    """Tau of the protocols that the text speaks of, and of plausibility with itself, a row per setting."""
    wide = table.pivot(index="setting", columns="protocol", values="tau").loc[table["setting"].unique()]
    found = pd.DataFrame({name: wide[judge] for name, judge in named_judges(table).items()})
    known = table.drop_duplicates("setting").set_index("setting")["known halves"]
    return found.assign(**{"known answers, by halves": known}).reset_index()


def recorded(
    table: pd.DataFrame,
    apart: pd.DataFrame,
    rankings: Mapping[str, pd.DataFrame],
    predictions: pd.DataFrame,
) -> pd.DataFrame:
    """What is kept of a run, a row per number.

    Args:
        table: of `judged.agreement`.
        apart: the same without measures that do to the model what a judge does.
        rankings: of measures, by what made them; see `tells.method_tables.over_settings`.
        predictions: of `predictions.prediction_table`.
    """
    means = pd.concat(
        [over_settings(table, what).assign(run=ALL, what=what) for what in COLUMNS], ignore_index=True
    )
    groups = halves(table, [*dict.fromkeys(named_judges(table).values())])
    groups = groups[groups["settings"] != "all"].rename(columns={"settings": "run"}).assign(what="tau")
    names = pd.DataFrame(
        [(ALL, f"{name} is", judge, 1.0, 1) for name, judge in named_judges(table).items()],
        columns=["run", "what", "protocol", "value", "n"],
    )
    long = table.melt(["setting", "protocol"], COLUMNS, "what", "value").rename(columns={"setting": "run"})
    long = long[long["protocol"].isin(named_judges(table).values())].assign(n=1)
    alone = over_settings(apart).assign(run=ALL, what=ALONE)
    alone = alone[alone["protocol"].isin(named_judges(table).values())]
    best = pd.concat(
        [
            ranking.assign(
                run=ALL, what=f"{protocol} ranks", protocol=ranking["method"], n=ranking["settings"]
            )
            for protocol, ranking in rankings.items()
        ]
    )
    came = predictions.assign(run=ALL, what="expected", protocol=predictions["prediction"])
    rows = pd.concat([names, means, groups, long, alone, best, came], ignore_index=True).dropna(
        subset="value"
    )
    rows = rows.assign(metric=rows["what"] + ": " + rows["protocol"], n=rows["n"].astype(int))
    return rows[["run", "metric", "value", "low", "high", "n"]]


class Kept(NamedTuple):
    """What a record says.

    Attributes:
        rows: all of it.
        judges: the protocols that the text speaks of, by what it calls them.
        halves: their tau, as `predictions.halves`, with the `judge` as the text calls it.
        by_setting: their tau by setting.
        ranking: of measures, by the chosen judge: columns `method`, `value`, `low`, `high` and `n`.
    """

    rows: pd.DataFrame
    judges: dict[str, str]
    halves: pd.DataFrame
    by_setting: pd.DataFrame
    ranking: pd.DataFrame


def of_record(rows: pd.DataFrame) -> Kept:
    """What `recorded` was given, of the rows of one record; all empty where there is none."""
    rows = rows.reindex(columns=["run", "metric", "value", "low", "high", "n"])
    what, _, of = (rows["metric"].map(lambda name, i=i: name.partition(": ")[i]) for i in range(3))
    rows = rows.assign(what=what.astype(str), protocol=of.astype(str))
    named = rows[rows["what"].str.endswith(" is")]
    judges = dict(zip(named["what"].str.removesuffix(" is"), named["protocol"], strict=True))
    tau = rows[(rows["what"] == "tau") & rows["protocol"].isin(judges.values())]
    groups = tau["run"].isin(GROUPS)
    settings = called_as(judges, tau[~groups & (tau["run"] != ALL)])
    ranking = rows[rows["what"] == f"{judges.get(CHOSEN)} ranks"].assign(method=lambda some: some["protocol"])
    return Kept(
        rows,
        judges,
        called_as(judges, tau[groups].rename(columns={"run": "settings"})),
        settings.pivot(index="run", columns="judge", values="value")
        .reindex(columns=[*judges])
        .reset_index(names="setting"),
        ranking[["method", "value", "low", "high", "n"]].reset_index(drop=True),
    )


def called_as(judges: Mapping[str, str], rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of protocols, again for every name that the text has for one, as `judge`, in the text's order."""
    return pd.concat(
        [rows[rows["protocol"] == protocol].assign(judge=name) for name, protocol in judges.items()]
        or [rows.assign(judge=[])],
        ignore_index=True,
    )
