"""What a finding is: what a study claims, what the records say of it, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from attnlib.stats import with_interval
from book.chapters.records import came_with_the_book

VERDICTS = ("reproduced", "not reproduced", "inconclusive", "not run")
"""What can become of a claim."""

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN = VERDICTS

WEAKER, STRONGER = "weaker than published", "stronger than published"
"""Remarks on an effect whose size the study gives."""


class Number(NamedTuple):
    """The number that a claim stands or falls by: of many cases, of the one that speaks most against it.

    Attributes:
        n: how many units the interval is over.
        units: what these are, "seeds".
        bound: where the verdict turns: between what would reproduce the claim, and what would not.
        unit: of `with_interval`: "%", "points", or "".
        signed: whether a plus is said: of differences.
    """

    value: float
    low: float
    high: float
    n: int
    units: str
    bound: float
    unit: str = ""
    digits: int | None = None
    signed: bool = False

    @property
    def words(self) -> str:
        """It in words: "+41 points [+23, +59; n = 3 seeds]"."""
        counted = f"n = {self.n:,} {self.units}"
        return with_interval(self, self.unit, self.digits, signed=self.signed, beside=[counted])

    @property
    def short(self) -> str:
        """The same without n: "+41 points [+23, +59]"."""
        return with_interval(self, self.unit, self.digits, signed=self.signed)


class Outcome(NamedTuple):
    """What the records say of a claim.

    Attributes:
        verdict: one of `VERDICTS`.
        result: what the number is, in at most 15 words; "" where nothing was run.
        remark: `WEAKER`, `STRONGER` or "".
        more: what else is to be known of it, or "".
        paper: the study's own number of the same thing, or "".
    """

    verdict: str
    result: str = ""
    number: Number | None = None
    remark: str = ""
    more: str = ""
    paper: str = ""

    @property
    def words(self) -> str:
        """The result with its number: "Tokens lost: +0.3 points [+0.1, +0.6; n = 3 seeds]"."""
        return f"{self.result}: {self.number.words}" if self.number else self.result


Answer = Callable[[pd.DataFrame], Outcome]
"""From a chapter's records to what they say."""


class NotRunError(Exception):
    """What a claim is judged by is not in the records."""


@dataclass(frozen=True)
class Claim:
    """What a study says, and where the book looks into it.

    Attributes:
        study: a key of `STUDIES`.
        name: what it is called where there is no room for a sentence: a few words, its own.
        words: the claim, a sentence that could be false.
        chapter: the notebook with the account, whose records decide.
        section: the heading in it under which the account stands.
        rule: what reproduces the claim, with its margin, in words; `answer` is the same in code.
        of: the notebook whose records decide, where it is another.
        before: whether sentence and rule were committed before the first run.
        rows: what reads the rows that decide, where they are not in `results/`.
    """

    study: str
    name: str
    words: str
    chapter: str
    section: str
    rule: str
    answer: Answer
    of: str = ""
    before: bool = False
    rows: Callable[[], pd.DataFrame] | None = None

    @property
    def anchor(self) -> str:
        """The section's anchor in the page."""
        return slug(self.section)


@dataclass(frozen=True)
class Finding:
    """What came of a claim.

    Attributes:
        caveat: what is to be said against these records ("uncommitted changes", say), or "".
    """

    claim: Claim
    outcome: Outcome
    caveat: str = ""


def find(claim: Claim) -> Finding:
    """Judge a claim by its chapter's records that came with the book; without them, it is "not run".

    What is to be said against records counts if the claim would be judged otherwise without them.
    """
    rows = claim.rows() if claim.rows else came_with_the_book(claim.of or claim.chapter)
    outcome = judged(claim, rows)
    if outcome.verdict == NOT_RUN:
        return Finding(claim, outcome)
    against = rows["record"].str.extract(r" \[(.*)\]$")[0]
    same = against.isna().all() or judged(claim, rows[against.isna()]) == outcome
    return Finding(claim, outcome, "" if same else ", ".join(against.dropna().unique()))


def judged(claim: Claim, rows: pd.DataFrame) -> Outcome:
    """What these records say of a claim."""
    try:
        return claim.answer(there(rows))
    except NotRunError as error:
        return Outcome(NOT_RUN, str(error))
    except ValueError as error:
        raise ValueError(
            f"the claim '{claim.name}' of {claim.chapter} cannot be judged by the records in "
            f"results/{claim.of or claim.chapter}: {error}. `python -m book.chapters.findings` judges all"
        ) from error


def slug(heading: str) -> str:
    """The anchor by which Markdown links to a heading, in a file as in a page."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def there(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows."""
    if rows.empty:
        raise NotRunError
    return rows


def one(rows: pd.DataFrame, **where: object) -> Any:
    """The row that has these values in these columns: of several records, that over the most units."""
    for name, value in where.items():
        rows = rows[rows[name] == value]
    if len(there(rows)) > 1 and "record" in rows and not rows["record"].duplicated().any():
        rows = rows[rows["n"].eq(rows["n"].max())]
    if len(rows) > 1:
        raise ValueError(f"{len(rows)} rows have {where}: say which is meant, or take them together")
    return next(rows.itertuples())


def each_of(rows: pd.DataFrame) -> Iterator[Any]:
    """The rows, one by one."""
    return rows.itertuples()


def number(row: Any, units: str, bound: float, **how: Any) -> Number:
    """A row's number and interval, held against a bound; see `Number`."""
    value, low, high = (float(getattr(row, name)) for name in ("value", "low", "high"))
    return Number(value, low, high, int(row.n), units, float(bound), **how)


def percent(row: Any, digits: int = 0) -> str:
    """A share and its interval in percent: "96 % [91, 100]"."""
    return with_interval(row, "%", digits)


def fraction(row: Any, digits: int = 2) -> str:
    """A number and its interval: "0.47 [0.44, 0.50]"."""
    return with_interval(row, digits=digits)


def points(row: Any) -> str:
    """A difference of shares and its interval in points: "+19 points [-10, +47]"."""
    return with_interval(row, "points", signed=True)
