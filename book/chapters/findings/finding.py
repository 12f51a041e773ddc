"""What a finding is: what a study claims, what the records say of it, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from attnlib.stats import with_interval
from book.chapters.records import one_number, records

VERDICTS = ("holds", "in part", "does not", "not settled", "not run")
"""What can become of a claim."""


class Crux(NamedTuple):
    """The number that a claim stands or falls by: of many cases, of the one that speaks most against it.

    Attributes:
        of: what it is, in a few words, "against" what.
        value: a share, a correlation, or a difference of such.
        low: of its interval.
        high: of its interval.
        bound: that.
    """

    of: str
    value: float
    low: float
    high: float
    bound: float


class Outcome(NamedTuple):
    """What the records say of a claim.

    Attributes:
        verdict: one of `VERDICTS`.
        found: what came out in a sentence, with number, interval and n; "" where nothing was run.
        more: what else is to be known of it, or "".
        crux: the number that decides.
    """

    verdict: str
    found: str
    more: str = ""
    crux: Crux | None = None


Answer = Callable[[pd.DataFrame], Outcome]
"""From a chapter's records to what they say."""


class NotRunError(Exception):
    """What a claim is judged by is not in the records."""


@dataclass(frozen=True)
class Claim:
    """What a study says, and where the book looks into it.

    Attributes:
        study: a key of `STUDIES`.
        words: the claim, a sentence.
        chapter: the notebook with the account, whose records decide.
        section: the heading in it under which the account stands.
        answer: the rule of the verdict; its docstring says it.
        of: the notebook whose records decide, where it is another.
    """

    study: str
    words: str
    chapter: str
    section: str
    answer: Answer
    of: str = ""

    @property
    def anchor(self) -> str:
        """The section's anchor in the page."""
        return slug(self.section)


@dataclass(frozen=True)
class Finding:
    """What came of a claim.

    Attributes:
        claim: what was claimed.
        outcome: what the records say of it.
        caveat: what is to be said against these records ("other code", say), or "".
    """

    claim: Claim
    outcome: Outcome
    caveat: str = ""


def find(claim: Claim) -> Finding:
    """Judge a claim by its chapter's records; without them, it is "not run".

    What is to be said against a record counts if the claim would be judged otherwise without that record.
    """
    rows = records(claim.of or claim.chapter)
    outcome = judged(claim, rows)
    if outcome.verdict == "not run":
        return Finding(claim, outcome)
    against = rows["record"].str.extract(r" \[(.*)\]$")[0]
    same = against.isna().all() or judged(claim, rows[against.isna()]) == outcome
    return Finding(claim, outcome, "" if same else ", ".join(against.dropna().unique()))


def judged(claim: Claim, rows: pd.DataFrame) -> Outcome:
    """What these records say of a claim."""
    try:
        return claim.answer(some(rows))
    except NotRunError:
        return Outcome("not run", "")


def slug(heading: str) -> str:
    """The anchor by which Markdown links to a heading, in a file as in a page."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def some(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows.

    Raises:
        NotRunError: there are none.
    """
    if rows.empty:
        raise NotRunError
    return rows


def one(rows: pd.DataFrame, **where: object) -> Any:
    """The row that has these values in these columns.

    Raises:
        NotRunError: there is none.
        ValueError: there are several, so that it is not said which is meant.
    """
    for name, value in where.items():
        rows = rows[rows[name] == value]
    if len(some(rows)) > 1:
        raise ValueError(f"{len(rows)} rows have {where}: say which is meant")
    return next(rows.itertuples())


def of_largest(rows: pd.DataFrame, **where: object) -> pd.DataFrame:
    """The rows of the record whose such number rests on the most units, of equals the latest: as on pages.

    Raises:
        NotRunError: no record has such a number.
    """
    found = one_number(rows, **where)
    if found is None:
        raise NotRunError
    return rows[rows["record"] == found["record"]]


def how_many(hold: pd.Series) -> str:
    """The verdict of a claim about many cases: "holds" in all of them, "in part" in some, else "does not"."""
    return "holds" if hold.all() else "in part" if hold.any() else "does not"


def shown_in(shown: pd.Series) -> str:
    """The same where intervals have to show it: what they show in no case is "not settled"."""
    return how_many(shown) if shown.any() else "not settled"


def against(low: float, high: float, bound: float = 0.0) -> str:
    """The verdict of a claim that a number is above a bound, by its interval."""
    return "holds" if low > bound else "does not" if high < bound else "not settled"


def partly(low: float, high: float) -> str:
    """The verdict of a claim of which a number above 0 would show no more than a part, by its interval."""
    return "in part" if low > 0 else against(low, high)


def crux(of: str, row: Any, bound: float) -> Crux:
    """A row's number and interval, held against a bound."""
    return Crux(of, float(row.value), float(row.low), float(row.high), float(bound))


def percent(row: Any, digits: int = 0) -> str:
    """A share and its interval in percent: "96 % [91, 100]"."""
    return with_interval(row, "%", digits)


def number(row: Any, digits: int = 2) -> str:
    """A number and its interval: "0.47 [0.44, 0.50]"."""
    return with_interval(row, digits=digits)


def points(row: Any) -> str:
    """A difference of shares and its interval in points: "+19 points [-10, +47]"."""
    return with_interval(row, "points", signed=True)
