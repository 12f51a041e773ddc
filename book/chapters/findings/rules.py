"""The rules from numbers to verdicts: one rule for each kind of question, shared by all claims.

A number is a row with `value` and the ends `low` and `high` of its 95 % interval; without an interval (NaN),
the number shows nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from attnlib.stats import corrected, table_over_seeds
from book.chapters.findings.finding import (
    INCONCLUSIVE,
    NOT_REPRODUCED,
    REPRODUCED,
    STRONGER,
    WEAKER,
    NotRunError,
)

LEVEL = 0.05


def above(number: Any, bound: float = 0.0) -> str:
    """The verdict that a number is above a bound: yes (no) if its whole interval is above (below)."""
    return _verdict(number.low > bound, number.high < bound)


def ahead(number: Any, margin: float) -> str:
    """The verdict that one thing is better: yes if shown above 0, no if shown below the margin."""
    return _verdict(number.low > 0, number.high < margin)


def no_less(lead: Any, margin: float) -> str:
    """The verdict that nothing is better: yes if the lead is shown below the margin, no if above 0."""
    return _verdict(lead.high < margin, lead.low > 0)


def within(number: Any, centre: float, margin: float) -> str:
    """The verdict that a number is within a margin of another: two one-sided tests, each at 2.5 %."""
    inside = centre - margin < number.low and number.high < centre + margin
    return _verdict(inside, number.high < centre - margin or number.low > centre + margin)


def negated(row: Any) -> Any:
    """A row with its number and interval of the other sign."""
    return row._replace(value=-row.value, low=-row.high, high=-row.low)


def beside(number: Any, published: float) -> str:
    """The remark whether a number is shown to be lower or higher than the study's; "" if neither."""
    return WEAKER if number.high < published else STRONGER if number.low > published else ""


class Cases(NamedTuple):
    """The verdict of a claim about several cases.

    Attributes:
        shown: the number of cases that are shown to be as claimed (in `some` with Holm's correction).
        refuted: the number of cases that are refuted (in `every` with Holm's correction).
        least: the case that decides: the least favourable of `every`, the most favourable of `some`.
    """

    verdict: str
    shown: int
    refuted: int
    n: int
    least: Any


def every(cases: pd.DataFrame, bound: float | str = 0.0, *, seeds: bool = True) -> Cases:
    """The verdict of a claim that a number is above a bound in every case.

    Yes if every case is shown to be above (an intersection of tests), no if one is shown to be below, with
    Holm's correction.
    """
    if cases.empty:
        raise NotRunError
    bounds = cases[bound] if isinstance(bound, str) else pd.Series(float(bound), cases.index)
    cases = cases.assign(bound=bounds.astype(float))
    shown = cases["low"] > cases["bound"]
    refuted = (cases["high"] < cases["bound"]) & (corrected(_p(cases, seeds)) < LEVEL)
    verdict = _verdict(bool(shown.all()), bool(refuted.any()))
    end = cases.loc[refuted, "high"] if verdict == NOT_REPRODUCED else cases["low"].fillna(-np.inf)
    least = (end - cases["bound"]).idxmin()
    return Cases(verdict, int(shown.sum()), int(refuted.sum()), len(cases), _row(cases.loc[[least]]))


def some(cases: pd.DataFrame, bound: float = 0.0, *, whole: bool, seeds: bool = True) -> Cases:
    """The verdict of a claim that a number is above a bound in at least one case.

    Yes if some case is shown to be above, with Holm's correction; no if all possible cases are recorded
    (`whole`) and every one is shown to be below. `least` is the most favourable case.
    """
    if cases.empty:
        raise NotRunError
    cases = cases.assign(bound=float(bound))
    shown = (cases["low"] > bound) & (corrected(_p(cases, seeds)) < LEVEL)
    refuted = cases["high"] < bound
    verdict = _verdict(bool(shown.any()), whole and bool(refuted.all()))
    best = _row(cases.loc[[cases["value"].idxmax()]])
    return Cases(verdict, int(shown.sum()), int(refuted.sum()), len(cases), best)


def paired(first: pd.DataFrame, second: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The mean difference of the first and the second, paired by seed, with Student's interval over seeds."""
    of_seeds = [rows.groupby([*by, "seed"], sort=False)["value"].mean() for rows in (first, second)]
    both = pd.concat(of_seeds, axis=1, keys=["first", "second"]).dropna().reset_index()
    found = table_over_seeds(both.assign(value=both["first"] - both["second"]), by)
    return found.merge(both.groupby(by, sort=False)[["first", "second"]].mean().reset_index(), on=by)


def _verdict(shown: bool, refuted: bool) -> str:
    return REPRODUCED if shown else NOT_REPRODUCED if refuted else INCONCLUSIVE


def _p(cases: pd.DataFrame, seeds: bool) -> np.ndarray:
    """Two-sided p of each case against its bound, from the end of its interval on the bound's side."""
    value, bound = cases["value"].to_numpy(float), cases["bound"].to_numpy(float)
    reach = np.where(value < bound, cases["high"] - value, value - cases["low"])
    spare = np.maximum(cases["n"].to_numpy(float) - 1, 1) if seeds else np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.abs(value - bound) / reach * scipy.stats.t.ppf(0.975, spare)
    p = 2 * scipy.stats.t.sf(ratio, spare)
    return np.where(np.isnan(ratio) & (reach == 0), 1.0, p)


def _row(rows: pd.DataFrame) -> Any:
    return next(rows.itertuples())
