"""Decisions from before the first run: the settings that select a metric, the rule, and the predictions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from attnlib.stats.intervals import Estimate
from book.chapters.attribution_benchmark.settings import FURTHER, SETTINGS
from book.chapters.attribution_benchmark.tables import verdict
from book.chapters.faithfulness_metrics.measures import called, difference, estimate, over_settings
from book.chapters.records.numbers import one_number

NO_TRANSFORMER_TRAINED_HERE = ("needle",)
"""The setting with a large pretrained model, whose ground truth is a single token."""

RECORDED_SETTINGS = tuple(
    name
    for name, each in SETTINGS.items()
    if each.transformer and name not in (*NO_TRANSFORMER_TRAINED_HERE, *FURTHER)
)
"""The settings of the recorded run, to which every measure applies; half of them select a protocol."""

DRAWN = np.random.default_rng(2026).permutation(len(RECORDED_SETTINGS))

CHOOSING = tuple(RECORDED_SETTINGS[place] for place in sorted(DRAWN[: len(RECORDED_SETTINGS) // 2]))
"""The settings that select the protocol, drawn before anything was run."""

CONFIRMING = tuple(name for name in RECORDED_SETTINGS if name not in CHOOSING)
"""The settings that test the selected protocol."""

GROUPS = {"chosen on": CHOOSING, "confirmed on": CONFIRMING}
"""The two halves by their names in tables."""

LADDER = 0.9
"""Mean Somers' D over settings with the order of the ladder, below which a protocol is excluded."""

TODAY = called("comprehensiveness", "mask", "p")
"""The metric of the chapter `attribution_benchmark`, and of much of the literature."""

EXPECTED = called("without the first", "replace", "log p")
"""The metric that a trial on some of these settings suggested."""

RECORDED_CHOICE = called("without the first R", "replace", "log p")
"""The result of `chosen` in the recorded run; among protocols that do not know R, the result was `EXPECTED`.

Settings of `FURTHER` are evaluated by both, and take no part in the selection.
"""


class Expected(NamedTuple):
    """The prediction that the protocol `first` agrees better with the ground truth than `second`."""

    words: str
    first: str
    second: str


_FIRST, _SHARES = partial(called, "without the first"), partial(called, "comprehensiveness")

PREDICTIONS = (
    Expected(
        "The drop of log p without the first token, replaced, agrees better than today's judge",
        EXPECTED,
        TODAY,
    ),
    Expected(
        "Tokens are better replaced by those of the same place than masked", EXPECTED, _FIRST("mask", "log p")
    ),
    Expected(
        "Tokens are better replaced by those of the same place than by random ones",
        EXPECTED,
        _FIRST("random", "log p"),
    ),
    Expected("log p is the better reading than p against a foil", EXPECTED, _FIRST("replace", "p")),
    Expected(
        "The first token alone tells more than shares of the tokens", EXPECTED, _SHARES("replace", "log p")
    ),
    Expected("So does LDS", called("LDS", "replace", "log p"), _SHARES("replace", "log p")),
    Expected("Deleting tokens is better than masking them", _SHARES("delete", "p"), TODAY),
)
"""Written before the first run of this chapter, and not changed since."""

MASKING = called("without the first", "mask", "log p")
"""The metric `EXPECTED` with masking in place of replacement."""

RETRAINED = (
    "The judge that masks the first token and reads log p agrees better with the known answers about models "
    "that were trained with keys hidden"
)
"""Written before the first run of that part: a trial had seen it in arithmetic."""


def chosen(table: pd.DataFrame) -> str | None:
    """The protocol with the highest mean tau over `CHOOSING` among those that reach `LADDER`, or `None`."""
    part = table[table["setting"].isin(CHOOSING)]
    known = part.groupby("protocol", sort=False)["ladder"].mean()
    part = part[part["protocol"].isin(known.index[known >= LADDER])]
    return None if part.empty else str(over_settings(part)["protocol"].iloc[0])


def halves(table: pd.DataFrame, protocols: Sequence[str]) -> pd.DataFrame:
    """The mean tau of protocols over `CHOOSING`, over `CONFIRMING`, and over all recorded settings."""
    groups = GROUPS | {"all": RECORDED_SETTINGS}
    rows = [
        (
            protocol,
            name,
            *estimate(table.loc[table["setting"].isin(some) & (table["protocol"] == protocol), "tau"]),
        )
        for protocol in dict.fromkeys(protocols)
        for name, some in groups.items()
    ]
    return pd.DataFrame(rows, columns=["protocol", "settings", "value", "low", "high", "n"]).dropna(
        subset="value"
    )


def recorded_prediction_table(rows: pd.DataFrame, settings: str, margin: float) -> pd.DataFrame:
    """The outcomes in recorded rows; an interval that contains 0 and ends below `margin`: not reproduced."""
    table = []
    for each in PREDICTIONS:
        found = one_number(rows, run=settings, metric=f"expected: {each.words}")
        if found is not None:
            said = verdict(found["low"], found["high"])
            small = found["low"] <= 0 <= found["high"] < margin
            table.append((each.words, "not reproduced" if small else said, *found[list(Estimate._fields)]))
    return pd.DataFrame(table, columns=["prediction", "came out", *Estimate._fields])


def prediction_table(table: pd.DataFrame) -> pd.DataFrame:
    """The outcomes: the mean difference of tau over settings, with Student's interval over settings."""
    wide = table.pivot(index="setting", columns="protocol", values="tau")
    rows = []
    for each in PREDICTIONS:
        if {each.first, each.second} <= set(wide):
            found = difference(wide[each.first] - wide[each.second])
            rows.append((each.words, verdict(found.low, found.high), *found))
    return pd.DataFrame(rows, columns=["prediction", "came out", "value", "low", "high", "n"])
