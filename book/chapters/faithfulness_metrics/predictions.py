"""What was laid down before the first run: the settings that choose, the rule, and what was expected."""

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
"""Where the sources are known of one token only, and the model is large."""

RECORDED_SETTINGS = tuple(
    name
    for name, each in SETTINGS.items()
    if each.transformer and name not in (*NO_TRANSFORMER_TRAINED_HERE, *FURTHER)
)
"""The settings of the recorded run, which every measure can be asked of; half of them choose a protocol."""

DRAWN = np.random.default_rng(2026).permutation(len(RECORDED_SETTINGS))

CHOOSING = tuple(RECORDED_SETTINGS[place] for place in sorted(DRAWN[: len(RECORDED_SETTINGS) // 2]))
"""The settings that the protocol is chosen by, drawn before anything was run."""

CONFIRMING = tuple(name for name in RECORDED_SETTINGS if name not in CHOOSING)
"""Those that say what the choice is worth."""

GROUPS = {"chosen on": CHOOSING, "confirmed on": CONFIRMING}
"""The two halves, by what tables call them."""

LADDER = 0.9
"""Somers' D with the order of the ladder, the mean over settings, below which a protocol is out."""

TODAY = called("comprehensiveness", "mask", "p")
"""The metric of the chapter `attribution_benchmark`, and of much of the literature."""

EXPECTED = called("without the first", "replace", "log p")
"""The metric that a trial on some of these settings suggested."""

RECORDED_CHOICE = called("without the first R", "replace", "log p")
"""What `chosen` gave in the recorded run; among those that are not told R, it gave `EXPECTED`.

Settings of `FURTHER` are asked by both, and choose nothing themselves.
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
"""The metric that was expected, but for what it puts in the place of a token: nothing."""

RETRAINED = (
    "The judge that masks the first token and reads log p agrees better with the known answers about models "
    "that were trained with keys hidden"
)
"""Written before the first run of that part: a trial had seen it in arithmetic."""


def chosen(table: pd.DataFrame) -> str | None:
    """The protocol with the highest mean tau over the settings that choose, of those that know the ladder."""
    part = table[table["setting"].isin(CHOOSING)]
    known = part.groupby("protocol", sort=False)["ladder"].mean()
    part = part[part["protocol"].isin(known.index[known >= LADDER])]
    return None if part.empty else str(over_settings(part)["protocol"].iloc[0])


def halves(table: pd.DataFrame, protocols: Sequence[str]) -> pd.DataFrame:
    """Tau of protocols, the mean over the settings that choose, over those that confirm, and over all."""
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
    """What came out in recorded rows; a gain that is significantly below `margin` is not reproduced."""
    table = []
    for each in PREDICTIONS:
        found = one_number(rows, run=settings, metric=f"expected: {each.words}")
        if found is not None:
            said = verdict(found["low"], found["high"])
            small = found["low"] <= 0 <= found["high"] < margin
            table.append((each.words, "not reproduced" if small else said, *found[list(Estimate._fields)]))
    return pd.DataFrame(table, columns=["prediction", "came out", *Estimate._fields])


def prediction_table(table: pd.DataFrame) -> pd.DataFrame:
    """What came out: the difference of tau, the mean over settings, with Student's interval over them."""
    wide = table.pivot(index="setting", columns="protocol", values="tau")
    rows = []
    for each in PREDICTIONS:
        if {each.first, each.second} <= set(wide):
            found = difference(wide[each.first] - wide[each.second])
            rows.append((each.words, verdict(found.low, found.high), *found))
    return pd.DataFrame(rows, columns=["prediction", "came out", "value", "low", "high", "n"])
