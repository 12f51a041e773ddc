"""Tables of the chapter `judging_measures`, and what is kept of a run."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from book.chapters.judging.judged import over_settings
from book.chapters.judging.predictions import EXPECTED, LADDER, TODAY, chosen, halves
from book.chapters.judging.removal import Case

COLUMNS = ("tau", "somers", "ladder", "above", "halves", "known halves")
"""What `judged.agreement` says of a protocol in a setting."""

ALL = "all settings"

SHARED = {
    "mask": ("blank-out", "AtMan", "attention knockout"),
    "resample": ("activation patching", "attribution patching"),
    "replace": ("activation patching", "attribution patching"),
}
"""Measures that do to the model what an operator does: a protocol with it may favour them."""


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
    """The protocols that the text speaks of, by what it calls them: chosen, expected and today's."""
    found = {"the chosen judge": chosen(table), "the expected one": EXPECTED, "today's": TODAY}
    return {
        name: judge for name, judge in found.items() if judge is not None and judge in set(table["protocol"])
    }


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


def recorded(table: pd.DataFrame, apart: pd.DataFrame) -> pd.DataFrame:
    """What is kept of a run, a row per number.

    Args:
        table: of `judged.agreement`.
        apart: the same without the measures that share the chosen judge's operator.
    """
    means = pd.concat(
        [over_settings(table, what).assign(run=ALL, what=what) for what in COLUMNS], ignore_index=True
    )
    groups = halves(table, [*dict.fromkeys(named_judges(table).values())])
    groups = groups[groups["settings"] != "all"].rename(columns={"settings": "run"}).assign(what="tau")
    long = table.melt(["setting", "protocol"], COLUMNS, "what", "value").rename(columns={"setting": "run"})
    long = long[long["protocol"].isin(named_judges(table).values())].assign(n=1)
    alone = over_settings(apart).assign(run=ALL, what="tau without measures that do the same")
    alone = alone[alone["protocol"].isin(named_judges(table).values())]
    rows = pd.concat([means, groups, long, alone], ignore_index=True).dropna(subset="value")
    rows = rows.assign(metric=rows["what"] + ": " + rows["protocol"], n=rows["n"].astype(int))
    return rows[["run", "metric", "value", "low", "high", "n"]]
