"""Is attention the cause of a failure? A verdict on what is recorded, made when it is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from attnlib.stats import corrected, table_over_seeds
from book.chapters.records import learned_best

CAUSE, PART, NONE, NO_LOSS = "the cause", "a part of it", "no evidence", "no loss shown"
"""What attention may be of a failure; the last where there is none to be explained."""

HALF = 0.5
"""So much of what is lost out of distribution should come back for attention to be the cause."""

LEVEL = 0.05
"""Of the verdicts of one table together."""

NOTHING = "no change"
"""Of attention: a model as it is."""

RIGHT = "right tokens {split}, {change}, {heads} heads"
"""What accuracy under changed attention is recorded as."""

GAIN = "gain, by {change}"
"""What the gain of the best change is recorded as."""

BESIDE_GAINS = ("heads", "ID", "OOD", "changed", "control", "closed", "closed in", "seeds")
"""Numbers of `best_gains` that are recorded, too."""

OVER_SEEDS = ", over seeds"
"""Stands behind the kind of models where a row is of all seeds together."""

_GAIN = r"^(?:gain|verdict: .+), by (?P<change>.+)$"  # older records froze a verdict in the name

_APART = r"OOD length (?:1-10$|100-130)"


def losses(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """What models lose out of distribution: their accuracy in it less that out of it.

    Args:
        rows: `metric` (`RIGHT`, of models as they are), `seed`, `value`, `low`, `high`, and `by`.
        by: what tells kinds of models apart.

    Returns:
        Columns `by`, `lost`, `lost low`, `lost high`. The interval is Student's over seeds; of a single one,
        that of two independent means from those of each (Zou and Donner 2008).
    """
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


def judged(gains: pd.DataFrame) -> pd.DataFrame:
    """Verdicts of one table: does attention cause the failure out of distribution?

    Without a loss (its interval is not above 0) there is nothing to cause. Attention is the cause if a change
    of it is shown to gain, and at least half of what was lost comes back; if less does, it is a part of it.
    A gain is shown if its interval is above 0, and its p below 5 %, by Holm's method over all rows with a
    loss.

    Args:
        gains: `value`, `low`, `high`, `n`, `closed` (see `best_gains`) and `lost low` (see `losses`).

    Returns:
        The same rows with `p_holm` (NaN without a loss) and `verdict`. p is Student's, two-sided, with the
        standard error that the interval has.
    """
    loses, spare = gains["lost low"] > 0, gains["n"] - 1
    half = (gains["high"] - gains["low"]) / 2
    ratio = (gains["value"].abs() * stats.t.ppf(0.975, spare) / half).fillna(0.0)  # 0 / 0: no gain anywhere
    p = np.where(loses, 2 * stats.t.sf(ratio, spare), np.nan)
    found = gains.assign(p_holm=corrected(p))
    shown = (found["low"] > 0) & (found["p_holm"] < LEVEL)
    cases = [~loses, ~shown, found["closed"] >= HALF]
    return found.assign(verdict=np.select(cases, [NO_LOSS, NONE, CAUSE], PART))


def recorded_gains(rows: pd.DataFrame, seeds: int = 2) -> pd.DataFrame:
    """What the best change of attention gains, of all that is recorded with several seeds; not judged yet.

    Args:
        rows: of `records("algorithmic_reasoning")`.
        seeds: so many, at least.

    Returns:
        Columns `kind`, `ranges`, `change`, `value` (the gain), `low`, `high`, `n`, those of
        `BESIDE_GAINS` and of `losses`.
    """
    by = ["record", "kind", "ranges"]
    columns = ["kind", "ranges", "change", "value", "low", "high", "n", *BESIDE_GAINS]
    if "closed in" not in rows:
        return pd.DataFrame(columns=[*columns, "lost", "lost low", "lost high"], dtype=float)
    gains = rows.assign(change=rows["metric"].str.extract(_GAIN)["change"])
    gains = gains[gains["change"].notna() & gains["seeds"].ge(seeds)]
    gains = gains.astype(dict.fromkeys(("n", "heads", "closed in", "seeds"), int))
    return gains[["record", *columns]].merge(losses(rows, by), on=by).drop(columns="record")


def verdict_tables(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The verdicts over seeds of all recorded models from random weights, corrected table by table.

    Args:
        rows: of `records("algorithmic_reasoning")`.

    Returns:
        `judged` gains of models with the positions of a Llama, and of those that differ in their positions.
    """
    found = recorded_gains(of_seeds(rows))
    own = own_positions(found)
    several, by_positions = (judged(part).reset_index(drop=True) for part in (found[~own], found[own]))
    return several, by_positions


def of_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Of models from random weights, of several seeds; of a kind trained in several ways, the best."""
    named = rows["run"].str.contains(rf", seed \d|{OVER_SEEDS}$")
    of_several = rows[named & rows["setting"].str.contains("from scratch")]
    return learned_best(of_several, ["kind", "ranges"], "teacher-forced exact match ID")


def own_positions(rows: pd.DataFrame) -> pd.Series:
    """Whether models are of those that differ in nothing but their positions."""
    return rows["kind"].astype(str).str.endswith(" positions")


def apart(rows: pd.DataFrame) -> pd.Series:
    """Whether ranges are not those of all tasks, towards longer texts.

    They are not of reversal that is tested on shorter strings than in training, and of flip-flop that is
    trained on one length and tested on ten times as many commands.
    """
    return rows["ranges"].astype(str).str.contains(_APART)
